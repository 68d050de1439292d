"""The worker's side of the database: which phases are to be ended, and what is left of them.

What must stay true: a release is stored at most once for each phase, by whoever holds the task at that moment;
what a worker did that no longer holds it changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import select

from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import CONTRIBUTION, GROUP, HELPED, TASK
from thebes.coordinator.storage.store import receipts_of
from thebes.coordinator.storage.task_list import publish
from thebes.coordinator.storage.task_standing import counts_of
from thebes.coordinator.tasks.states import Status
from thebes.coordinator.training.model_store import KeptModels, TrainingStore, forget
from thebes.privacy.faults import Fault
from thebes.tasks.aggregation.packets import parts_of
from thebes.wire.release_record import digest_of_text

_SWEEP = 2000  #: contributions that are removed in one transaction, so that submissions wait for milliseconds


class NoLongerHeld(Exception):
    """Another worker took the task over, or it was cancelled: what was computed is thrown away."""


@dataclass(frozen=True, slots=True)
class Held:
    """A task in the hands of one worker."""

    id: str
    document: dict[str, Any]
    trusted: bool
    phase: int
    part: str
    accepted: int  #: by the part that has the fewest
    counts: tuple[int, ...]  #: by each
    expires: float | None
    snapshot: bytes | None
    following: Status | None

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the phase."""
        return parts_of(self.part, len(self.counts))


@dataclass(frozen=True, slots=True)
class Concluded:
    """The outcome of ending a phase: maybe a release, and the next phase where there is one."""

    release: str | None
    following: Status
    snapshot: bytes | None = None
    part: str = ""
    packets: int = 1
    least: int = 0
    wanted: int = 0
    taken: int | None = None  #: contributions, where only who counted them last knows


class PhaseQueue:
    """Everything a worker called `holder` reads and writes."""

    def __init__(self, database: Database, holder: str) -> None:
        self._database = database
        self._holder = holder

    def overdue(self, now: float) -> list[str]:
        """Open tasks of people whose time is over; institutions are asked, and given up, elsewhere."""
        late = (TASK.c.status == Status.OPEN, TASK.c.expires <= now, TASK.c.sites.is_(None))
        query = select(TASK.c.id).where(*late).order_by(TASK.c.id)
        return list(self._database.read(lambda c: c.scalars(query).all()))

    def end_at_deadline(self, task_id: str, now: float) -> None:
        """Close the phase of an overdue task, or expire the task where too few contributed."""
        enough = sa.case((TASK.c.accepted >= TASK.c.least, str(Status.RUNNING)), else_=str(Status.EXPIRED))
        left = sa.case((TASK.c.accepted >= TASK.c.least, TASK.c.leftovers), else_=1)
        overdue = (TASK.c.id == task_id, TASK.c.status == Status.OPEN, TASK.c.expires <= now)
        self._database.write(lambda c: c.execute(TASK.update().where(*overdue).values(status=enough, leftovers=left)))

    def waiting(self, now: float) -> list[str]:
        """Tasks with a closed phase that nobody works on, longest waiting first."""
        free = sa.or_(TASK.c.holder.is_(None), TASK.c.held_until < now)
        elsewhere = select(HELPED.c.task).where(HELPED.c.sum.is_(None))  # the helper is still to say its sum
        ready = (TASK.c.status == Status.RUNNING, free, TASK.c.id.not_in(elsewhere))
        query = select(TASK.c.id).where(*ready).order_by(TASK.c.created)
        return list(self._database.read(lambda c: c.scalars(query).all()))

    def hold(self, task_id: str, now: float, until: float) -> Held | None:
        """Take a waiting task into one's hands; None where somebody else was first."""
        free = sa.or_(TASK.c.holder.is_(None), TASK.c.held_until < now)
        waiting = (TASK.c.id == task_id, TASK.c.status == Status.RUNNING, free)

        def work(connection: sa.Connection) -> Held | None:
            taken = TASK.update().where(*waiting).values(holder=self._holder, held_until=until)
            if connection.execute(taken).rowcount != 1:
                return None
            row = connection.execute(select(TASK).where(TASK.c.id == task_id)).one()
            return Held(
                id=row.id,
                document=json.loads(row.document),
                trusted=bool(row.trusted),
                phase=row.phase,
                part=row.part,
                accepted=row.accepted,
                counts=counts_of(row.counts, row.accepted),
                expires=row.expires,
                snapshot=row.snapshot,
                following=None if row.following is None else Status(row.following),
            )

        return self._database.write(work)

    def keep_holding(self, task_id: str, until: float) -> None:
        """Say that the work goes on."""
        own = (TASK.c.id == task_id, TASK.c.holder == self._holder)
        self._database.write(lambda c: c.execute(TASK.update().where(*own).values(held_until=until)))

    def let_go(self) -> None:
        """Put down whatever this worker held, because it has ended."""
        own = TASK.c.holder == self._holder
        self._database.write(lambda c: c.execute(TASK.update().where(own).values(holder=None, held_until=None)))

    def records(self, held: Held, part: str, at_once: int) -> Iterator[list[tuple[str, bytes]]]:
        """(contributor, record) of a part of the closed phase, `at_once` at a time, in the order of the pseudonyms."""
        last = ""
        while True:
            query = (
                select(CONTRIBUTION.c.contributor, CONTRIBUTION.c.record)
                .where(
                    CONTRIBUTION.c.task == held.id,
                    CONTRIBUTION.c.part == part,
                    CONTRIBUTION.c.contributor > last,
                    CONTRIBUTION.c.withdrawn == 0,
                )
                .order_by(CONTRIBUTION.c.contributor)
                .limit(at_once)
            )
            found = self._database.read(lambda c, query=query: [(r[0], r[1]) for r in c.execute(query)])  # type: ignore[misc]
            if found:
                yield found
            if len(found) < at_once:
                return
            last = found[-1][0]

    def helped(self, held: Held) -> tuple[bytes, list[int]] | None:
        """Return the helper's keys for a task, sealed, and its noised sum; None where the task has no helper."""
        query = select(HELPED.c.opened, HELPED.c.sum).where(HELPED.c.task == held.id)
        row = self._database.read(lambda c: c.execute(query).first())
        return None if row is None else (row.opened, json.loads(row.sum))

    def receipts(self, held: Held) -> bytes:
        """Return the list of receipts of every contribution that was used up to the closed phase."""
        return self._database.read(lambda connection: receipts_of(connection, held.id, held.phase))

    def trained(self, held: Held) -> KeptModels:
        """The models of a task that was trained."""
        return TrainingStore(self._database).read(held.id)

    def conclude(self, held: Held, concluded: Concluded) -> None:
        """Store what ending the phase gave, once. A trusted task waits for `finish` before it shows its end."""
        digest = None if concluded.release is None else digest_of_text(concluded.release)

        def work(connection: sa.Connection) -> None:
            self._still_held(connection, held)
            if concluded.release is not None and digest is not None:
                publish(connection, held.id, held.phase, concluded.release, digest)
            changed: dict[str, Any] = {"snapshot": concluded.snapshot}
            if concluded.following is Status.OPEN:
                changed |= _next_phase(held, concluded)
            elif held.trusted:
                changed |= {"following": str(concluded.following)}
            else:
                changed |= _ended(concluded.following)
                if concluded.taken is not None:
                    changed |= {"accepted": concluded.taken}
                forget(connection, held.id)
            connection.execute(TASK.update().where(TASK.c.id == held.id).values(**changed))

        self._database.write(work)

    def finish(self, held: Held, following: Status) -> None:
        """Show the end of a concluded task, once its key is gone."""

        def work(connection: sa.Connection) -> None:
            self._still_held(connection, held)
            connection.execute(TASK.update().where(TASK.c.id == held.id).values(**_ended(following)))

        self._database.write(work)

    def with_leftovers(self) -> list[tuple[str, bool]]:
        """Tasks with contributions that no phase will use any more, and whether their keys must go first."""
        query = select(TASK.c.id, TASK.c.status, TASK.c.trusted).where(TASK.c.leftovers == 1)
        rows = self._database.read(lambda c: c.execute(query).all())
        return [(row[0], bool(row[2]) and Status(row[1]).final) for row in rows]

    def sweep(self, task_id: str) -> bool:
        """Empty some leftover contributions; whether there may be more. What stays of each is who, and a receipt."""

        def work(connection: sa.Connection) -> bool:
            task = connection.execute(
                select(TASK.c.status, TASK.c.part, TASK.c.accepted, TASK.c.counts)
                .where(TASK.c.id == task_id)
                .with_for_update()
            ).one()
            over = [CONTRIBUTION.c.task == task_id, CONTRIBUTION.c.record.is_not(None)]
            if not Status(task.status).final:
                heard = parts_of(task.part, len(counts_of(task.counts, task.accepted)))
                over.append(CONTRIBUTION.c.part.not_in(heard))
            some = select(CONTRIBUTION.c.part, CONTRIBUTION.c.contributor).where(*over).limit(_SWEEP)
            found = connection.execute(some).all()
            if found:
                each = (
                    CONTRIBUTION.update()
                    .where(
                        CONTRIBUTION.c.task == task_id,
                        CONTRIBUTION.c.part == sa.bindparam("p"),
                        CONTRIBUTION.c.contributor == sa.bindparam("c"),
                    )
                    .values(record=None)
                )
                connection.execute(each, [{"p": part, "c": contributor} for part, contributor in found])
            if len(found) < _SWEEP:
                connection.execute(TASK.update().where(TASK.c.id == task_id).values(leftovers=0))
                return False
            return True

        return self._database.write(work)

    def known(self, task_id: str) -> Status | None:
        """Return where a task stands, or None where there is none."""
        status = self._database.read(lambda c: c.scalar(select(TASK.c.status).where(TASK.c.id == task_id)))
        return None if status is None else Status(status)

    def members(self, group: str, epoch: str) -> int:
        """Return how many members the epoch of a group was published with."""
        query = select(GROUP.c.size).where(GROUP.c.name == group, GROUP.c.epoch == epoch)
        size = self._database.read(lambda c: c.scalar(query))
        if size is None:
            raise Fault("the group of a task is gone")
        return int(size)

    def _still_held(self, connection: sa.Connection, held: Held) -> None:
        row = connection.execute(
            select(TASK.c.holder, TASK.c.status, TASK.c.phase).where(TASK.c.id == held.id).with_for_update()
        ).one()
        if row.holder != self._holder or row.status != Status.RUNNING or row.phase != held.phase:
            raise NoLongerHeld


def _next_phase(held: Held, concluded: Concluded) -> dict[str, Any]:
    return {
        "status": str(Status.OPEN),
        "phase": held.phase + 1,
        "part": concluded.part,
        "least": concluded.least,
        "wanted": concluded.wanted,
        "accepted": 0,
        "counts": json.dumps([0] * concluded.packets),
        "leftovers": 1,
        "holder": None,
        "held_until": None,
    }


def _ended(status: Status) -> dict[str, Any]:
    return {"status": str(status), "following": None, "leftovers": 1, "holder": None, "held_until": None}
