"""Parquet files, one or as many as a pattern names, read by DuckDB where they lie."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from thebes.data.connectors.connector import Source, SourceUnavailable, existing, path_of, read_source
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

    def attach(self, opened: Any) -> str:
        files = ", ".join(plain_path(path) for path in self.paths)
        return f"read_parquet([{files}], hive_partitioning=false, union_by_name={len(self.paths) > 1})"


def open_parquet(source: Mapping[str, Any], *, folder: Path) -> Parquet:
    """The connector of `{"kind": "parquet", "path": ...}`."""
    return Parquet(read_source(ParquetSource, source), folder)
