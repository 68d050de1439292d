"""The declaration of what a collector will store: tables and columns with types, and words for the person who will read
them.

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
MOST_RELEASE = 1_000_000

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
    """All tables of one collector, what it is in its own words, and which release of it declares them (0: not said)."""

    tables: tuple[Table, ...]
    description: str = ""
    release: int = 0

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

    def body(self) -> dict[str, Any]:
        """As `read_declaration` reads it, with everything that was said."""
        said: dict[str, Any] = {"tables": self.plain()}
        if self.description:
            said["description"] = self.description
        if self.release:
            said["release"] = self.release
        return said


def is_name(word: object) -> bool:
    """Return whether a column could be called that; a key of another form may be data that took a column's place."""
    return isinstance(word, str) and _NAME.fullmatch(word) is not None


def collector_name(name: object) -> str:
    """`name`, if a collector may have it."""
    return _name("app", name, "a collector's name", _NO_COLLECTOR)


def read_declaration(declared: object) -> Declaration:
    """Reads {"tables": {T: {...}}} or the bare {T: {...}}, or refuses it with the place at fault.

    Beside "tables" may stand a "description" of the collector and its "release", a whole number.
    """
    description, release = "", 0
    if isinstance(declared, Mapping) and _is_whole(declared):
        description = _description("collector", declared)
        release = declared.get("release", 0)
        if isinstance(release, bool) or not isinstance(release, int) or not 0 <= release <= MOST_RELEASE:
            raise Mistake("release", f"must be a whole number from 0 to {MOST_RELEASE}")
        declared = declared["tables"]
    tables = _mapping("tables", declared, "tables", MOST_TABLES)
    read = tuple(_table(name, value) for name, value in tables.items())
    _distinct("tables", [t.name for t in read])
    return Declaration(read, description, release)


def _is_whole(declared: Mapping[object, object]) -> bool:
    """Return whether this is not the bare form, in which every value is a table and so an object."""
    beside = set(declared) - {"tables"}
    said = all(not isinstance(declared[name], Mapping) for name in beside)
    return "tables" in declared and beside <= {"description", "release"} and said


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
