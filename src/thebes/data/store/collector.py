"""One collector's database. Its schema lies in the same file as its rows, so that both always change as one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from thebes.data.store.declaration import Declaration, Table, read_declaration
from thebes.data.store.delivery import TABLES, Delivery, DeliveryDesk, DeliveryProgress
from thebes.data.store.glance import Glance, glance
from thebes.data.store.migration import steps
from thebes.data.store.values import cells, shown
from thebes.data.store.vault import connect, quoted, writing
from thebes.privacy.faults import Mistake


class CollectorTables:
    """The tables of one collector. Not for several threads at once: the store that holds it sees to that."""

    def __init__(self, path: Path, key: bytes) -> None:
        self._connection = connect(path, key)
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS thebes_schema (version INTEGER PRIMARY KEY, declaration TEXT NOT NULL) STRICT"
        )
        for statement in TABLES:
            self._connection.execute(statement)
        self._desk = DeliveryDesk(self._connection)

    def schema(self) -> tuple[int, Declaration]:
        """The version in force, 0 before the first, and what it declares."""
        found = self._connection.execute(
            "SELECT version, declaration FROM thebes_schema ORDER BY version DESC LIMIT 1"
        ).fetchone()
        if found is None:
            return 0, Declaration(())
        return int(found[0]), read_declaration(json.loads(found[1]))

    def declare(self, new: Declaration) -> int:
        """Puts `new` in force and returns its version; the same declaration again changes nothing."""
        with writing(self._connection):
            version, old = self.schema()
            if new == old:
                return version
            for statement in steps(old, new, self._holds):
                self._connection.execute(statement)
            self._connection.execute("INSERT INTO thebes_schema VALUES (?, ?)", (version + 1, json.dumps(new.body())))
            return version + 1

    def insert(self, table: str, rows: object) -> int:
        """Stores all rows or none; returns how many."""
        with writing(self._connection):
            declared = self._table(table)
            values = cells(declared, rows)
            names = ", ".join(quoted(column.name) for column in declared.columns)
            marks = ", ".join("?" for _ in declared.columns)
            statement = f"INSERT INTO {quoted(declared.name)} ({names}) VALUES ({marks})"  # noqa: S608
            self._connection.executemany(statement, values)
        return len(values)

    def deliver(self, delivery: Delivery) -> dict[str, int]:
        """Takes one part of a delivery; with the last one everything of it is stored as one."""
        with writing(self._connection):
            return self._desk.take(delivery, self._table)

    def progress(self) -> DeliveryProgress:
        """The last delivery that was accepted, with the state that came with it."""
        return self._desk.progress()

    def count(self, table: Table) -> int:
        """Count the rows of a table."""
        return int(self._connection.execute(f"SELECT count(*) FROM {quoted(table.name)}").get)  # noqa: S608

    def rows(self, table: Table) -> Iterator[dict[str, object]]:
        """Every row in the order of insertion."""
        return (shown(table, row) for row in self._connection.execute(f"{_select(table)} ORDER BY rowid"))

    def newest(self, table: str, count: int) -> list[dict[str, object]]:
        """The last `count` rows, newest first."""
        declared = self._table(table)
        found = self._connection.execute(f"{_select(declared)} ORDER BY rowid DESC LIMIT ?", (count,))
        return [shown(declared, row) for row in found]

    def glance(self, table: str) -> list[Glance]:
        """Every column of a table as a few numbers and bars."""
        return glance(self._connection, self._table(table))

    def close(self) -> None:
        """Writes the log back into the database and lets go of it."""
        self._connection.close()

    def _table(self, name: str) -> Table:
        table = self.schema()[1].table(name) if isinstance(name, str) else None
        if table is None:
            raise Mistake("table", "is not one that this collector declared")
        return table

    def _holds(self, table: str, column: str | None) -> bool:
        where = "" if column is None else f" WHERE {quoted(column)} IS NOT NULL"
        return bool(self._connection.execute(f"SELECT EXISTS (SELECT 1 FROM {quoted(table)}{where})").get)  # noqa: S608


def _select(table: Table) -> str:
    return f"SELECT {', '.join(quoted(c.name) for c in table.columns)} FROM {quoted(table.name)}"  # noqa: S608
