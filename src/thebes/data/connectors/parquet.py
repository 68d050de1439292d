"""Parquet files, one or as many as a pattern names, read by DuckDB where they lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from thebes.data.connectors.connector import Held, Source, SourceUnavailable, existing, path_of, read_source
from thebes.data.connectors.scanned_source import ScannedSource, plain_path
from thebes.privacy.faults import Mistake

MOST_FILES = 100_000


class ParquetSource(Source):
    """`path` may hold `*` in its last part."""

    kind: Literal["parquet"]
    path: str = Field(min_length=1, max_length=4096)


class Parquet(ScannedSource):
    """Files of one shape, as one table. Which they are is decided when they are opened."""

    def __init__(self, source: ParquetSource, folder: Path) -> None:
        pattern = Path(source.path)
        if "*" in pattern.name:
            self.paths = tuple(
                sorted(p for p in path_of(str(pattern.parent), folder).glob(pattern.name) if p.is_file())
            )
            if not self.paths:
                raise SourceUnavailable(f"source.path: there is no file {pattern.name} where the data set says")
            if len(self.paths) > MOST_FILES:
                raise Mistake("source.path", f"names more than {MOST_FILES} files")
        else:
            self.paths = (existing(path_of(source.path, folder)),)
        self.what = pattern.name

    def columns(self) -> Mapping[str, Held]:
        self._run(lambda opened: of_one_shape(opened, self.paths))
        return super().columns()

    def attach(self, opened: Any) -> str:
        files = ", ".join(plain_path(path) for path in self.paths)
        return f"read_parquet([{files}], hive_partitioning=false, union_by_name={len(self.paths) > 1})"


def of_one_shape(opened: Any, paths: Sequence[Path]) -> None:
    """Refuse files in which one column has two types: read together, a file of one person's rows would change what
    everybody's are, as whole numbers beside floats become floats."""
    if len(paths) < 2:
        return
    files = ", ".join(plain_path(path) for path in paths)
    # depth first, as a file lists it
    asked = f"SELECT name, type, logical_type, num_children FROM parquet_schema([{files}])"
    found: dict[str, tuple[str, ...]] = {}
    nodes = iter(opened.execute(asked).fetchall())
    for *_, columns in nodes:  # a file's root
        for _ in range(columns or 0):
            name, *kinds = _node(nodes)
            shape = tuple(kinds)
            if "" not in shape and found.setdefault(name, shape) != shape:
                told = f"hold {name[:63]!r} in two types, such as whole numbers and floats; write all with one"
                raise Mistake("source.path", f"names files that {told}")


def _node(nodes: Iterator[tuple[Any, ...]]) -> list[str]:
    """Return a column's name and the kinds of all that lies in it; an empty one where nothing can."""
    name, kind, logical, children = next(nodes)
    told = f"{logical} {kind}"
    if str(logical).startswith(("Decimal", "Null")):
        told = str(logical).partition("(")[0]
    if kind in ("INT32", "INT64") and (logical is None or str(logical).startswith("Int")):
        told = "whole numbers"
    if kind in ("FLOAT", "DOUBLE"):
        told = "floats"
    return [name, "" if told == "NullType" else told, *(k for _ in range(children or 0) for k in _node(nodes)[1:])]


def open_parquet(source: Mapping[str, Any], *, folder: Path) -> Parquet:
    """The connector of `{"kind": "parquet", "path": ...}`."""
    return Parquet(read_source(ParquetSource, source), folder)
