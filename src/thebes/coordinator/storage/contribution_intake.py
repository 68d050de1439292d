"""The intake of contributions: many in one transaction, each as if it had come alone.

What must stay true: a contribution that was acknowledged is in the database, once; a task takes exactly as many as it
wants.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, select

from thebes.coordinator.storage.database import QuickStatement
from thebes.coordinator.storage.schema import CONTRIBUTION
from thebes.coordinator.storage.task_standing import TaskStanding, count, locked
from thebes.coordinator.tasks.states import Status
from thebes.privacy.faults import ThebesError
from thebes.tasks.protocols import TaskClosed
from thebes.wire.refusals import Conflict, NotFound

_MINE = select(
    CONTRIBUTION.c.contributor, CONTRIBUTION.c.fingerprint, CONTRIBUTION.c.receipt, CONTRIBUTION.c.withdrawn
).where(CONTRIBUTION.c.task == bindparam("task"), CONTRIBUTION.c.part == bindparam("part"))
_KNOWN_ONE = QuickStatement(_MINE.where(CONTRIBUTION.c.contributor == bindparam("contributor")))
_KNOWN = _MINE.where(CONTRIBUTION.c.contributor.in_(bindparam("contributors", expanding=True)))
_ADD = QuickStatement(CONTRIBUTION.insert())


@dataclass(frozen=True, slots=True)
class ContributionDelivery:
    """One contribution on its way in. `record` is None where the part is over and only a repeat can be answered."""

    task: str
    part: str
    contributor: str
    fingerprint: bytes
    record: bytes | None

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.task, self.part, self.contributor


@dataclass(frozen=True, slots=True)
class Taken:
    """A delivery's receipt; `closed` where it was the last that its phase wanted."""

    receipt: str
    closed: bool = False


def take(connection: sa.Connection, deliveries: Sequence[ContributionDelivery]) -> list[Taken | ThebesError]:
    """Take deliveries in this order, each as if it had come alone."""
    standings = locked(connection, [d.task for d in deliveries])
    known = _known(connection, deliveries)
    counts = {task: dict(zip(s.parts, s.counts, strict=True)) for task, s in standings.items()}
    new: list[dict[str, Any]] = []
    answers: list[Taken | ThebesError] = []
    for delivery in deliveries:
        standing = standings.get(delivery.task)
        if standing is None:
            answers.append(NotFound("there is no such task"))
        elif delivery.identity in known:
            answers.append(_again(delivery, *known[delivery.identity]))
        elif _over(standing, delivery, counts[delivery.task]):
            answers.append(TaskClosed("this part of the task is closed; nothing was taken"))
        else:
            receipt = secrets.token_hex(16)
            counts[delivery.task][delivery.part] += 1
            known[delivery.identity] = (delivery.fingerprint, receipt, 0)
            new.append(
                {
                    "task": delivery.task,
                    "part": delivery.part,
                    "contributor": delivery.contributor,
                    "fingerprint": delivery.fingerprint,
                    "receipt": receipt,
                    "record": delivery.record,
                    "withdrawn": 0,
                }
            )
            answers.append(Taken(receipt, closed=min(counts[delivery.task].values()) == standing.wanted))
    if new:
        _ADD.on(connection, *new)
        for task, each in counts.items():
            if (*each.values(),) != standings[task].counts:
                count(connection, standings[task], [*each.values()])
    return answers


def _known(
    connection: sa.Connection, deliveries: Sequence[ContributionDelivery]
) -> dict[tuple[str, str, str], tuple[bytes, str, int]]:
    """Return what was taken before under the same identities: fingerprint, receipt, whether it was taken back."""
    contributors: dict[tuple[str, str], set[str]] = {}
    for delivery in deliveries:
        contributors.setdefault((delivery.task, delivery.part), set()).add(delivery.contributor)
    known = {}
    for (task, part), names in contributors.items():
        for name, *rest in _taken(connection, {"task": task, "part": part}, sorted(names)):
            known[task, part, name] = (rest[0], rest[1], rest[2])
    return known


def _taken(connection: sa.Connection, of: Mapping[str, str], names: Sequence[str]) -> list[Any]:
    if connection.dialect.name == "sqlite":  # in which one after another is the quickest
        return [row for name in names for row in _KNOWN_ONE.on(connection, {**of, "contributor": name})]
    return [*connection.execute(_KNOWN, {**of, "contributors": names})]


def _over(standing: TaskStanding, delivery: ContributionDelivery, counts: Mapping[str, int]) -> bool:
    wanted = counts.get(delivery.part, standing.wanted) < standing.wanted
    return standing.status is not Status.OPEN or not wanted or delivery.record is None


def _again(delivery: ContributionDelivery, fingerprint: bytes, receipt: str, withdrawn: int) -> Taken | ThebesError:
    if withdrawn:
        return TaskClosed("this contribution was taken back; nothing was taken again")
    if fingerprint != delivery.fingerprint:
        return Conflict("this contributor sent something else for this part before; the first is kept")
    return Taken(receipt)
