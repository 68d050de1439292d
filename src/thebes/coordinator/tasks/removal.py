"""Forgetting a task that is over: what its contributors left, its document, who asked, its answer.

What must stay true: nothing of a task under way goes; its entry in the signed list stays, since people remember that.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import select

from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import (
    CONTRIBUTION,
    FAREWELL,
    HELPED,
    HELPED_JOB,
    INSTANCE,
    RELEASE,
    RUN,
    TASK,
    TRAINING,
)
from thebes.coordinator.tasks.states import Status
from thebes.coordinator.tasks.task_keys import Keys
from thebes.wire.refusals import Conflict, NotFound

_OF_A_TASK = (CONTRIBUTION, INSTANCE, TRAINING, RELEASE, RUN, FAREWELL, HELPED, HELPED_JOB)


def forget(database: Database, keys: Keys, task_id: str, *, untold: bool = False) -> None:
    """Nothing of the task is left but its id and digest in the list. Refused while it is not over, and, unless
    `untold`, while an institution has not heard that it is: that one would keep set aside what its claim has left, and
    a helper its keys for longer."""

    def work(connection: sa.Connection) -> None:
        row = connection.execute(select(TASK).where(TASK.c.id == task_id).with_for_update()).first()
        if row is None:
            raise NotFound("there is no such task, or it was forgotten before")
        if not Status(row.status).final:
            raise Conflict("the task is under way; cancel it first (thebes task cancel)")
        if row.leftovers or row.following is not None:
            raise Conflict("the task has ended just now; let the coordinator run for a moment, and try again")
        sites = {*connection.scalars(select(FAREWELL.c.site).where(FAREWELL.c.task == task_id))}
        # A helper's farewell is written down a while after the end: until then it is one that has not heard.
        sites |= {*connection.scalars(select(HELPED.c.helper).where(HELPED.c.task == task_id, HELPED.c.told == 0))}
        if sites and not untold:
            raise Conflict(
                f"{', '.join(sorted(sites))} has not heard yet that it is over; wait until it was linked, or --untold"
            )
        for table in _OF_A_TASK:
            connection.execute(table.delete().where(table.c.task == task_id))
        connection.execute(TASK.delete().where(TASK.c.id == task_id))

    database.write(work)
    keys.destroy(task_id)  # who is killed before leaves a key without a task, which the coordinator clears away


def sweep(file: Path) -> bool:
    """Empty the journal of a database in SQLite, where bytes that were deleted lie for a while; whether nobody was in
    the way. On PostgreSQL that is the server's own matter."""
    with closing(sqlite3.connect(file, timeout=10)) as opened:
        return bool(opened.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0)


def over(database: Database, before: datetime) -> list[str]:
    """The tasks that are over and were put up before that moment, oldest first."""
    final = [str(status) for status in Status if status.final]
    mine = (TASK.c.status.in_(final), TASK.c.created < before.timestamp())
    query = select(TASK.c.id).where(*mine).order_by(TASK.c.created)
    return list(database.read(lambda connection: connection.scalars(query).all()))
