"""What a collector says it will store: tables and columns with types, and words for the person who will read them.

A name that passes here is safe to quote in SQL and means one thing in a featurizer, whatever its case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from thebes.privacy.faults import Mistake

TYPES = ("float", "integer", "string", "boolean", "timestamp")
MOST_TABLES, MOST_COLUMNS, LONGEST_DESCRIPTION = 100, 200, 2000

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}", re.ASCII)
_RULE = "must be a letter followed by at most 62 letters, digits or underscores"
_OURS = ("sqlite_", "thebes_")
_NO_COLLECTOR = {"main", "temp"}  # what SQLite calls its own databases
_NO_COLUMN = {"rowid", "oid"}  # what SQLite calls a row's number


@dataclass(frozen=True, slots=True)
class Column:
    """One column; `type` is one of TYPES. Every column may be missing from a row."""

    name: str
    type: str
    description: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a collector, with its columns in the order declared."""

    name: str
    description: str
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column | None:
        """The column of that name, in any case."""
        return next((c for c in self.columns if c.name.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class Declaration:
    """All tables of one collector."""

    tables: tuple[Table, ...]

    def table(self, name: str) -> Table | None:
        """The table of that name, in any case."""
        return next((t for t in self.tables if t.name.lower() == name.lower()), None)

    def plain(self) -> dict[str, dict[str, Any]]:
        """As JSON: {table: {"description", "columns": {column: {"type", "description"}}}}."""
        return {
            table.name: {
                "description": table.description,
                "columns": {c.name: {"type": c.type, "description": c.description} for c in table.columns},
            }
            for table in self.tables
        }


def collector_name(name: object) -> str:
    """`name`, if a collector may have it."""
    return _name("app", name, "a collector's name", _NO_COLLECTOR)


def read_declaration(declared: object) -> Declaration:
    """Reads {"tables": {T: {...}}} or the bare {T: {...}}, or refuses it with the place at fault."""
    if isinstance(declared, Mapping) and set(declared) == {"tables"}:
        declared = declared["tables"]
    tables = _mapping("tables", declared, "tables", MOST_TABLES)
    read = tuple(_table(name, value) for name, value in tables.items())
    _distinct("tables", [t.name for t in read])
    return Declaration(read)


def _table(name: object, declared: object) -> Table:
    table = _name("tables", name, "a table's name", set())
    place = f"tables.{table}"
    fields = _fields(place, declared, required="columns")
    columns = _mapping(f"{place}.columns", fields["columns"], "columns", MOST_COLUMNS)
    read = tuple(_column(place, column, value) for column, value in columns.items())
    _distinct(f"{place}.columns", [c.name for c in read])
    return Table(table, _description(place, fields), read)


def _column(place: str, name: object, declared: object) -> Column:
    column = _name(f"{place}.columns", name, "a column's name", _NO_COLUMN)
    place = f"{place}.columns.{column}"
    fields = _fields(place, declared, required="type")
    if fields["type"] not in TYPES:
        raise Mistake(f"{place}.type", f"must be one of {', '.join(TYPES)}")
    return Column(column, fields["type"], _description(place, fields))


def _name(argument: str, name: object, what: str, taken: set[str]) -> str:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise Mistake(argument, f"{what} {_RULE}")
    if name.lower().startswith(_OURS) or name.lower() in taken:
        raise Mistake(argument, f"{what} may not be {name!r}, which SQLite or Thebes uses itself")
    return name


def _mapping(argument: str, value: object, what: str, most: int) -> Mapping[object, object]:
    if not isinstance(value, Mapping):
        raise Mistake(argument, f"must be an object whose keys are the names of {what}")
    if not 1 <= len(value) <= most:
        raise Mistake(argument, f"must have between 1 and {most} {what}")
    return value


def _fields(place: str, value: object, *, required: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or not {required} <= set(value) <= {required, "description"}:
        raise Mistake(place, f'must be an object with "{required}" and, if you like, "description"')
    return value


def _description(place: str, fields: Mapping[str, Any]) -> str:
    text = fields.get("description", "")
    if not isinstance(text, str) or len(text) > LONGEST_DESCRIPTION or not _encodable(text):
        raise Mistake(f"{place}.description", f"must be text of at most {LONGEST_DESCRIPTION} characters")
    return text


def _encodable(text: str) -> bool:
    return not any(0xD800 <= ord(c) <= 0xDFFF for c in text)


def _distinct(place: str, names: list[str]) -> None:
    if len({name.lower() for name in names}) != len(names):
        raise Mistake(place, "has two names that differ in their case only")
