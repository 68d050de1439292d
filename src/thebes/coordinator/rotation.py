"""Putting another key in the place of the one that signs the task list.

What must stay true: the next key stands in the list, signed by the one before it, before it signs anything; killed at
any moment, the same again ends what was begun.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import select

from thebes.coordinator.database import Database
from thebes.coordinator.home import Home
from thebes.coordinator.schema import ENTRY
from thebes.coordinator.store import append
from thebes.wire import log
from thebes.wire.log import Entry, Succession


def next_list_key(home: Home, database: Database) -> Succession:
    """From now on another key signs the list. Processes that run follow by themselves, and so do people's machines."""
    with home.alone():
        successor = home.successor()
        key = log.public_key(successor)
        listed = log.listed_successor(key)

        def work(connection: sa.Connection) -> Entry:
            row = connection.execute(select(ENTRY).where(ENTRY.c.task_id == listed)).first()
            return append(connection, listed, log.fingerprint(key)) if row is None else Entry(*row)

        made = log.succession(home.log_key, successor, database.write(work))
        home.succeed(made)
        return made
