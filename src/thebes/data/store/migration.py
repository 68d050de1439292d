"""From the tables a collector had to those it declares now. Data are never lost: what would lose any is refused."""

from __future__ import annotations

from collections.abc import Callable

from thebes.data.store.declaration import Column, Declaration, Table
from thebes.data.store.values import SQL_TYPES
from thebes.data.store.vault import quoted
from thebes.privacy.faults import Mistake

Holds = Callable[[str, str | None], bool]
"""(table, column or None): is there a row, or a value in that column?"""


def steps(old: Declaration, new: Declaration, holds: Holds) -> list[str]:
    """The statements that lead from `old` to `new`, or a Mistake that says what stands in the way."""
    found: list[str] = []
    for table in old.tables:
        if new.table(table.name) is None:
            if holds(table.name, None):
                raise Mistake(
                    f"tables.{table.name}", "is gone but has rows; declare it, or remove the collector's data"
                )
            found.append(f"DROP TABLE {quoted(table.name)}")
    for table in new.tables:
        before = old.table(table.name)
        if before is None:
            found.append(_create(table))
        elif not holds(table.name, None):
            found += [f"DROP TABLE {quoted(before.name)}", _create(table)]
        else:
            found += _columns(before, table, holds)
    return found


def _columns(before: Table, table: Table, holds: Holds) -> list[str]:
    """Changes to a table that has rows. New columns come first, so that never none is left."""
    added, dropped = [], []
    name = quoted(before.name)
    if before.name != table.name:
        raise Mistake(f"tables.{table.name}", f"has rows under the spelling {before.name!r}; keep that spelling")
    for column in table.columns:
        was = before.column(column.name)
        if was is None:
            added.append(f"ALTER TABLE {name} ADD COLUMN {_column(column)}")
        elif was.name != column.name:
            place = f"tables.{table.name}.columns.{column.name}"
            raise Mistake(place, f"has rows under the spelling {was.name!r}; keep that spelling")
        elif was.type != column.type:
            place = f"tables.{table.name}.columns.{column.name}.type"
            raise Mistake(place, f"was {was.type!r} and the table has rows; declare a column of another name")
    for column in before.columns:
        if table.column(column.name) is None:
            if holds(table.name, column.name):
                place = f"tables.{table.name}.columns.{column.name}"
                raise Mistake(place, "is gone but holds values; declare it, or remove the collector's data")
            dropped.append(f"ALTER TABLE {name} DROP COLUMN {quoted(column.name)}")
    return added + dropped


def _create(table: Table) -> str:
    return f"CREATE TABLE {quoted(table.name)} ({', '.join(_column(c) for c in table.columns)}) STRICT"


def _column(column: Column) -> str:
    name = quoted(column.name)
    check = f" CHECK ({name} IN (0, 1))" if column.type == "boolean" else ""
    return f"{name} {SQL_TYPES[column.type]}{check}"
