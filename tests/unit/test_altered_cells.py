"""Whoever alters one cell of what says that it can be checked is seen, whichever cell it is and whatever is put there.

What must stay true: the cells are those of every table that the file holds, not a list that somebody keeps.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.postgres import new_database
from thebes.coordinator.storage import schema as coordinator
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.store import CoordinatorStore, append
from thebes.ledger import Ledger, LedgerUnavailable, NoKeeper, Tampered
from thebes.ledger.schema import METADATA, VERSIONS
from thebes.site.steward.audit_log import Audit
from thebes.wire import task_log
from thebes.wire.refusals import BrokenLog


def opened(where: str | Path) -> Ledger:
    return Ledger(where if isinstance(where, str) else f"sqlite:///{where}", keeper=NoKeeper())


def filled(where: str | Path) -> None:
    """Put a row of every sort into each table of a ledger, which ends up frozen."""
    with opened(where) as ledger:
        ledger.open_block("monday", epsilon=1, delta=1e-6)
        ledger.open_block("tuesday", epsilon=1, delta=1e-6, filter="zcdp")
        ledger.open_block("wednesday", epsilon=1, delta=1e-6, filter="renyi", orders=[32.0])
        ledger.retire_block(ledger.open_block("old", epsilon=1).name)
        ledger.cap("ana", 0.5)
        ledger.cap("ben", 0.5, delta=1e-7, block="monday")
        first = ledger.reserve(["monday", "tuesday", "wednesday"], epsilon=0.1, purpose="mean", spender="ana", key="k")
        first.consume(epsilon=0.05, part="one")
        ledger.reserve(["monday"], epsilon=0.2, delta=1e-8, purpose="count", spender="ben").release()
        ledger.freeze()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    filled(tmp_path / "budget.db")
    return tmp_path / "budget.db"


def cells(file: sqlite3.Connection, table: str) -> Iterator[tuple[dict[str, Any], str, Any]]:
    """Every cell: the key of its row, its column, what stands in it."""
    columns = file.execute(f"SELECT name, pk FROM pragma_table_info('{table}')").fetchall()
    rows = file.execute(f'SELECT * FROM "{table}"').fetchall()
    assert rows, f"nothing stands in {table}: no cell of it would be tried"
    for row in rows:
        whole = dict(zip([name for name, _ in columns], row, strict=True))
        key = {name: whole[name] for name, place in columns if place} or whole
        yield from ((key, name, value) for name, value in whole.items())


def others(value: Any) -> list[Any]:
    """Yield what could be put in the place of a value: another one of its type, of other types, nothing at all."""
    if value is None:
        return [0, 1, "", "x"]
    if isinstance(value, int):
        return [value + 1, value - 1, -value - 7, value + 0.5, str(value).encode(), "x", None]
    return [f"{value}x", value.swapcase(), value[:-1], value.encode(), 7, None]


def put(file: sqlite3.Connection, table: str, key: dict[str, Any], column: str, value: Any) -> bool:
    """Return whether the table takes it."""
    which = " AND ".join(f'"{name}" IS ?' for name in key)
    try:
        changed = file.execute(f'UPDATE "{table}" SET "{column}" = ? WHERE {which}', (value, *key.values()))
    except sqlite3.IntegrityError:
        return False  # no table of this shape can hold it
    assert changed.rowcount == 1
    return True


def noticed(where: str | Path) -> bool:
    try:
        with opened(where) as ledger:
            ledger.verify()
    except Tampered:
        return True
    except LedgerUnavailable as refused:
        return bool(str(refused))
    return False


def unnoticed(path: Path, tables: set[str], seen: Callable[[], bool]) -> tuple[list[str], int]:
    """The alterations of these tables that nobody saw, and how many there were of all."""
    missed, tried = list[str](), 0
    assert not seen()
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA ignore_check_constraints = on")
        file.execute("PRAGMA synchronous = off")
        for table in sorted(tables):
            for key, column, value in list(cells(file, table)):
                for other in {repr(each): each for each in others(value) if each != value}.values():
                    if put(file, table, key, column, other):
                        tried += 1
                        if not seen():
                            missed.append(f"{table} {key} {column}: {value!r} became {other!r}")
                        assert put(file, table, key | {column: other} if column in key else key, column, value)
    assert not seen()
    return missed, tried


@pytest.mark.slow
def test_every_altered_cell_of_a_ledger_is_noticed(path: Path) -> None:
    missed, tried = unnoticed(path, {*METADATA.tables, VERSIONS.table}, lambda: noticed(path))
    assert not missed, "\n".join(missed)
    assert tried > 500


@pytest.mark.slow
@pytest.mark.postgres
def test_every_altered_cell_of_a_ledger_in_postgresql_is_noticed() -> None:
    where = new_database()
    filled(where)
    assert not noticed(where)
    missed, tried = list[tuple[object, ...]](), 0
    with psycopg.connect(where, autocommit=True) as database:
        database.execute("SET session_replication_role = replica")  # no foreign key is looked at
        for table in sorted({*METADATA.tables, VERSIONS.table}):
            checks = "SELECT conname FROM pg_constraint WHERE contype = 'c' AND conrelid = %s::regclass"
            for (check,) in database.execute(checks, [table]).fetchall():
                database.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{check}"')
            columns = [column.name for column in database.execute(f"SELECT * FROM {table}").description or ()]
            for place, *row in database.execute(f"SELECT ctid, * FROM {table}").fetchall():
                for column, value in zip(columns, row, strict=True):
                    number = value + 1 if isinstance(value, int) else 1
                    other = f"{value}x" if isinstance(value, str) else number
                    update = f'UPDATE {table} SET "{column}" = %s WHERE ctid = %s RETURNING ctid'
                    try:
                        (place,) = database.execute(update, [other, place]).fetchone() or ()
                    except psycopg.errors.UniqueViolation:
                        continue
                    tried += 1
                    if not noticed(where):
                        missed.append((table, row, column, other))
                    (place,) = database.execute(update, [value, place]).fetchone() or ()
    assert not missed, "\n".join(map(str, missed))
    assert tried > 150
    assert not noticed(where)


def test_a_cap_is_not_lifted_by_removing_the_sum_that_it_is_held_against(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        assert file.execute("DELETE FROM ledger_meter WHERE spender = 'ana' AND place = 'epsilon'").rowcount == 1
    assert noticed(path)


def test_every_altered_cell_of_a_sites_audit_log_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"
    with closing(Audit(path)) as audit:
        for number in range(3):
            task = {"task": f"t{number}"}
            audit.note(("ask", {**task, "requestor": "ana"}), ("allowed", {**task, "rule": 1}))
        with closing(sqlite3.connect(path)) as file:
            file.executescript("DROP TRIGGER no_change; DROP TRIGGER no_removal")

        def seen() -> bool:
            try:
                audit.verify()
            except Tampered:
                return True
            return False

        missed, tried = unnoticed(path, {"entry", "head"}, seen)
    assert not missed, "\n".join(missed)
    assert tried > 50


def test_every_altered_cell_of_the_list_of_tasks_is_noticed_by_whoever_reads_it(tmp_path: Path) -> None:
    private, path = task_log.new_key(), tmp_path / "coordinator.db"
    with closing(Database(f"sqlite:///{path}")) as database:
        for number in range(3):
            database.write(lambda c, number=number: append(c, f"task{number}", f"{number:064x}"))
        store = CoordinatorStore(database)

        def seen() -> bool:
            try:
                told = task_log.published(private, store.entries())
                task_log.verify(json.loads(json.dumps(told)), key=task_log.public_key(private))
            except (BrokenLog, TypeError, ValueError):  # what is no text is not even sent
                return True
            return False

        missed, tried = unnoticed(path, {coordinator.ENTRY.name}, seen)
    assert not missed, "\n".join(missed)
    assert tried > 50
