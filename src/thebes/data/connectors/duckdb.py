"""A table or view of a DuckDB file, attached read-only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from thebes.data.connectors.connector import Source, existing, path_of, read_source
from thebes.data.connectors.scanned_source import ScannedSource, plain_path, quoted


class DuckdbSource(Source):
    """`table` is its name, or `schema.name`."""

    kind: Literal["duckdb"]
    path: str = Field(min_length=1, max_length=4096)
    table: str = Field(min_length=1, max_length=200)


class Duckdb(ScannedSource):
    """One table. Somebody who writes to the file at the same time keeps it from being read."""

    def __init__(self, source: DuckdbSource, folder: Path) -> None:
        self._path = existing(path_of(source.path, folder))
        schema, dot, table = source.table.partition(".")
        self._parts = (schema, table) if dot else ("main", schema)
        self.paths = (self._path,)
        self.what = f"{source.table} in {self._path.name}"

    def attach(self, opened: Any) -> str:
        # Named after its file: a connection may hold two of them, and a file can be attached to it only once.
        name = f"thebes_{hashlib.sha256(str(self._path).encode()).hexdigest()[:24]}"
        opened.execute(f"ATTACH IF NOT EXISTS {plain_path(self._path)} AS {name} (READ_ONLY)")
        schema, table = self._parts
        # A view, and a column that is generated, may say something else at each look: by the hour, or by chance.
        views = "SELECT count(*) FROM duckdb_views() WHERE database_name = ? AND schema_name = ? AND view_name = ?"
        tables = (
            "SELECT count(*) FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ? "
            "AND sql ILIKE '%GENERATED ALWAYS%'"
        )
        found = [opened.execute(kind, [name, schema, table]).fetchone()[0] for kind in (views, tables)]
        self.computed = any(found)
        return f"{name}.{quoted(schema)}.{quoted(table)}"


def open_duckdb(source: Mapping[str, Any], *, folder: Path) -> Duckdb:
    """The connector of `{"kind": "duckdb", "path": ..., "table": ...}`."""
    return Duckdb(read_source(DuckdbSource, source), folder)
