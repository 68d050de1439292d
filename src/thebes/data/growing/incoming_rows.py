"""Rows that come in, as DuckDB can read them twice: once to be looked at, once to be kept.

What must stay true: nothing of a batch is repaired. What is not of its declared type is found, so that all of it can be
refused; only what is out of a column's bounds or values comes in, because there it counts as the schema says.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from thebes.data.connectors.connector import Held
from thebes.data.connectors.scanned_source import held, plain_path, quoted
from thebes.data.engines import frames
from thebes.data.engines.duck_columns import NATIVE, fitting, typed_sql
from thebes.data.given_rows import given_frame
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake

_CHUNK = 2**20  # bytes of a file that are hashed at once
_SUFFIXES = {".csv": "csv", ".gz": "csv", ".parquet": "parquet", ".pq": "parquet"}
_ARROW = (".arrow", ".feather", ".ipc")


@dataclass
class Incoming:
    """A batch. `relation` stands after FROM on a connection that `attach` was called with; every declared column has a
    `kind` (what it holds) and a `native` type there. `digest` is the SHA-256 of its content."""

    relation: str
    kinds: Mapping[str, Held]
    natives: Mapping[str, str]
    digest: str
    paths: tuple[Path, ...] = ()
    registered: Mapping[str, Any] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()  #: columns that the schema does not declare

    def attach(self, opened: Any) -> None:
        """Make it readable through this connection."""
        for name, value in self.registered.items():
            opened.register(name, value)

    def typed(self, schema: Schema) -> dict[str, tuple[str, str]]:
        """Each column as (what is kept, whether what came is not of its type)."""
        made = {}
        for name, column in schema.columns.items():
            raw, kind = quoted(name), self.kinds[name]
            kept = typed_sql(raw, column.type, kind, self.natives[name])
            missing = f"{raw} IS NULL"
            if kind in ("float", "text") and column.type in ("integer", "float"):
                missing += f" OR coalesce(isnan(TRY_CAST({raw} AS DOUBLE)), false)"
            made[name] = (kept, f"NOT ({missing}) AND ({kept}) IS NULL")
        return made


def incoming(batch: Any, schema: Schema, opened: Any) -> Incoming:
    """Whatever holds rows: a file by its path, a data frame, dictionaries, something of Arrow."""
    if isinstance(batch, (str, Path)):
        return _file(Path(batch), schema, opened)
    if isinstance(batch, pd.DataFrame):
        return _frame(batch, schema)
    if isinstance(batch, Mapping):
        return _frame(given_frame(batch), schema)
    if isinstance(batch, Sequence) and all(isinstance(row, Mapping) for row in batch):
        return _records(batch, schema)
    if hasattr(batch, "__arrow_c_stream__"):
        return _arrow(batch, schema, opened)
    raise Mistake("rows", "must be a file, a data frame, rows as dictionaries, or something of Arrow")


def _file(path: Path, schema: Schema, opened: Any) -> Incoming:
    if not path.is_file():
        raise Mistake("FILE", f"there is no file {path.name}")
    suffix = path.suffix.lower()
    if suffix in _ARROW:
        return _arrow_file(path, schema, opened)
    if suffix not in _SUFFIXES:
        raise Mistake("FILE", f"must end in .csv, .csv.gz, .parquet or {', '.join(_ARROW)}")
    digest = _digest(path)
    if _SUFFIXES[suffix] == "parquet":
        return _scanned(
            f"read_parquet({plain_path(path, 'FILE')}, hive_partitioning=false)", schema, opened, digest, path
        )
    from thebes.data.connectors.csv import open_csv

    source = open_csv({"kind": "csv", "path": str(path)}, folder=path.parent)
    names = list(source.columns())
    broken = min((each.first for each in source.records(names)[1]), default=None)
    if broken is not None:
        raise Mistake("FILE", f"line {broken} cannot be read as the columns in the first line; nothing was kept")
    relation = source.attach(opened)
    found: dict[str, Held] = dict.fromkeys(names, "text")
    fitting(schema, found)
    return Incoming(relation, found, dict.fromkeys(names, "VARCHAR"), digest, (path,), left_out=_beside(names, schema))


def _scanned(relation: str, schema: Schema, opened: Any, digest: str, *paths: Path, **registered: Any) -> Incoming:
    import duckdb

    try:
        for name, value in registered.items():
            opened.register(name, value)
        described = opened.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    except duckdb.Error:
        raise Mistake("FILE" if paths else "rows", "cannot be read: it is not what its name says") from None
    natives = {name: kind for name, kind, *_ in described}
    kinds = {name: held(kind) for name, kind in natives.items()}
    fitting(schema, kinds)
    return Incoming(relation, kinds, natives, digest, paths, registered, left_out=_beside(list(natives), schema))


def _frame(frame: pd.DataFrame, schema: Schema) -> Incoming:
    absent = [name for name in schema.columns if name not in frame.columns]
    if absent:
        raise Mistake("columns", f"the rows have no column {absent[0]}, which the schema declares")
    made: dict[str, pd.Series[Any]] = {}
    natives: dict[str, str] = {}
    digest = hashlib.sha256()
    for name, column in schema.columns.items():
        raw = frame[name].reset_index(drop=True)
        if len(raw) and not frames.could_be(raw, column.type):
            raise Mistake(f"columns.{name}.type", f"the schema says {column.type}, the rows hold {raw.dtype}")
        typed = frames.typed(raw, column.type)
        wrong = (typed.isna() & ~raw.isna()).to_numpy(dtype=bool)
        if wrong.any():
            raise wrong_type(name, int(wrong.argmax()) + 1, column.type)
        made[name], natives[name] = typed, NATIVE[column.type]
        digest.update(f"{name} {column.type} {len(typed)}\n".encode())
        digest.update(pd.util.hash_pandas_object(typed, index=False).to_numpy().tobytes())
    kinds: dict[str, Held] = {name: column.type for name, column in schema.columns.items()}
    table = pd.DataFrame(made, index=pd.RangeIndex(len(frame)))
    left = _beside([str(name) for name in frame.columns], schema)
    return Incoming(
        "thebes_batch", kinds, natives, digest.hexdigest(), registered={"thebes_batch": table}, left_out=left
    )


def _records(rows: Sequence[Mapping[str, Any]], schema: Schema) -> Incoming:
    for place, row in enumerate(rows, 1):
        unknown = next((name for name in row if name not in schema.columns), None)
        if unknown is not None:
            raise Mistake("rows", f"row {place} has {str(unknown)[:63]!r}, which the schema does not declare")
    return _frame(
        pd.DataFrame({name: pd.Series([row.get(name) for row in rows], dtype=object) for name in schema.columns}),
        schema,
    )


def _arrow(batch: Any, schema: Schema, opened: Any) -> Incoming:
    import pyarrow as pa

    table = (
        batch.read_all() if hasattr(batch, "read_all") else batch if isinstance(batch, pa.Table) else pa.table(batch)
    )
    sink = _Hashed()
    with pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), table.schema) as stream:
        stream.write_table(table)
    return _scanned("thebes_batch", schema, opened, sink.digest.hexdigest(), thebes_batch=table)


class _Hashed(io.RawIOBase):
    """A file that is only hashed."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, piece: Any) -> int:
        self.digest.update(piece)
        return len(piece)


def _arrow_file(path: Path, schema: Schema, opened: Any) -> Incoming:
    try:
        from pyarrow import dataset
    except ImportError:
        raise Mistake(
            "FILE", "of Arrow needs pyarrow: pip install 'thebes[postgres]', or write it as Parquet"
        ) from None
    try:
        found = dataset.dataset(path, format="ipc")
    except (OSError, ValueError):
        raise Mistake("FILE", f"{path.name} is not an Arrow file (of record batches, not a stream)") from None
    return _scanned("thebes_batch", schema, opened, _digest(path), path, thebes_batch=found)


def wrong_type(column: str, row: int, declared: str) -> Mistake:
    """Make the error about a value that is not of its column's type: it never says the value."""
    return Mistake(f"columns.{column}", f"row {row} holds something that is not of type {declared}; nothing was kept")


def _digest(path: Path) -> str:
    made = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_CHUNK):
            made.update(piece)
    return made.hexdigest()


def _beside(names: Sequence[str], schema: Schema) -> tuple[str, ...]:
    return tuple(name for name in names if name not in schema.columns)
