"""The signed list in the database: what is published is stored and listed in one transaction, or neither is.

What must stay true: entries are written one after another, by whichever process; a release is stored once, with the
digest that the list has of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import select

from thebes.coordinator.storage.schema import ENTRY, RELEASE, TASK
from thebes.wire.refusals import NotFound
from thebes.wire.release_record import listed_release
from thebes.wire.task_log import TaskLogEntry

#: The advisory lock under which the list grows.
_LISTING = 0x7468656265730003
_NOT_RELEASED = (
    "this task has no release that is signed: it is not over, or ended without an answer; of a task that is trained "
    "without end only the last release is signed, once its requestor has closed it"
)


@dataclass(frozen=True, slots=True)
class PublishedTask:
    """A task with its latest release, that of `phase`, and the signed list of the same moment, from the task's own
    entry on or from `after`, whichever comes first."""

    document: Mapping[str, Any]
    phase: int
    release: Mapping[str, Any]
    entries: Sequence[TaskLogEntry]


def append(connection: sa.Connection, listed: str, digest: str) -> TaskLogEntry:
    """One more entry of the signed list: a task's, a group's, a key's or a release's."""
    list_alone(connection)
    last = connection.execute(select(ENTRY).order_by(ENTRY.c.index.desc()).limit(1)).first()
    entry = TaskLogEntry.after(None if last is None else TaskLogEntry(*last), listed, digest)
    connection.execute(ENTRY.insert().values(**entry.as_json()))
    return entry


def publish(connection: sa.Connection, task_id: str, phase: int, body: str, digest: str) -> None:
    """Store the release of a phase and list it. `digest` is that of `body`, which takes a while where it is long."""
    connection.execute(RELEASE.insert().values(task=task_id, phase=phase, body=body))
    append(connection, listed_release(task_id, phase), digest)


def published(connection: sa.Connection, task_id: str, *, after: int | None = None) -> PublishedTask:
    """Read what was published of a task; NotFound where nothing was."""
    document = connection.scalar(select(TASK.c.document).where(TASK.c.id == task_id))
    own = select(RELEASE.c.phase, RELEASE.c.body).where(RELEASE.c.task == task_id)
    row = connection.execute(own.order_by(RELEASE.c.phase.desc()).limit(1)).first()
    if document is None or row is None:
        raise NotFound("there is no such task" if document is None else _NOT_RELEASED)
    first = connection.scalar(select(ENTRY.c.index).where(ENTRY.c.task_id == task_id)) or 0
    since = entries(connection, after=first if after is None else min(first, after))
    return PublishedTask(json.loads(document), row.phase, json.loads(row.body), since)


def entries(connection: sa.Connection, *, after: int = 0) -> list[TaskLogEntry]:
    """The list without its first `after` entries."""
    query = select(ENTRY).order_by(ENTRY.c.index)
    query = query.where(ENTRY.c.index >= after) if after else query  # else all: one at a place that is none would show
    rows = connection.execute(query).all()
    return [TaskLogEntry(*row) for row in rows]


def list_alone(connection: sa.Connection) -> None:
    """Nobody else adds to the list until the transaction ends; in SQLite nobody else writes at all."""
    if connection.dialect.name == "postgresql":
        connection.execute(select(sa.func.pg_advisory_xact_lock(_LISTING)))
