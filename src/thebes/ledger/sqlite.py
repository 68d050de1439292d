"""A ledger in one SQLite file: write-ahead log, synchronous FULL, one writer at a time.

What must stay true: when `write` returns, the change survives a crash of process and machine.
Statements are compiled once and run on the driver itself, which is three times as fast.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import bindparam, select
from sqlalchemy.dialects import sqlite

from thebes.ledger.refusals import LedgerUnavailable
from thebes.ledger.schema import BLOCK, METER, VERSIONS
from thebes.ledger.sql import SqlTransaction, block_of
from thebes.ledger.store import ITSELF, BlockRow, Meter, Transaction, WriteConflict
from thebes.privacy.faults import Fault, Mistake

T = TypeVar("T")
_WAIT_SECONDS = 30.0
_DIALECT = sqlite.dialect(paramstyle="named")
_NAMES = sa.func.json_each(bindparam("names")).table_valued("value")
_BLOCKS = (
    select(BLOCK, METER.c.spender, METER.c.place, METER.c.capacity, METER.c.reserved, METER.c.spent, METER.c.firm)
    .join(METER, METER.c.block == BLOCK.c.name)
    .where(BLOCK.c.name.in_(select(_NAMES.c.value)), METER.c.spender.in_((sa.literal_column("''"), bindparam("s"))))
)
#: Connections of a parent process: SQLite forbids using or closing them after a fork, so they are only kept.
_INHERITED: list[sqlite3.Connection] = []


class SqliteStore:
    """One connection for writing and one for reading, made anew in every process."""

    in_file = True
    _connections: dict[str, sqlite3.Connection]

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self._path = path.absolute()
        self.name = f"sqlite:///{self._path}"
        if not self._path.exists():
            if not create:
                raise Mistake("ledger", f"there is no file {self._path}")
            if not self._path.parent.is_dir():
                raise Mistake("ledger", f"there is no directory {self._path.parent}")
            os.close(os.open(self._path, os.O_CREAT, 0o600))
        self._forget()
        self._prepare(create)

    def write(self, work: Callable[[Transaction], T]) -> T:
        self._own_process()
        for _ in range(5):
            try:
                with self._writing:
                    return _within(self._connection("writer"), "BEGIN IMMEDIATE", work)
            except WriteConflict:
                continue
        raise LedgerUnavailable("the same keys are written again and again; `thebes ledger verify` may say why")

    def read(self, work: Callable[[Transaction], T]) -> T:
        self._own_process()
        with self._reading:
            return _within(self._connection("reader"), "BEGIN", work)

    def close(self) -> None:
        with self._writing, self._reading:
            if self._process == os.getpid():
                for connection in self._connections.values():
                    connection.close()
            self._connections = {}

    def _own_process(self) -> None:
        if self._process != os.getpid():
            _INHERITED.extend(self._connections.values())
            self._forget()

    def _forget(self) -> None:
        self._process = os.getpid()
        self._writing, self._reading = threading.RLock(), threading.RLock()
        self._connections = {}

    def _connection(self, use: str) -> sqlite3.Connection:
        if use not in self._connections:
            self._connections[use] = _connected(self._path)
        return self._connections[use]

    def _prepare(self, create: bool) -> None:
        try:
            found = self._connection("reader").execute(
                "SELECT count(*) FROM sqlite_master WHERE name = ?", (VERSIONS.table,)
            )
            version = None
            if found.fetchone()[0]:
                query = f"SELECT version_num FROM {VERSIONS.table}"  # noqa: S608
                version = next((row[0] for row in self._connection("reader").execute(query)), None)
        except sqlite3.Error as error:
            raise _unavailable(error) from None
        if version is None and not create:
            raise LedgerUnavailable(f"{self._path} holds no ledger")
        if version != VERSIONS.newest and not self._reaches_newest():
            raise LedgerUnavailable(f"{self._path} was written by a newer version of Thebes")

    def _reaches_newest(self) -> bool:
        engine = sa.create_engine("sqlite://", creator=lambda: _connected(self._path), poolclass=sa.NullPool)
        sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        try:
            with engine.begin() as connection:
                return VERSIONS.reach_newest(connection)
        except (sa.exc.OperationalError, sa.exc.DatabaseError) as error:
            raise _unavailable(error.orig or error) from None
        finally:
            engine.dispose()


class _SqliteTransaction(SqlTransaction):
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._executemany = connection.executemany

    def _run(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        return self._execute(_text(statement), values or {}).fetchall()

    def _stream(self, statement: sa.Executable, values: Mapping[str, Any]) -> Iterator[Any]:
        return self._execute(_text(statement), values)

    def _run_each(self, statement: sa.Executable, values: list[dict[str, Any]]) -> None:
        self._executemany(_text(statement), values)

    def blocks(self, names: Iterable[str], spender: str) -> dict[str, BlockRow]:
        found: dict[str, BlockRow] = {}
        for row in self._run(_BLOCKS, {"names": json.dumps(list(names)), "s": spender}):
            block = found.get(row[0])
            if block is None:
                found[row[0]] = block = block_of(row)
            whose, place, capacity, reserved, spent, firm = row[7:]
            meters = block.meters if whose == ITSELF else block.usage
            meters[place] = Meter(capacity, reserved, spent, bool(firm))
        return found


_COMPILED: dict[int, tuple[sa.Executable, str]] = {}


def _text(statement: sa.Executable) -> str:
    known = _COMPILED.get(id(statement))
    if known is None:
        known = _COMPILED[id(statement)] = (statement, str(statement.compile(dialect=_DIALECT)))  # type: ignore[attr-defined]
    return known[1]


def _connected(path: Path) -> sqlite3.Connection:
    until = time.monotonic() + _WAIT_SECONDS
    while True:
        connection = sqlite3.connect(path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("PRAGMA journal_mode = wal")
            connection.execute("PRAGMA synchronous = full")
            connection.execute("PRAGMA foreign_keys = on")
        except sqlite3.OperationalError:
            # Turning a new file to a write-ahead log does not wait for others who do the same.
            connection.close()
            if time.monotonic() > until:
                raise
            time.sleep(0.01)
        except sqlite3.DatabaseError:
            connection.close()
            raise
        else:
            return connection


def _within(connection: sqlite3.Connection, begin: str, work: Callable[[Transaction], T]) -> T:
    try:
        connection.execute(begin)
        result = work(_SqliteTransaction(connection))
        connection.execute("COMMIT")
        return result
    except sqlite3.IntegrityError as error:
        raise (WriteConflict() if "UNIQUE" in str(error) else Fault("a balance would leave its bounds")) from None
    except sqlite3.Error as error:
        raise _unavailable(error) from None
    finally:
        if connection.in_transaction:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")


def _unavailable(error: BaseException) -> LedgerUnavailable:
    return LedgerUnavailable(f"the ledger cannot be used: {error}")
