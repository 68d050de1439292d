"""The summaries of tasks: where each stands, as everybody may see it who looks at one or at the list.

What must stay true: what is said of a task was so at a moment after it was asked for. What a requestor polls and what
everybody lists who comes is read on the event loop where that takes microseconds: a thread that is woken for it, and
wakes the loop again, takes ten times as long, the more the quieter the machine is.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from thebes.coordinator.api.single_flight import Together
from thebes.coordinator.people.request_handler import ContributionHandler
from thebes.coordinator.sites.site_tasks import Inquiries
from thebes.coordinator.storage.store import CoordinatorStore
from thebes.coordinator.storage.task_standing import TaskStanding
from thebes.coordinator.tasks.states import Status
from thebes.coordinator.tasks.task_feed import Notice, Notices
from thebes.coordinator.tasks.task_watch import TaskWatch
from thebes.tasks.document import InvalidDocument
from thebes.tasks.kind_failure import KindFailed
from thebes.tasks.site_document import SiteDocument

Summary = dict[str, Any]
_SHORT = 2**16  #: bytes of a list that is made on the event loop


class TaskSummaries:
    """Summaries of one coordinator process's tasks. `in_reader` runs what waits for a database."""

    def __init__(
        self,
        store: CoordinatorStore,
        notices: Notices,
        inquiries: Inquiries,
        contributions: ContributionHandler,
        in_reader: Callable[[Callable[[], Any]], Awaitable[Any]],
    ) -> None:
        self._store, self._notices = store, notices
        self._inquiries, self._contributions = inquiries, contributions
        self._in_reader = in_reader
        self.watch = TaskWatch(self._status)
        self._listing = Together(self._list)
        self._length = 0  #: of the list that was made last

    async def active(self) -> list[Summary]:
        """Every task that is open or running, oldest first."""
        told: list[Summary] = await self._in_reader(lambda: self._summaries(self._store.active()))
        return told

    async def listed(self) -> bytes:
        """The same as JSON: what everybody asks for who comes, read and written once for all who ask meanwhile."""
        return await self._listing.get()

    async def ended(self, *, skip: int, most: int) -> list[Summary]:
        """Tasks that are over, the one put up last first."""
        told: list[Summary] = await self._in_reader(lambda: self._summaries(self._store.ended(skip=skip, most=most)))
        return told

    async def task(self, task_id: str, *, wait: float = 0.0) -> tuple[Summary, str | None]:
        """A task, and its latest release as the JSON text that was stored; of what is being trained, as it stands.
        With `wait`, one that goes on is told of once its status has changed, or after so many seconds; one that is
        trained without end, whose status does not change, at once."""
        known = self._notices.kept(task_id)
        if wait and (known is None or not known.endless) and not (was := await self._status(task_id)).final:
            await self.watch.moved(task_id, was, wait)
        standing = self._store.standing(task_id) if self._may_read(task_id) else None
        if standing is not None and _released_nothing(standing):
            summary, release = self._summary(standing, None), None
        else:
            summary, release = await self._in_reader(lambda: self._whole(task_id))
        notice = self._notices.kept(task_id)  # none of a task whose document nothing here reads
        if release is None and notice is not None and notice.endless:
            training = await self._contributions.training(task_id)
            release = None if training is None else await training.release()
        return summary, release

    async def _status(self, task_id: str) -> Status:
        if self._store.database.alone:
            return self._store.standing(task_id).status
        found: Status = await self._in_reader(lambda: self._store.standing(task_id).status)
        return found

    def _whole(self, task_id: str) -> tuple[Summary, str | None]:
        standing = self._store.standing(task_id)
        summary = self._summaries([standing])[0]
        if standing.of_sites:
            summary["refusals"] = self._inquiries.refusals(standing)
        return summary, self._store.release(task_id)

    async def _list(self) -> bytes:
        if self._store.database.alone and self._length <= _SHORT:
            standings = self._store.active()
            if all(self._may_read(standing.id) for standing in standings):
                return self._as_list(standings)
        told: bytes = await self._in_reader(lambda: self._as_list(self._store.active()))
        return told

    def _as_list(self, standings: Sequence[TaskStanding]) -> bytes:
        tasks = self._summaries(standings)
        told = json.dumps(tasks, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        self._length = len(told)
        return told

    def _may_read(self, task_id: str) -> bool:
        """Return whether nothing but a row is read for what is said of a task that people answer: the event loop asks,
        and no server is waited for."""
        notice = self._notices.kept(task_id)
        return self._store.database.alone and notice is not None and not isinstance(notice.document, SiteDocument)

    # --- one task ---------------------------------------------------------------------------------------

    def _summaries(self, standings: Sequence[TaskStanding]) -> list[Summary]:
        going = self._inquiries.going(standings)
        return [self._summary(standing, going.get(standing.id)) for standing in standings]

    def _summary(self, standing: TaskStanding, going: Mapping[str, Any] | None) -> Summary:
        """`going` is how a task goes that sites answer and that is not over."""
        told = {
            "task_id": standing.id,
            "status": str(standing.status),
            "digest": standing.digest,
            "requestor": standing.requestor,
            "created": datetime.fromtimestamp(standing.created, UTC).isoformat(timespec="seconds"),
        }
        try:
            notice = self._notices.of(standing.id)
        except (InvalidDocument, KindFailed) as failed:
            return {**told, **self._unread(standing, failed)}
        return {
            **told,
            "type": notice.document.type,
            "document": notice.as_json,
            "explanation": notice.explanation,
            "price": notice.price,
            **self._counted(standing, notice, going),
        }

    def _unread(self, standing: TaskStanding, failed: Exception) -> Summary:
        """Return as much as its stored document says of a task whose kind is gone, or reads it no more."""
        whole = self._store.document(standing.id)
        return {
            "type": whole["type"],
            "document": whole,
            "explanation": f"Nothing here can say what this task is: {failed}",
            "price": None,
            "contributions": standing.accepted,
            "min_count": whole.get("min_count") or 1,
            "phase": standing.phase,
            "phases": standing.phase + 1,
        }

    def _counted(self, standing: TaskStanding, notice: Notice, going: Mapping[str, Any] | None) -> Summary:
        """Tell who has contributed so far, and how many are needed."""
        document = notice.document
        if isinstance(document, SiteDocument):
            return self._inquiries.summary(standing, document, notice.asked, going)
        training = self._contributions.trainings.of(standing.id)
        return {
            "contributions": standing.accepted if training is None else sum(training.aggregator.counts),
            "min_count": document.min_count,
            "phase": standing.phase,
            "phases": document.phases,
        }


def _released_nothing(standing: TaskStanding) -> bool:
    return standing.status is Status.OPEN and not standing.phase
