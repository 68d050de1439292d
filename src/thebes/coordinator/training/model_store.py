"""The store of what the database keeps of tasks that are trained without end: each model as a row, receipts, and what
was counted.

What must stay true: a receipt and the models that its contribution changed are written in one transaction, so that
after any crash each contribution was mixed in once or not at all, and the receipts say which.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, select

from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import CONTRIBUTION, INSTANCE, TASK, TRAINING
from thebes.coordinator.tasks.states import Status

Identity = tuple[str, str]  #: (part, contributor)
_READ_AT_ONCE = 20_000

_MODELS = select(INSTANCE.c.place, INSTANCE.c.updates, INSTANCE.c.model).where(INSTANCE.c.task == bindparam("task"))
_TIMES = select(INSTANCE.c.place, INSTANCE.c.updates).where(INSTANCE.c.task == bindparam("task"))
_SOME = INSTANCE.c.place.in_(bindparam("places", expanding=True))
_HELD = _TIMES.where(_SOME).order_by(INSTANCE.c.place).with_for_update()
_REPLACE = (
    INSTANCE.update()
    .where(INSTANCE.c.task == bindparam("of"), INSTANCE.c.place == bindparam("at"))
    .values(model=bindparam("now"), updates=bindparam("times"))
)
_RECEIPTS = select(
    CONTRIBUTION.c.part, CONTRIBUTION.c.contributor, CONTRIBUTION.c.fingerprint, CONTRIBUTION.c.receipt
).where(
    CONTRIBUTION.c.task == bindparam("task"),
    CONTRIBUTION.c.part == bindparam("part"),
    CONTRIBUTION.c.contributor.in_(bindparam("contributors", expanding=True)),
)


class Collision(Exception):
    """Another process took one of these contributions in the same moment; nothing of the batch was written."""


@dataclass(frozen=True, slots=True)
class TakenContribution:
    """The facts known of a contribution that was taken."""

    fingerprint: bytes
    receipt: str


@dataclass(frozen=True, slots=True)
class KeptModels:
    """A task's models with how often each was replaced, and what else its aggregator remembered."""

    models: Sequence[bytes]
    times: Sequence[int]
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class News:
    """The changes in the database: models by place with their counts, and where the task stands; the facts, too, where
    these are all there is."""

    models: Mapping[int, tuple[int, bytes]]
    status: Status
    facts: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class MixedContributions:
    """Contributions that were mixed in since the last time. `models` holds each place that was replaced, how often,
    and by what at last. `counts` and `facts` are what one process alone knows; several count together (`join`)."""

    task: str
    receipts: Mapping[Identity, TakenContribution]
    models: Mapping[int, tuple[int, bytes]]
    full: bool = False  #: the task has all it wants, or has reached its target
    most: int | None = None  #: no more than so many replacements, counted under a lock
    counts: Sequence[int] = ()
    facts: Mapping[str, Any] | None = None
    alone: bool = False  #: `models` counts from the beginning, and nobody else writes
    #: of a task without models: makes of the facts that are stored those that are to be, and how many were taken
    joined: Callable[[Mapping[str, Any]], tuple[dict[str, Any], int]] | None = None


class TrainingStore:
    """Everything that training reads and writes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, task_id: str) -> KeptModels:
        """The whole of it."""

        def work(connection: sa.Connection) -> KeptModels:
            rows = connection.execute(_MODELS.order_by(INSTANCE.c.place), {"task": task_id}).all()
            facts = connection.scalar(select(TRAINING.c.facts).where(TRAINING.c.task == task_id))
            return KeptModels([row[2] for row in rows], [row[1] for row in rows], json.loads(facts or "{}"))

        return self._database.read(work)

    def news(self, task_id: str, known: Sequence[int]) -> News:
        """Every model that was replaced more often than is `known`."""

        def work(connection: sa.Connection) -> News:
            times = connection.execute(_TIMES, {"task": task_id}).all()
            newer = [place for place, updates in times if updates > known[place]]
            status = Status(connection.scalar(select(TASK.c.status).where(TASK.c.id == task_id)) or Status.CANCELLED)
            found = connection.execute(_MODELS.where(_SOME), {"task": task_id, "places": newer}).all() if newer else []
            facts = None if known else connection.scalar(select(TRAINING.c.facts).where(TRAINING.c.task == task_id))
            return News({row[0]: (row[1], row[2]) for row in found}, status, facts and json.loads(facts))

        return self._database.read(work)

    def known(self, task_id: str, identities: Sequence[Identity]) -> dict[Identity, TakenContribution]:
        """Return what is known of contributions under these names."""
        by_part: dict[str, list[str]] = {}
        for part, contributor in identities:
            by_part.setdefault(part, []).append(contributor)

        def work(connection: sa.Connection) -> dict[Identity, TakenContribution]:
            found = {}
            for part, names in by_part.items():
                told = {"task": task_id, "part": part, "contributors": sorted(set(names))}
                for row in connection.execute(_RECEIPTS, told):
                    found[row[0], row[1]] = TakenContribution(row[2], row[3])
            return found

        return self._database.read(work)

    def names(self, task_id: str) -> Iterator[list[Identity]]:
        """Everybody who was taken, some thousands at a time."""
        who = (CONTRIBUTION.c.part, CONTRIBUTION.c.contributor)
        last: Identity = ("", "")
        while True:
            query = (
                select(*who)
                .where(CONTRIBUTION.c.task == task_id, sa.tuple_(*who) > sa.tuple_(*last))
                .order_by(*who)
                .limit(_READ_AT_ONCE)
            )
            found = self._database.read(lambda c, query=query: [(row[0], row[1]) for row in c.execute(query)])  # type: ignore[misc]
            if found:
                yield found
            if len(found) < _READ_AT_ONCE:
                return
            last = found[-1]

    def write(self, new: MixedContributions) -> dict[int, int] | None:
        """Write down what was mixed in, all of it or nothing: how often each model that was replaced has been by now.
        None, and nothing is written, where the task is over."""

        def work(connection: sa.Connection) -> dict[int, int] | None:
            if self._standing(connection, new) is not Status.OPEN:
                return None
            if new.receipts:
                self._note(connection, new)
            times = self._replace(connection, new)
            if new.joined is not None:
                self._join(connection, new.task, new.joined, most=new.most)
            changed: dict[str, Any] = {}
            if new.alone:
                changed |= {"accepted": sum(new.counts), "counts": json.dumps(list(new.counts))}
            if new.full:
                changed["status"] = str(Status.RUNNING)
            if changed:
                connection.execute(TASK.update().where(TASK.c.id == new.task).values(**changed))
            if new.facts is not None:
                _remember(connection, new.task, new.facts)
            return times

        return self._database.write(work)

    def join(self, task_id: str, joined: Callable[[Mapping[str, Any]], tuple[dict[str, Any], int]]) -> dict[str, Any]:
        """Bring together what several processes counted: `joined` makes of what is stored what is to be stored, and
        how many contributions were taken that no model shows."""
        return self._database.write(lambda connection: self._join(connection, task_id, joined, most=None))

    def _join(
        self,
        connection: sa.Connection,
        task_id: str,
        joined: Callable[[Mapping[str, Any]], tuple[dict[str, Any], int]],
        *,
        most: int | None,
    ) -> dict[str, Any]:
        own = TRAINING.c.task == task_id
        text = connection.scalar(select(TRAINING.c.facts).where(own).with_for_update())
        facts, beside = joined(json.loads(text or "{}"))
        if most is not None and beside > most:
            raise Collision
        _remember(connection, task_id, facts)
        mixed = connection.scalar(select(sa.func.sum(INSTANCE.c.updates)).where(INSTANCE.c.task == task_id)) or 0
        open_ = (TASK.c.id == task_id, TASK.c.status == Status.OPEN)
        accepted = sa.case((TASK.c.wanted < mixed + beside, TASK.c.wanted), else_=int(mixed) + beside)
        connection.execute(TASK.update().where(*open_).values(accepted=accepted))
        return facts

    def end(self, task_id: str) -> bool:
        """Take nothing more, and have the last release made; whether it was open until now."""
        own = (TASK.c.id == task_id, TASK.c.status == Status.OPEN)
        done = TASK.update().where(*own).values(status=str(Status.RUNNING))
        return bool(self._database.write(lambda c: c.execute(done).rowcount))

    def _standing(self, connection: sa.Connection, new: MixedContributions) -> Status:
        """Return where the task stands, held so that it does not end meanwhile. Others may mix in at the same time,
        unless they must be counted."""
        own = select(TASK.c.status).where(TASK.c.id == new.task)
        status = Status(connection.scalar(own.with_for_update(read=new.most is None and not new.full)) or "cancelled")
        if status is Status.OPEN and new.most is not None and not new.alone:
            total = connection.scalar(select(sa.func.sum(INSTANCE.c.updates)).where(INSTANCE.c.task == new.task)) or 0
            if total + sum(times for times, _ in new.models.values()) > new.most:
                raise Collision
        return status

    def _note(self, connection: sa.Connection, new: MixedContributions) -> None:
        rows = [
            {
                "task": new.task,
                "part": part,
                "contributor": contributor,
                "fingerprint": noted.fingerprint,
                "receipt": noted.receipt,
                "record": None,
                "withdrawn": 0,
            }
            for (part, contributor), noted in new.receipts.items()
        ]
        if connection.dialect.name == "sqlite":  # what a stop interrupted is written a second time
            connection.execute(CONTRIBUTION.insert().prefix_with("OR IGNORE"), rows)
            return
        try:
            connection.execute(CONTRIBUTION.insert(), rows)
        except sa.exc.IntegrityError:
            raise Collision from None

    def _replace(self, connection: sa.Connection, new: MixedContributions) -> dict[int, int]:
        if not new.models:
            return {}
        if new.alone:
            times = {place: count for place, (count, _) in new.models.items()}
        else:  # held in the order of their places, so that two processes never wait for each other
            held = connection.execute(_HELD, {"task": new.task, "places": sorted(new.models)}).all()
            times = {place: updates + new.models[place][0] for place, updates in held}
        rows = [{"of": new.task, "at": at, "now": new.models[at][1], "times": times[at]} for at in sorted(new.models)]
        connection.execute(_REPLACE, rows)
        return times


def begin(connection: sa.Connection, task_id: str, models: Sequence[bytes], facts: Mapping[str, Any]) -> None:
    """The first models of a new task."""
    rows = [{"task": task_id, "place": at, "updates": 0, "model": model} for at, model in enumerate(models)]
    if rows:
        connection.execute(INSTANCE.insert(), rows)
    connection.execute(TRAINING.insert().values(task=task_id, facts=json.dumps(facts)))


def forget(connection: sa.Connection, task_id: str) -> None:
    """The models of a task that is over; its release has what was learned."""
    connection.execute(INSTANCE.delete().where(INSTANCE.c.task == task_id))


def _remember(connection: sa.Connection, task_id: str, facts: Mapping[str, Any]) -> None:
    connection.execute(TRAINING.update().where(TRAINING.c.task == task_id).values(facts=json.dumps(facts)))
