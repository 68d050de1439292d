"""A home's dealings with its coordinator: the tasks that it offers, what was agreed to, and what came of that."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from thebes.data.store import Store
from thebes.person import coordinator_identity
from thebes.person.budget.budget import PersonBudget
from thebes.person.notices import QuestionNotices
from thebes.person.participation import lineage_report
from thebes.person.participation.group_tokens import Memberships
from thebes.person.participation.report import ParticipationReport
from thebes.person.participation.schedule import Pacing
from thebes.person.participation.seal import Seal
from thebes.person.participation.worker import Work
from thebes.person.settings import PersonSettings
from thebes.person.tasks.decisions import Decisions
from thebes.person.tasks.own_data import OwnData
from thebes.person.tasks.task_feed import TaskFeed
from thebes.person.tasks.task_store import TaskStore
from thebes.privacy.faults import ThebesError
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import NotFound

log = logging.getLogger(__name__)


class CoordinatorTasks:
    """All that a home needs its coordinator for, wired together. `hidden`: a proxy hides whose what is sent is."""

    def __init__(
        self,
        client: CoordinatorClient,
        *,
        home: Path,
        task_store: TaskStore,
        budget: PersonBudget,
        seal: Seal,
        store: Store,
        own_data: OwnData,
        report: ParticipationReport,
        settings: Callable[[], PersonSettings],
        clock: Callable[[], float],
        delay: bool,
        hidden: bool,
    ) -> None:
        self.client, self._task_store = client, task_store
        self._about: dict[str, str | None] | None = None  #: what the coordinator says of itself, once it was asked
        self.feed = TaskFeed(client, task_store, home, clock=clock)
        self.memberships = Memberships(task_store=task_store, seal=seal, client=client, listed=self.feed.listed)
        self.work = Work(
            task_store=task_store,
            budget=budget,
            seal=seal,
            client=client,
            memberships=self.memberships,
            store=store,
            listed=self.feed.listed,
            helpers=lambda: settings().helpers,
            counted=self.feed.count,
            clock=clock,
            pacing=Pacing(lambda: settings().delay_seconds, clock, waits=delay),
            hidden=hidden,
            steady=delay,
        )
        self.decisions = Decisions(
            feed=self.feed,
            task_store=task_store,
            budget=budget,
            work=self.work,
            own_data=own_data,
            report=report,
            client=client,
            memberships=self.memberships,
            settings=settings,
            clock=clock,
            delay=delay,
        )
        self.notices = QuestionNotices(task_store, self.feed, on=lambda: settings().notices, clock=clock)
        self.work.recover()

    def lineage(self) -> list[dict[str, Any]]:
        """Tell where what left went. The coordinator is not asked."""
        return lineage_report.lineage(self._task_store, self.work.lineage, self.feed.documents())

    def look_for_receipts(self, task_id: str) -> list[dict[str, Any]]:
        """Look anew whether the release of a task holds the receipts of this home."""
        mine = [p for p in self._task_store.participations(task_id=task_id) if self._task_store.receipts(p)]
        if not mine:
            raise NotFound("nothing of yours left for this task")
        for participation in mine:
            self.work.lineage.look(participation, asked=True)
        return [each for each in self.lineage() if each["task_id"] == task_id]

    def about(self) -> dict[str, str | None]:
        """Tell who runs the coordinator; it is asked once, so that looking at a page tells it nothing."""
        if self._about is None:
            self._about = coordinator_identity.about(self.client)
        return dict(self._about)

    def poll(self) -> None:
        """Look for results, for tasks that standing rules cover, and once a day for new ones."""
        for look in (self.work.watch, self.decisions.apply_rules, self.notices.look):
            try:
                look()
            except ThebesError as error:
                log.info("the coordinator could not be asked: %s", error, extra={"event": "coordinator.away"})
