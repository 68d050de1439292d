"""A ledger in PostgreSQL, for several processes and machines at once.

What must stay true: rows are locked claim first, then blocks in the order of their names, then the head,
so that no two transactions wait for each other; what is read under a lock is read after it was taken.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import bindparam, select

from thebes.ledger.refusals import LedgerUnavailable
from thebes.ledger.schema import BLOCK, METER, VERSIONS
from thebes.ledger.sql import SqlTransaction, block_of
from thebes.ledger.store import ITSELF, BlockRow, Meter, Transaction, WriteConflict
from thebes.privacy.faults import Fault, Mistake

T = TypeVar("T")
_ATTEMPTS = 10
_BLOCKS = select(BLOCK).where(BLOCK.c.name.in_(bindparam("names", expanding=True))).order_by(BLOCK.c.name)
# A statement of its own: rows joined to a row that had to be waited for would be as of before the wait.
_METERS = select(METER).where(
    METER.c.block.in_(bindparam("names", expanding=True)), METER.c.spender.in_((ITSELF, bindparam("s")))
)


class PostgresStore:
    """A pool of connections; every write is one transaction at READ COMMITTED with row locks."""

    in_file = False

    def __init__(self, where: str, *, create: bool = True) -> None:
        try:
            url = sa.make_url(where).set(drivername="postgresql+psycopg")
            self.name = url.set(drivername="postgresql").render_as_string(hide_password=True)
            self._engine = sa.create_engine(url, isolation_level="READ COMMITTED")
        except (sa.exc.ArgumentError, ValueError):
            raise Mistake("ledger", "is not an address of the form postgresql://USER@HOST/DATABASE") from None
        except ImportError:
            raise Mistake("ledger", "needs psycopg for this address: pip install 'thebes[postgres]'") from None
        self._process = os.getpid()
        self._snapshots = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._prepare(create)

    def write(self, work: Callable[[Transaction], T]) -> T:
        self._own_process()
        for _ in range(_ATTEMPTS):
            try:
                return _within(self._engine, work, locking=True)
            except WriteConflict:
                continue
        raise LedgerUnavailable("the same keys are written again and again; `thebes ledger verify` may say why")

    def read(self, work: Callable[[Transaction], T]) -> T:
        self._own_process()
        return _within(self._snapshots, work, locking=False)

    def close(self) -> None:
        self._engine.dispose()

    def _own_process(self) -> None:
        if self._process != os.getpid():
            self._process = os.getpid()
            self._engine.dispose(close=False)  # the connections belong to the parent

    def _prepare(self, create: bool) -> None:
        try:
            with self._engine.begin() as connection:
                version = VERSIONS.of(connection)
                if version is None and not create:
                    raise LedgerUnavailable(f"{self.name} holds no ledger")
                if version != VERSIONS.newest and not VERSIONS.reach_newest(connection):
                    raise LedgerUnavailable(f"{self.name} was written by a newer version of Thebes")
        except sa.exc.SQLAlchemyError as error:
            raise _unavailable(error) from None


class _PostgresTransaction(SqlTransaction):
    def __init__(self, connection: sa.Connection, locking: bool) -> None:
        self._connection = connection
        self._locking = locking

    def _run(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        result = self._connection.execute(statement, values or {})
        return result.all() if result.returns_rows else ()

    def _run_locked(self, statement: sa.Select[Any], values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        # A picture of the whole takes no locks.
        return self._run(_locked(statement) if self._locking else statement, values)

    def _stream(self, statement: sa.Executable, values: Mapping[str, Any]) -> Iterator[Any]:
        return iter(self._connection.execute(statement, values, execution_options={"yield_per": 10_000}))

    def _run_each(self, statement: sa.Executable, values: list[dict[str, Any]]) -> None:
        if values:
            self._connection.execute(statement, values)

    def blocks(self, names: Iterable[str], spender: str) -> dict[str, BlockRow]:
        rows = self._run_locked(_BLOCKS, {"names": list(names)})
        found = {row[0]: block_of(row) for row in rows}
        # Only of the blocks just found: one that is opened meanwhile has meters already and is not there yet.
        for block, whose, place, capacity, reserved, spent, firm in self._run(
            _METERS, {"names": list(found), "s": spender}
        ):
            meters = found[block].meters if whose == ITSELF else found[block].usage
            meters[place] = Meter(capacity, reserved, spent, bool(firm))
        return found


_LOCKED: dict[int, tuple[sa.Select[Any], sa.Select[Any]]] = {}


def _locked(statement: sa.Select[Any]) -> sa.Select[Any]:
    """The same rows, held until the transaction ends."""
    known = _LOCKED.get(id(statement))
    if known is None:
        known = _LOCKED[id(statement)] = (statement, statement.with_for_update())
    return known[1]


def _within(engine: sa.Engine, work: Callable[[Transaction], T], *, locking: bool) -> T:
    try:
        with engine.begin() as connection:
            return work(_PostgresTransaction(connection, locking))
    except sa.exc.IntegrityError as error:
        unique = getattr(error.orig, "sqlstate", None) == "23505"
        raise (WriteConflict() if unique else Fault("a balance would leave its bounds")) from None
    except sa.exc.OperationalError as error:
        if getattr(error.orig, "sqlstate", None) in ("40001", "40P01"):  # serialization failure, deadlock
            raise WriteConflict from None
        raise _unavailable(error) from None
    except sa.exc.SQLAlchemyError as error:
        raise _unavailable(error) from None


def _unavailable(error: BaseException) -> LedgerUnavailable:
    cause = str(getattr(error, "orig", None) or error).strip().splitlines()
    return LedgerUnavailable(f"the ledger cannot be used: {cause[0] if cause else type(error).__name__}")
