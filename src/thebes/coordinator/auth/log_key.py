"""Putting another key in the place of the one that signs the task list.

What must stay true: the next key stands in the list, signed by the one before it, before it signs anything; killed at
any moment, the same again ends what was begun.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import select

from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import ENTRY
from thebes.coordinator.storage.task_list import append
from thebes.wire import task_log
from thebes.wire.task_log import Succession, TaskLogEntry


def next_list_key(home: CoordinatorHome, database: Database) -> Succession:
    """From now on another key signs the list. Processes that run follow by themselves, and so do people's machines."""
    with home.alone():
        successor = home.successor()
        key = task_log.public_key(successor)
        listed = task_log.listed_successor(key)

        def work(connection: sa.Connection) -> TaskLogEntry:
            row = connection.execute(select(ENTRY).where(ENTRY.c.task_id == listed)).first()
            return append(connection, listed, task_log.fingerprint(key)) if row is None else TaskLogEntry(*row)

        made = task_log.succession(home.log_key, successor, database.write(work))
        home.succeed(made)
        return made
