"""A table or view of a SQLite file, opened read-only with the standard library.

SQLite holds any value in any column: what is not of the declared type is missing, a row at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from pydantic import Field

from thebes.data.connectors.connector import (
    Columns,
    Held,
    Source,
    SourceUnavailable,
    existing,
    path_of,
    read_source,
)
from thebes.data.connectors.pushdown import pushed
from thebes.data.connectors.scanned_source import quoted
from thebes.data.filter import RowFilter, Value
from thebes.privacy.faults import Mistake

_ROWS = 20_000  # at a time
_WAIT_SECONDS = 10.0


class SqliteSource(Source):
    """`table` is the name of a table or view."""

    kind: Literal["sqlite"]
    path: str = Field(min_length=1, max_length=4096)
    table: str = Field(min_length=1, max_length=200)


class Sqlite:
    """One table. Somebody may write to the file at the same time; a question sees one state of it."""

    def __init__(self, source: SqliteSource, folder: Path) -> None:
        path = existing(path_of(source.path, folder))
        self._table = source.table
        self._what = f"{source.table} in {path.name}"
        try:
            self._opened = sqlite3.connect(
                f"file:{quote(str(path))}?mode=ro", uri=True, timeout=_WAIT_SECONDS, check_same_thread=False
            )
            self._opened.execute("PRAGMA query_only = on")
            self._opened.execute("PRAGMA trusted_schema = off")
            self._opened.text_factory = _text
            described = self._opened.execute(f"PRAGMA table_info({quoted(source.table)})").fetchall()
        except sqlite3.Error:
            raise self._unavailable() from None
        if not described:
            raise Mistake("source.table", f"{path.name} has no table or view of that name")
        self._held = {name: _held(kind) for _, name, kind, *_ in described}

    def columns(self) -> Mapping[str, Held]:
        return self._held

    def batches(self, columns: Sequence[str], where: RowFilter | None = None) -> Iterator[Columns]:
        """Rows as SQLite holds them, of those that its own conditions leave."""
        wanted = ", ".join(quoted(name) for name in columns)
        values: dict[str, Value] = {}
        asked = self._asked(where, values) if where is not None else None
        statement = f"SELECT {wanted} FROM {quoted(self._table)}" + (f" WHERE {asked}" if asked else "")
        try:
            cursor = self._opened.execute(statement, values)
            while rows := cursor.fetchmany(_ROWS):
                yield dict(zip(columns, zip(*rows, strict=True), strict=True))
        except sqlite3.Error:
            raise self._unavailable() from None

    def close(self) -> None:
        self._opened.close()

    def _asked(self, where: RowFilter, values: dict[str, Value]) -> str | None:
        def value(given: Value) -> str:
            values[f"v{len(values)}"] = given
            return f":v{len(values) - 1}"

        # A point in time is written in many ways here, and a column may hold several of them.
        held: dict[str, Held] = {name: "text" if kind == "timestamp" else kind for name, kind in self._held.items()}
        return pushed(where.condition, held, quoted, value)

    def _unavailable(self) -> SourceUnavailable:
        return SourceUnavailable(f"{self._what} cannot be read: it is gone, locked, or no SQLite database")


def _text(stored: bytes) -> str | None:
    # What is not UTF-8 is no text, and one such row must not keep a question from being answered.
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return None


def _held(declared: str) -> Held:
    """By the words that a column was declared with, as SQLite itself reads them."""
    kind = declared.upper()
    if "BOOL" in kind:
        return "boolean"
    if "DATE" in kind or "TIME" in kind:
        return "timestamp"
    if "INT" in kind:
        return "integer"
    if any(word in kind for word in ("CHAR", "CLOB", "TEXT", "UUID")):
        return "string"
    if any(word in kind for word in ("REAL", "FLOA", "DOUB", "NUM", "DEC")):
        return "float"
    return "other" if "BLOB" in kind else "text"


def open_sqlite(source: Mapping[str, Any], *, folder: Path) -> Sqlite:
    """The connector of `{"kind": "sqlite", "path": ..., "table": ...}`."""
    return Sqlite(read_source(SqliteSource, source), folder)
