"""The database that a coordinator's home works on, where that one lies elsewhere.

What must stay true: a home that has worked on one database takes no other for it, however well that can be reached. Of
the tasks under way another one knows nothing, and whoever opened it would destroy their keys as left over.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import select

from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import CALLED, ENTRY
from thebes.privacy.faults import Mistake
from thebes.wire.local_server import Hold, HomeInUse

_HERE = "here"


def hold_of(home: CoordinatorHome, store: str | None = None) -> ExitStack:
    """The right to serve a home with the database at `store`, or else with its own, until it is closed. A PostgreSQL is
    shared by as many processes as one likes; a file is one process's, whichever home names it."""
    where = store or home.store
    alone = where.startswith("sqlite:")
    with ExitStack() as held:
        held.enter_context(closing(Hold(home.folder, shared=not alone)))
        file = _file(where)
        if alone and file != _file(home.own_store) and file.parent.is_dir():
            try:
                held.enter_context(closing(Hold(file.parent, file=f".{file.name}.lock")))
            except HomeInUse:
                told = "which is one process's; several work together on a PostgreSQL"
                raise HomeInUse(f"another coordinator uses the database {str(file)!r}, {told}") from None
        return held.pop_all()


def database_of(home: CoordinatorHome, store: str | None = None) -> Database:
    """The database at the address `store`, or else the one in the home, opened. A Mistake where it is not the one that
    the home works on; the first one that a home uses is."""
    if not store or _file(store) == _file(home.own_store):
        return Database(home.store)
    return _elsewhere(home, store, _found)


def brought_back(home: CoordinatorHome, store: str) -> Database:
    """The same of a database outside the home that was brought back, from before it had a name or from before the tasks
    under way."""
    return _elsewhere(home, store, _named_again)


def _elsewhere(
    home: CoordinatorHome, store: str, name_of: Callable[[CoordinatorHome, Database], str | None]
) -> Database:
    if home.works_on is None and _file(home.own_store).exists():
        # Whatever lies elsewhere is another coordinator's, whose tasks are none of this home's to end.
        inside = "the database of this home lies in it, as coordinator.db"
        raise Mistake("--store", f"must be left out: {inside}. To begin with another one, move that file elsewhere")
    database = Database(store)
    try:
        name = name_of(home, database)
        if home.works_on is None and name is not None:
            home.work_on(name)
        if home.works_on != name:
            other = "is not the database that this home works on: name the one that its coordinator was started with"
            raise Mistake("--store", f"{other}. If it is an earlier state of that one: thebes settle")
    except BaseException:
        database.close()
        raise
    return database


def _found(home: CoordinatorHome, database: Database) -> str | None:
    """The name of the database; a new one where a home begins with it that works on none."""
    name = database.read(_name)
    if home.works_on is None:
        database.read(lambda connection: _has_tasks(connection, home))
        if name is None:
            database.check_writable()
            name = database.write(lambda connection: _named(connection, secrets.token_hex(16)))
    return name


def _named_again(home: CoordinatorHome, database: Database) -> str:
    name = home.works_on or secrets.token_hex(16)
    return database.write(lambda connection: _named(connection, name))


def _file(store: str) -> Path:
    return Path(store.removeprefix("sqlite:///")).resolve()


def _name(connection: sa.Connection) -> str | None:
    return connection.scalar(select(CALLED.c.name))


def _named(connection: sa.Connection, name: str) -> str:
    """The name that it has, or else this one: of two processes that begin at once the second takes the first's."""
    had = _name(connection)
    if had is None:
        connection.execute(CALLED.insert().values(place=_HERE, name=name))
    return had or name


def _has_tasks(connection: sa.Connection, home: CoordinatorHome) -> None:
    """A Mistake where the home has keys of tasks and the list has none of these."""
    kept = list(islice(home.keys.older_than(math.inf), 500))
    if kept and connection.execute(select(ENTRY.c.task_id).where(ENTRY.c.task_id.in_(kept))).first() is None:
        raise Mistake("--store", "has no task of this home; name the database that its coordinator uses")
