"""The database under a coordinator: one file of SQLite, or a PostgreSQL that several processes share.

What must stay true: what `write` did is durable when it returns, whole or not at all. SQLite has one writer at a
time; in PostgreSQL a change locks the rows it decides on, tasks first, in the order of their ids.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite

from thebes.coordinator.storage.schema import VERSIONS
from thebes.database.versions import UNRELEASED
from thebes.privacy.faults import Fault, Mistake

T = TypeVar("T")
_ATTEMPTS = 10
_WAIT_SECONDS = 30
_FORMS = "sqlite:///FILE or postgresql://USER@HOST/DATABASE"


class StoreUnavailable(Fault):
    """The coordinator's database cannot be reached; nothing was taken and nothing changed."""


class QuickStatement:
    """A statement that is made for every request: its SQL is written once, and SQLite is handed it with nothing in
    between, which else takes most of the time. Its columns are of types that need no conversion."""

    def __init__(self, statement: sa.Select[Any] | sa.Insert | sa.Update) -> None:
        self.statement = statement
        self.text = str(statement.compile(dialect=sqlite.dialect(paramstyle="named")))

    def on(self, connection: sa.Connection, *values: Mapping[str, Any]) -> Sequence[Any]:
        """Make it within a transaction, once with each of these values; the rows that it gives."""
        if connection.dialect.name != "sqlite":
            made = connection.execute(self.statement, list(values))
            return made.all() if made.returns_rows else ()
        cursor = connection.connection.cursor()
        if len(values) == 1:
            rows: list[Any] = cursor.execute(self.text, values[0]).fetchall()
            return rows
        cursor.executemany(self.text, values)
        return ()


class Database:
    """Two engines on one database: one for changes, one for reading while something changes. A file is also read by
    one connection that is always open."""

    def __init__(self, where: str) -> None:
        self._sqlite = where.startswith("sqlite:///")
        try:
            self._changing, self._reading = _file(where) if self._sqlite else _server(where)
        except ImportError:
            raise Mistake("--store", "needs psycopg for this address: pip install 'thebes[postgres]'") from None
        self._at_hand: sa.PoolProxiedConnection | None = None
        self._one_by_one = threading.Lock()
        self._prepare()

    @property
    def alone(self) -> bool:
        """Return whether one process at a time uses it."""
        return self._sqlite

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `work` in one durable transaction, again where another one was in the way."""
        for attempt in range(_ATTEMPTS):
            try:
                with self._changing.begin() as connection:
                    return work(connection)
            except sa.exc.IntegrityError as error:
                if getattr(error.orig, "sqlstate", None) != "23505":  # not merely the same key at the same time
                    raise StoreUnavailable(_cause(error)) from None
            except sa.exc.OperationalError as error:
                if getattr(error.orig, "sqlstate", None) not in ("40001", "40P01"):  # serialization, deadlock
                    raise StoreUnavailable(_cause(error)) from None
            except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
                raise StoreUnavailable(_cause(error)) from None
            time.sleep(0.005 * attempt)
        raise StoreUnavailable("the same rows are changed again and again by others")

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run `work` on one consistent picture, in the way of nobody."""
        try:
            with self._reading.connect() as connection:
                return work(connection)
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            raise StoreUnavailable(_cause(error)) from None

    def quick(self, query: QuickStatement, **values: Any) -> Sequence[Any]:
        """Return the rows of a short read as they are now. Of a file they come within microseconds, so the event loop
        may ask: to wake a thread for them, and to have it wake the loop, would take many times as long."""
        if not self._sqlite:
            return self.read(lambda connection: query.on(connection, values))
        try:
            # One after another: a read that began while another one was under way would see what that one sees.
            with self._one_by_one:
                self._at_hand = self._at_hand or self._reading.raw_connection()
                asked = self._at_hand.cursor()
                asked.execute(query.text, values)
                return asked.fetchall()
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            raise StoreUnavailable(_cause(error)) from None

    def check_writable(self) -> None:
        """Refuse a database that could be read and never changed, before anything is promised."""
        # Only a change that was made says so: SQLite begins a writing transaction on a file it may only read.
        same = f"UPDATE {VERSIONS.table} SET version_num = version_num"  # noqa: S608
        try:
            self.write(lambda connection: connection.execute(sa.text(same)))
        except StoreUnavailable as error:
            raise StoreUnavailable(f"{error}: it must be one that this process may change") from None

    def close(self) -> None:
        if self._at_hand is not None:
            self._at_hand.close()
        self._changing.dispose()
        self._reading.dispose()

    def _prepare(self) -> None:
        # A plain read first: a database that is up to date is not locked by everybody who opens it.
        version = self.read(VERSIONS.of)
        if VERSIONS.before_first(version):
            raise StoreUnavailable(f"the coordinator's database {UNRELEASED}")
        if version != VERSIONS.newest and not self.write(VERSIONS.reach_newest):
            raise StoreUnavailable("the database was written by a newer version of Thebes")


def _file(where: str) -> tuple[sa.Engine, sa.Engine]:
    name = where.removeprefix("sqlite:///")
    if not name or "?" in name or name == ":memory:":
        raise Mistake("--store", f"must be an address: {_FORMS}")
    path = Path(name).absolute()
    if not path.parent.is_dir():
        raise Mistake("--store", f"there is no directory {path.parent}")
    if not path.exists():
        os.close(os.open(path, os.O_CREAT, 0o600))
    engines = []
    for begin in ("BEGIN IMMEDIATE", "BEGIN"):
        engine = sa.create_engine(f"sqlite:///{path}", hide_parameters=True, connect_args={"check_same_thread": False})
        # Many rows in one statement: for every statement the interpreter's lock is given up and waited for.
        engine.dialect.use_insertmanyvalues_wo_returning = True
        sa.event.listen(engine, "connect", _prepare_connection)
        sa.event.listen(engine, "begin", _begins(begin))
        engines.append(engine)
    return engines[0], engines[1]


def _begins(statement: str) -> Callable[[sa.Connection], None]:
    def begin(connection: sa.Connection) -> None:
        connection.exec_driver_sql(statement)

    return begin


def _prepare_connection(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # the driver's own deferred BEGIN would fail instead of waiting
    for pragma in (
        "journal_mode = wal",
        "synchronous = full",
        "foreign_keys = on",
        "secure_delete = on",
        f"busy_timeout = {_WAIT_SECONDS * 1000}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _server(where: str) -> tuple[sa.Engine, sa.Engine]:
    if not where.startswith(("postgresql://", "postgresql+psycopg://", "postgres://")):
        raise Mistake("--store", f"must be an address: {_FORMS}")
    try:
        url = sa.make_url(where.replace("postgres://", "postgresql://", 1)).set(drivername="postgresql+psycopg")
    except (sa.exc.ArgumentError, ValueError):
        raise Mistake("--store", f"must be an address: {_FORMS}") from None
    engine = sa.create_engine(url, isolation_level="READ COMMITTED", hide_parameters=True, pool_pre_ping=True)
    reading = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return engine, reading


def _cause(error: BaseException) -> str:
    """The kind of failure only: a database's own words may repeat a value."""
    original = getattr(error, "orig", None) or error
    code = getattr(original, "sqlite_errorname", None) or getattr(original, "sqlstate", None)
    what = f"{type(original).__name__}{f' {code}' if code else ''}"
    look = "its operator looks with: thebes doctor --home HOME --store URL"
    return f"the coordinator's database cannot be used ({what}); {look}"
