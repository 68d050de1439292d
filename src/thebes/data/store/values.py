"""Between what a collector sends and what lies in a cell. Nothing is guessed and no value ever stands in a message."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from thebes.data.store.declaration import Table, is_name
from thebes.privacy.faults import Mistake

Cell = float | int | str | None

LONGEST_STRING = 250_000  #: characters; at four bytes each this is what the sandbox may still read
MOST_ROWS = 100_000  #: in one insert

#: the type of a cell in SQLite; times are text in UTC, "YYYY-MM-DD HH:MM:SS[.ffffff]", as SQLite's functions give them
SQL_TYPES = {"float": "REAL", "integer": "INTEGER", "string": "TEXT", "boolean": "INTEGER", "timestamp": "TEXT"}

#: which type a value calls for; truth values come first, for they are whole numbers to Python
_OF_PYTHON = {bool: "boolean", int: "integer", float: "float", str: "string", datetime: "timestamp"}


#: how files write that there is no value
_NOTHING = frozenset({"", "na", "n/a", "nan", "null", "none", "nil", "-", "--", "?", "#n/a"})


def says_none(text: str) -> bool:
    """Return whether a cell of a file says that there is no value."""
    return text.strip().lower() in _NOTHING


def cells(table: Table, rows: object) -> list[tuple[Cell, ...]]:
    """Every row as cells in the order of the table's columns; a column that a row leaves out is missing.

    A Mistake names the row, counted from 0, and the column: `rows[3].age`.
    """
    if not isinstance(rows, Sequence) or isinstance(rows, (str, bytes)):
        raise Mistake("rows", "must be a list of objects")
    if len(rows) > MOST_ROWS:
        raise Mistake("rows", f"must be at most {MOST_ROWS} at a time")
    return [_row(table, number, row) for number, row in enumerate(rows)]


def kept(value: object) -> Cell:
    """The cell of a value in a column that was declared to be of its type; a Mistake says what no column takes."""
    for python, kind in _OF_PYTHON.items():
        if isinstance(value, python):
            return _cell(kind, value, 0, "value")
    if value is None:
        return None
    raise Mistake("value", "must be a number, a truth value, text or a moment")


def shown(table: Table, row: Sequence[object]) -> dict[str, object]:
    """A row of cells as its collector sent it: truth values are true and false again."""
    return {
        column.name: bool(cell) if column.type == "boolean" and cell is not None else cell
        for column, cell in zip(table.columns, row, strict=True)
    }


def _row(table: Table, number: int, row: object) -> tuple[Cell, ...]:
    if not isinstance(row, Mapping):
        raise Mistake(f"rows[{number}]", "must be an object whose keys are columns")
    known = {column.name.lower() for column in table.columns}
    given: dict[str, object] = {}
    for name, value in row.items():
        if not isinstance(name, str) or name.lower() not in known:
            raise _undeclared(table, number, name)
        if name.lower() in given:
            raise Mistake(f"rows[{number}].{name}", "is given twice, in two spellings")
        given[name.lower()] = value
    return tuple(_cell(column.type, given.get(column.name.lower()), number, column.name) for column in table.columns)


def _undeclared(table: Table, number: int, name: object) -> Mistake:
    # What could not be a column's name is not repeated: it may be data.
    if is_name(name):
        return Mistake(f"rows[{number}].{name}", f"is not a column that the table {table.name!r} declares")
    return Mistake(f"rows[{number}]", f"has a column that the table {table.name!r} does not declare")


def _cell(kind: str, value: object, number: int, column: str) -> Cell:
    if value is None:
        return None
    place = f"rows[{number}].{column}"
    if kind == "boolean":
        if isinstance(value, bool):
            return int(value)
        raise Mistake(place, "must be true or false")
    if kind == "integer":
        if isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
            return int(value)
        raise Mistake(place, "must be a whole number of at most 64 bits")
    if kind == "float":
        return _finite(value, place)
    if kind == "string":
        return _text(value, place)
    return _moment(value, place)


def _finite(value: object, place: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise Mistake(place, "must be a finite number")


def _text(value: object, place: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_STRING:
        raise Mistake(place, f"must be text of at most {LONGEST_STRING} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Mistake(place, "must be text that UTF-8 can hold") from None
    return str(value)


def _moment(value: object, place: str) -> str:
    """A time without an offset is taken to be UTC."""
    if isinstance(value, str) and len(value) <= 64:
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            value = None
    if not isinstance(value, datetime):
        raise Mistake(place, 'must be a time such as "2026-11-20T13:00:00Z"')
    try:
        moment = value.astimezone(UTC) if value.tzinfo is not None else value
    except (OverflowError, ValueError):
        raise Mistake(place, "must be a time between the years 1 and 9999 in UTC") from None
    return moment.replace(tzinfo=None).isoformat(sep=" ")
