"""The standing of tasks, as it is read for every request and changed with every batch of contributions.

What must stay true: whoever decides on a task holds it until its transaction ends; tasks are held in the order of their
ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, select

from thebes.coordinator.storage.database import QuickStatement
from thebes.coordinator.storage.schema import TASK
from thebes.coordinator.tasks.states import Status
from thebes.tasks.aggregation.packets import parts_of

STANDING = (
    TASK.c.id,
    TASK.c.requestor,
    TASK.c.digest,
    TASK.c.trusted,
    TASK.c.status,
    TASK.c.phase,
    TASK.c.part,
    TASK.c.wanted,
    TASK.c.accepted,
    TASK.c.following,
    TASK.c.created,
    TASK.c.counts,
    TASK.c.sites.is_not(None),
)

STANDS = QuickStatement(select(*STANDING).where(TASK.c.id == bindparam("task")))
_GOING_ON: list[sa.ColumnElement[str]] = [sa.literal_column(f"'{status}'") for status in Status if not status.final]
ACTIVE = QuickStatement(select(*STANDING).where(TASK.c.status.in_(_GOING_ON)).order_by(TASK.c.created))
_LOCKED = select(*STANDING).where(TASK.c.id.in_(bindparam("ids", expanding=True))).order_by(TASK.c.id).with_for_update()
_COUNT = QuickStatement(
    TASK.update()
    .where(TASK.c.id == bindparam("task"))
    .values(accepted=bindparam("fewest"), counts=bindparam("each"), status=bindparam("now"))
)


@dataclass(frozen=True, slots=True)
class TaskStanding:
    """The standing of a task: everything of its row that is small."""

    id: str
    requestor: str
    digest: str
    trusted: bool
    status: Status
    phase: int
    part: str
    wanted: int
    accepted: int
    following: str | None
    created: float  #: seconds since 1970
    counts: tuple[int, ...]  #: contributions that each part of the phase has; `accepted` is the fewest
    of_sites: bool  #: institutions answer it

    @classmethod
    def of(cls, row: Any) -> TaskStanding:
        rest = (*row[5:11], counts_of(row[11], row[8]), bool(row[12]))
        return cls(row[0], row[1], row[2], bool(row[3]), Status(row[4]), *rest)

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of the phase."""
        return parts_of(self.part, len(self.counts))


def locked(connection: sa.Connection, task_ids: Iterable[str]) -> dict[str, TaskStanding]:
    """Return where tasks stand, held until the transaction ends."""
    ids = sorted(set(task_ids))
    if connection.dialect.name == "sqlite":  # which whoever changes anything has to themselves
        rows = [row for each in ids for row in STANDS.on(connection, {"task": each})]
    else:
        rows = [*connection.execute(_LOCKED, {"ids": ids})]
    return {row[0]: TaskStanding.of(row) for row in rows}


def count(connection: sa.Connection, standing: TaskStanding, counts: Sequence[int]) -> None:
    """The new numbers of contributions; the phase closes in the same moment as every part is full."""
    fewest = min(counts)
    status = Status.RUNNING if fewest == standing.wanted else standing.status
    changed = {"task": standing.id, "fewest": fewest, "each": json.dumps(list(counts)), "now": str(status)}
    _COUNT.on(connection, changed)


def counts_of(written: str | None, accepted: int) -> tuple[int, ...]:
    """Return how many contributions each part of a phase has; a task from before there were packets has one part."""
    return (accepted,) if written is None else tuple(json.loads(written))
