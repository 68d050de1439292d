"""The operation of a coordinator as its operator sees it: how things stand, how long they take, what is refused."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import select

from thebes.coordinator.auth.accounts import Role, Somebody
from thebes.coordinator.process.metrics import CoordinatorMetrics
from thebes.coordinator.sites.site_tasks import STATES, Inquiries
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import TASK
from thebes.coordinator.tasks.states import Status
from thebes.wire.refusals import NotAllowed

T = TypeVar("T")
_SHARE = 0.99


class CoordinatorOperation:
    """The state of one coordinator at work. `readers` are the threads that ask the database."""

    def __init__(
        self, database: Database, inquiries: Inquiries, metrics: CoordinatorMetrics, readers: Executor
    ) -> None:
        self._database, self._inquiries, self._readers = database, inquiries, readers
        self.metrics = metrics

    async def counts(self) -> dict[str, dict[str, int]]:
        """Count the tasks of each status, the phases that are to be ended, and the tasks for which sites are asked."""
        return await self._read(self._counts)

    async def measured(self) -> None:
        """Say in the figures how things stand now."""
        self._stand(await self._read(self._inquiries.sites), await self.counts())

    async def told(self, asking: Somebody) -> dict[str, Any]:
        """Tell operators and auditors how this coordinator works: tasks by status, sites, what waits, within which time
        99 of 100 requests and phases were over, and who refused why."""
        if asking.role not in (Role.OPERATOR, Role.AUDITOR):
            raise NotAllowed("only operators and auditors see how a coordinator works")
        sites, counts = await self._read(self._inquiries.sites), await self.counts()
        self._stand(sites, counts)
        return {
            **counts,
            "sites": sites,
            "refusals": self.metrics.refusals(),
            "requests_within": self.metrics.request_quantile(_SHARE),
            "phases_within": self.metrics.phase_quantile(_SHARE),
        }

    def _stand(self, sites: list[dict[str, Any]], counts: dict[str, dict[str, int]]) -> None:
        states = Counter(site["state"] for site in sites)
        self.metrics.stand(sites={state: states[state] for state in STATES}, **counts)

    def _counts(self) -> dict[str, dict[str, int]]:
        of_people = (TASK.c.sites.is_(None), TASK.c.status == Status.RUNNING)
        of_sites = (TASK.c.sites.is_not(None), TASK.c.status.in_((Status.OPEN, Status.RUNNING)))
        each = {"phases": of_people, "site-tasks": of_sites}
        works = select(*(select(sa.func.count()).where(*of).scalar_subquery().label(name) for name, of in each.items()))
        tasks = select(TASK.c.status, sa.func.count()).group_by(TASK.c.status)

        def work(connection: sa.Connection) -> dict[str, dict[str, int]]:
            found = {row[0]: row[1] for row in connection.execute(tasks)}
            queue = dict(connection.execute(works).one()._mapping)
            return {"tasks": {str(status): found.get(status, 0) for status in Status}, "queue": queue}

        return self._database.read(work)

    async def _read(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)
