"""The store of what a coordinator remembers: tasks, contributions until they are used, releases, the task list.

What must stay true: a contribution that was acknowledged is in the database, once; a task takes exactly as many as
it wants; what was acknowledged after a phase closed does not exist.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import select

from thebes.coordinator.sites.site_store import say_farewell
from thebes.coordinator.storage.contribution_intake import ContributionDelivery, Taken, take
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import COLLECTOR, CONTRIBUTION, HELPED, RELEASE, TASK
from thebes.coordinator.storage.task_list import append, entries, list_alone
from thebes.coordinator.storage.task_standing import ACTIVE, STANDING, STANDS, TaskStanding, count, locked
from thebes.coordinator.tasks.states import Status
from thebes.coordinator.training import model_store
from thebes.privacy.faults import ThebesError
from thebes.tasks.aggregation.packets import phase_of
from thebes.tasks.protocols import TaskClosed
from thebes.wire import receipts
from thebes.wire.refusals import Conflict, NotAllowed, NotFound
from thebes.wire.task_log import TaskLogEntry


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task as it is first written down. Times are seconds since 1970."""

    id: str
    requestor: str
    digest: str
    document: Mapping[str, Any]
    created: float
    expires: float | None
    trusted: bool
    part: str
    packets: int
    least: int
    wanted: int
    models: Sequence[bytes] = ()  #: of a task that is trained without end, the first ones
    facts: Mapping[str, Any] | None = None
    sites: Mapping[str, Any] | None = None  #: of one that institutions answer: who is `asked`, who is `left_out`
    helper: str | None = None  #: of one whose answers go to two servers: the site that is the second


class CoordinatorStore:
    """The server's side of the database; the worker's side is `Desk`."""

    def __init__(self, database: Database) -> None:
        self.database = database

    # --- tasks ------------------------------------------------------------------------------------------

    def add(self, task: NewTask, *, most: int | None = None) -> TaskLogEntry:
        """Write a task down and append it to the list, both or neither; a refusal, and nothing is written, where its
        requestor has `most` open or running already, whichever process put them up."""

        def work(connection: sa.Connection) -> TaskLogEntry:
            list_alone(connection)  # before it is counted: many may be put up in the same moment
            if most is not None:
                check_under_way(_under_way(connection, task.requestor), most)
            connection.execute(
                TASK.insert().values(
                    id=task.id,
                    requestor=task.requestor,
                    digest=task.digest,
                    document=json.dumps(task.document),
                    created=task.created,
                    expires=task.expires,
                    trusted=int(task.trusted),
                    status=str(Status.OPEN),
                    phase=0,
                    part=task.part,
                    least=task.least,
                    wanted=task.wanted,
                    accepted=0,
                    counts=json.dumps([0] * task.packets),
                    leftovers=0,
                    sites=None if task.sites is None else json.dumps(task.sites),
                )
            )
            if task.helper is not None:
                connection.execute(HELPED.insert().values(task=task.id, helper=task.helper, told=0))
            if task.facts is not None:
                model_store.begin(connection, task.id, task.models, task.facts)
            return append(connection, task.id, task.digest)

        return self.database.write(work)

    def standing(self, task_id: str) -> TaskStanding:
        """Return where a task stands; NotFound where there is none."""
        rows = self.database.quick(STANDS, task=task_id)
        if not rows:
            raise NotFound("there is no such task")
        return TaskStanding.of(rows[0])

    def document(self, task_id: str) -> dict[str, Any]:
        """The document as it was checked; NotFound where there is none."""
        text = self.database.read(lambda c: c.scalar(select(TASK.c.document).where(TASK.c.id == task_id)))
        if text is None:
            raise NotFound("there is no such task")
        return dict(json.loads(text))

    def snapshot(self, task_id: str, phase: int) -> bytes | None:
        """The aggregator as it was when that phase began; None for the first one."""
        query = select(TASK.c.snapshot).where(TASK.c.id == task_id, TASK.c.phase == phase)
        return self.database.read(lambda c: c.scalar(query))

    def helped(self, task_id: str) -> bytes | None:
        """Return the helper's keys for a task, sealed; None where it did not say them yet, or there is none."""
        return self.database.read(lambda c: c.scalar(select(HELPED.c.opened).where(HELPED.c.task == task_id)))

    def active(self) -> list[TaskStanding]:
        """Every task that is open or running, oldest first."""
        return [TaskStanding.of(row) for row in self.database.quick(ACTIVE)]

    def under_way(self, requestor: str) -> int:
        """Count the tasks of this requestor that are open or running."""
        return self.database.read(lambda c: _under_way(c, requestor))

    def ended(self, *, skip: int, most: int) -> list[TaskStanding]:
        """Tasks that are over, the one put up last first."""
        over = TASK.c.status.in_([status for status in Status if status.final])
        order = (TASK.c.created.desc(), TASK.c.id)
        query = select(*STANDING).where(over).order_by(*order).offset(skip).limit(most)
        return [TaskStanding.of(row) for row in self.database.read(lambda c: c.execute(query).all())]

    def release(self, task_id: str) -> str | None:
        """The latest release as JSON text."""
        query = select(RELEASE.c.body).where(RELEASE.c.task == task_id).order_by(RELEASE.c.phase.desc()).limit(1)
        return self.database.read(lambda c: c.scalar(query))

    def receipts(self, task_id: str) -> bytes:
        """Return the list of receipts that the latest release commits to; NotFound where it commits to none."""

        def work(connection: sa.Connection) -> bytes:
            mine = select(RELEASE.c.phase, RELEASE.c.body).where(RELEASE.c.task == task_id)
            row = connection.execute(mine.order_by(RELEASE.c.phase.desc()).limit(1)).first()
            if row is None or "receipts" not in json.loads(row.body):
                raise NotFound("there is no release of this task that commits to the receipts of its contributions")
            return receipts_of(connection, task_id, row.phase)

        return self.database.read(work)

    def entries(self) -> list[TaskLogEntry]:
        """The whole task list."""
        return self.database.read(entries)

    def cancel(self, task_id: str) -> None:
        """End a task without a release; nothing to do where that was done before."""

        def work(connection: sa.Connection) -> None:
            found = locked(connection, [task_id]).get(task_id)
            if found is None:
                raise NotFound("there is no such task")
            if found.status is Status.CANCELLED:
                return
            if found.status.final or found.following is not None:
                raise Conflict("the task has ended already")
            ended = {"status": str(Status.CANCELLED), "leftovers": 1, "holder": None, "snapshot": None}
            connection.execute(TASK.update().where(TASK.c.id == task_id).values(**ended))
            model_store.forget(connection, task_id)
            sites = connection.scalar(select(TASK.c.sites).where(TASK.c.id == task_id))
            if sites is not None:
                say_farewell(connection, task_id, json.loads(sites)["asked"])

        self.database.write(work)

    # --- contributions ----------------------------------------------------------------------------------

    def take(self, deliveries: Sequence[ContributionDelivery]) -> list[Taken | ThebesError]:
        """Take many deliveries in one durable transaction, each as if it had come alone, in this order."""
        return self.database.write(lambda connection: take(connection, deliveries))

    def withdraw(self, task_id: str, receipt: str) -> None:
        """Destroy the contribution with that receipt and take it off the count, before its phase closes. What was
        taken back stays taken back: the same contributor's repeat is refused."""

        def work(connection: sa.Connection) -> None:
            found = locked(connection, [task_id]).get(task_id)
            if found is None:
                raise NotFound("there is no such task")
            own = sa.and_(CONTRIBUTION.c.task == task_id, CONTRIBUTION.c.receipt == receipt)
            row = connection.execute(select(CONTRIBUTION.c.part, CONTRIBUTION.c.withdrawn).where(own)).first()
            if row is None:
                raise NotFound("there is no contribution with this receipt")
            if row[1]:
                return
            if found.status is not Status.OPEN or row[0] not in found.parts:
                raise TaskClosed("this part of the task is closed; the contribution was used, or is about to be")
            connection.execute(CONTRIBUTION.update().where(own).values(record=None, withdrawn=1))
            counts = list(found.counts)
            counts[found.parts.index(row[0])] -= 1
            count(connection, found, counts)

        self.database.write(work)

    # --- schemas ----------------------------------------------------------------------------------------

    def publish(self, app: str, tables: Mapping[str, Any]) -> int:
        """Write down what a collector fills; the version it has from now on."""

        def work(connection: sa.Connection) -> int:
            own = COLLECTOR.c.app == app
            known = connection.execute(select(COLLECTOR).where(own).with_for_update()).first()
            if known is None:
                connection.execute(COLLECTOR.insert().values(app=app, version=1, tables=json.dumps(tables)))
                return 1
            if json.loads(known.tables) == tables:
                return int(known.version)
            version = int(known.version) + 1
            connection.execute(COLLECTOR.update().where(own).values(version=version, tables=json.dumps(tables)))
            return version

        return self.database.write(work)

    def schemas(self) -> dict[str, Any]:
        """Return what collectors fill: {app: {"version", "tables"}}."""
        rows = self.database.read(lambda c: c.execute(select(COLLECTOR).order_by(COLLECTOR.c.app)).all())
        return {row.app: {"version": row.version, "tables": json.loads(row.tables)} for row in rows}


def check_under_way(count: int, most: int) -> None:
    """Refuse one more task to whoever has so many open or running."""
    if count >= most:
        raise NotAllowed(
            f"{most} of your tasks are under way, and no requestor may have more; cancel one, or wait until one ends"
        )


def _under_way(connection: sa.Connection, requestor: str) -> int:
    own = (TASK.c.requestor == requestor, TASK.c.status.in_([Status.OPEN, Status.RUNNING]))
    return connection.scalar(select(sa.func.count()).where(*own)) or 0


def receipts_of(connection: sa.Connection, task_id: str, phase: int) -> bytes:
    """Return the list of receipts of what was contributed up to a closed phase and not taken back."""
    part, contributor, receipt = CONTRIBUTION.c.part, CONTRIBUTION.c.contributor, CONTRIBUTION.c.receipt
    mine = select(part, contributor, receipt).where(CONTRIBUTION.c.task == task_id, CONTRIBUTION.c.withdrawn == 0)
    rows = connection.execute(mine.execution_options(yield_per=10_000))
    return receipts.ordered(receipts.leaf(task_id, *row) for row in rows if _phase(row[0]) <= phase)


def _phase(part: str) -> int:
    return int(phase_of(part).removeprefix("phase-"))


def past_part(database: Database, task_id: str, part: str) -> bool:
    """Return whether contributions to this part were taken before."""
    own = sa.and_(CONTRIBUTION.c.task == task_id, CONTRIBUTION.c.part == part)
    return database.read(lambda c: c.scalar(select(sa.exists().where(own)))) or False
