"""The tables of tasks of people that have a helper, as the process that speaks with sites reads and writes them.

What must stay true: a job is put together once and written down before the helper hears of it; what is not counted is
taken off the count, and its record destroyed, in the same moment as the verdict is stored; a sum is stored once, for a
closed phase whose counted reports it is over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import select

from thebes.coordinator.sites.site_store import say_farewell
from thebes.coordinator.storage.database import Database, QuickStatement
from thebes.coordinator.storage.schema import CONTRIBUTION, HELPED, HELPED_JOB, TASK
from thebes.coordinator.tasks.states import Status

_TOGETHER = HELPED.join(TASK, TASK.c.id == HELPED.c.task)
_OPEN: sa.ColumnElement[str] = sa.literal_column(f"'{Status.OPEN}'")
_RUNNING: sa.ColumnElement[str] = sa.literal_column(f"'{Status.RUNNING}'")
_FINAL: list[sa.ColumnElement[str]] = [sa.literal_column(f"'{status}'") for status in Status if status.final]
_LED = (
    *(TASK.c.id, HELPED.c.helper, TASK.c.requestor, TASK.c.document, TASK.c.status, TASK.c.part, TASK.c.accepted),
    *(TASK.c.least, TASK.c.wanted, TASK.c.expires, HELPED.c.opened),
)
# What is read at every look. A run asks the helper of a task of sites.
_DUE = QuickStatement(
    select(*_LED)
    .select_from(_TOGETHER)
    .where(
        TASK.c.sites.is_(None),
        sa.or_(
            sa.and_(TASK.c.status == _OPEN, HELPED.c.opened.is_(None)),
            sa.and_(TASK.c.status == _RUNNING, HELPED.c.sum.is_(None)),
        ),
    )
    .order_by(TASK.c.created)
)
_UNTOLD = QuickStatement(
    select(HELPED.c.task, HELPED.c.helper)
    .select_from(_TOGETHER)
    .where(HELPED.c.told == sa.literal_column("0"), TASK.c.status.in_(_FINAL), TASK.c.following.is_(None))
)


@dataclass(frozen=True, slots=True)
class LedTask:
    """A task that its helper is to do something for. `opened` are the helper's keys, sealed; None before it said
    them."""

    id: str
    helper: str
    requestor: str
    document: Mapping[str, Any]
    status: Status
    part: str
    accepted: int
    least: int
    wanted: int
    expires: float
    opened: bytes | None


@dataclass(frozen=True, slots=True)
class VerifyJob:
    """Reports that are verified together: (contributor, nonce in hex). `counted` is the helper's verdict, once it is
    stored."""

    number: int
    reports: Sequence[tuple[str, str]]
    counted: str | None = None


class HelpedStore:
    """One coordinator's."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def due(self) -> list[LedTask]:
        """Return the tasks whose helper is to open them, or to verify and add up."""
        return [
            LedTask(id_, helper, requestor, json.loads(document), Status(status), *rest)
            for id_, helper, requestor, document, status, *rest in self._database.quick(_DUE)
        ]

    def open(self, task_id: str, sealed: bytes) -> None:
        """Store the helper's keys, unless there are some."""
        own = (HELPED.c.task == task_id, HELPED.c.opened.is_(None))
        self._database.write(lambda c: c.execute(HELPED.update().where(*own).values(opened=sealed)))

    def unassigned(self, task: LedTask, most: int) -> list[tuple[str, bytes]]:
        """Return (contributor, record) of reports that are in no job yet, at most so many."""
        known = {contributor for job in self.jobs(task.id) for contributor, _ in job.reports}
        query = select(CONTRIBUTION.c.contributor).where(*_there(task))

        def work(connection: sa.Connection) -> list[tuple[str, bytes]]:
            # Names first: records are long, and those of earlier jobs are not needed.
            there = connection.scalars(query.order_by(CONTRIBUTION.c.contributor))
            names = [name for name in there if name not in known][:most]
            found = _records(connection, task, names)
            return [(name, found[name]) for name in names if name in found]

        return self._database.read(work)

    def records(self, task: LedTask, job: VerifyJob) -> list[bytes] | None:
        """Return the records of a job that waits for its verdict, in its order; None where one is not there any more:
        another process stored the verdict meanwhile."""
        names = [contributor for contributor, _ in job.reports]
        found = self._database.read(lambda c: _records(c, task, names))
        return [found[name] for name in names] if found.keys() >= set(names) else None

    def jobs(self, task_id: str) -> list[VerifyJob]:
        query = select(HELPED_JOB).where(HELPED_JOB.c.task == task_id).order_by(HELPED_JOB.c.number)
        rows = self._database.read(lambda c: c.execute(query).all())
        return [VerifyJob(row.number, [tuple(each) for each in json.loads(row.reports)], row.counted) for row in rows]

    def assign(self, task: LedTask, job: VerifyJob, twice: Sequence[str]) -> bool:
        """Write a job down, and take off the count whose reports can be in none; False where the task goes on no more.
        Whoever would put the same one together at the same moment finds that it is there."""
        row = {"task": task.id, "number": job.number, "reports": json.dumps(list(job.reports))}

        def work(connection: sa.Connection) -> None:
            _take_away(connection, task, twice)
            if job.reports:
                connection.execute(HELPED_JOB.insert().values(**row))

        return self._while_closed(task.id, work)

    def judge(self, task: LedTask, job: VerifyJob, counted: str, agreed: Sequence[bool]) -> None:
        """Store the helper's verdict (`counted`), and take off the count what either server does not count."""
        away = [who for (who, _), good in zip(job.reports, agreed, strict=True) if not good]

        def work(connection: sa.Connection) -> None:
            own = (HELPED_JOB.c.task == task.id, HELPED_JOB.c.number == job.number, HELPED_JOB.c.counted.is_(None))
            if connection.execute(HELPED_JOB.update().where(*own).values(counted=counted)).rowcount == 1:
                _take_away(connection, task, away)

        self._while_closed(task.id, work)

    def counted(self, task: LedTask) -> tuple[list[str], list[str]]:
        """Return the nonces of what both servers count, and of what the helper counts and this one does not (any
        more)."""
        query = select(CONTRIBUTION.c.contributor).where(*_there(task))
        here = set(self._database.read(lambda c: c.scalars(query).all()))
        both, dropped = list[str](), list[str]()
        for job in self.jobs(task.id):
            for (who, nonce), said in zip(job.reports, job.counted or "", strict=True):
                if said == "1":
                    (both if who in here else dropped).append(nonce)
        return both, dropped

    def accepted(self, task_id: str) -> int:
        query = select(TASK.c.accepted).where(TASK.c.id == task_id)
        return int(self._database.read(lambda c: c.scalar(query)) or 0)

    def reopen(self, task: LedTask) -> None:
        """Go on hearing: too few of what was sent was counted, and there is time left."""
        self._while_closed(task.id, lambda c: _stands(c, task.id, status=str(Status.OPEN)))

    def conclude(self, task: LedTask, total: Sequence[int]) -> None:
        """Store the helper's noised sum; from here on the worker ends the task."""
        own = (HELPED.c.task == task.id, HELPED.c.sum.is_(None))
        written = json.dumps(list(total))
        self._while_closed(task.id, lambda c: c.execute(HELPED.update().where(*own).values(sum=written)))

    def end(self, task_id: str, status: Status) -> None:
        """End a task without an answer: EXPIRED where too few were counted in time, FAILED where its helper refuses."""
        going = (TASK.c.id == task_id, TASK.c.status.in_([str(Status.OPEN), str(Status.RUNNING)]))
        over = {"status": str(status), "leftovers": 1, "holder": None, "held_until": None, "snapshot": None}
        self._database.write(lambda c: c.execute(TASK.update().where(*going).values(**over)))

    def say_farewells(self) -> None:
        """Have the helpers of tasks that are over told so, and forget what only the verifying needed."""
        if not self._database.quick(_UNTOLD):
            return

        def work(connection: sa.Connection) -> None:
            for task, helper in _UNTOLD.on(connection, {}):
                say_farewell(connection, task, [helper])
                connection.execute(HELPED_JOB.delete().where(HELPED_JOB.c.task == task))
                gone = {"told": 1, "opened": None, "sum": None}
                connection.execute(HELPED.update().where(HELPED.c.task == task).values(**gone))

        self._database.write(work)

    def _while_closed(self, task_id: str, work: Callable[[sa.Connection], Any]) -> bool:
        """Do it only while the phase is closed and the helper's sum is not there; else nothing. Whether it was done."""

        def locked(connection: sa.Connection) -> bool:
            row = connection.execute(select(TASK.c.status).where(TASK.c.id == task_id).with_for_update()).first()
            said = connection.scalar(select(HELPED.c.sum).where(HELPED.c.task == task_id))
            going = row is not None and row.status == Status.RUNNING and said is None
            if going:
                work(connection)
            return going

        return self._database.write(locked)


def _take_away(connection: sa.Connection, task: LedTask, contributors: Sequence[str]) -> None:
    gone = CONTRIBUTION.update().where(*_there(task), CONTRIBUTION.c.contributor.in_(list(contributors)))
    taken = connection.execute(gone.values(record=None, withdrawn=1)).rowcount if contributors else 0
    if taken:
        now = connection.scalar(select(TASK.c.accepted).where(TASK.c.id == task.id)) or 0
        _stands(connection, task.id, accepted=now - taken, counts=json.dumps([now - taken]))


def _stands(connection: sa.Connection, task_id: str, **changed: Any) -> None:
    connection.execute(TASK.update().where(TASK.c.id == task_id).values(**changed))


def _there(task: LedTask) -> tuple[sa.ColumnElement[bool], ...]:
    """Return what holds of the contributions that are heard and not taken back."""
    return (CONTRIBUTION.c.task == task.id, CONTRIBUTION.c.part == task.part, CONTRIBUTION.c.withdrawn == 0)


def _records(connection: sa.Connection, task: LedTask, names: Sequence[str]) -> dict[str, bytes]:
    """Return the records of these contributors, by their names."""
    query = select(CONTRIBUTION.c.contributor, CONTRIBUTION.c.record)
    query = query.where(*_there(task), CONTRIBUTION.c.contributor.in_(names))
    return {row[0]: row[1] for row in connection.execute(query)}
