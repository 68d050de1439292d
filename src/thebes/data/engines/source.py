"""A table over somebody's rows: over a data frame, or over a source where it lies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thebes.data.given_rows import FILES, given_file, given_frame
from thebes.data.schema import Schema

if TYPE_CHECKING:
    from thebes.data.engines.table import EngineTable


def frame_table(schema: Schema, frame: Any) -> EngineTable:
    """A table over a data frame of pandas (for simulation and tests) or of Spark, with every declared column."""
    from thebes.data.engines.frames import FrameEngine, FrameTable
    from thebes.data.engines.table import EngineTable

    if type(frame).__module__.startswith("pyspark."):
        from thebes.data.engines.spark import SparkEngine

        return EngineTable(schema, SparkEngine(schema, frame))
    return FrameTable(schema, FrameEngine(schema, frame))


def given_table(schema: Schema, rows: Any, *, scratch: Path) -> EngineTable:
    """A table over rows as a person gives them: a data frame (pandas, polars, Arrow), a dict of columns, or the path of
    a CSV or Parquet file. What does not fit into memory is put into `scratch`."""
    path = given_file(rows)
    if path is not None:
        source = {"kind": FILES[path.suffix.lower()], "path": path.name}
        if path.suffix.lower() == ".tsv":
            source["delimiter"] = "\t"
        return table_of(schema, source, folder=path.resolve().parent, scratch=scratch)
    return frame_table(schema, given_frame(rows))


def table_of(
    schema: Schema,
    source: Mapping[str, Any],
    *,
    folder: Path,
    scratch: Path | None = None,
    memory: str | None = None,
    threads: int | None = None,
) -> EngineTable:
    """A table over a source where it lies. `folder` is the data set's own: relative paths start there, and what does
    not fit into `memory` is put below `scratch` (by default a folder in it) until the table is closed."""
    from thebes.data.engines.table import EngineTable

    if source.get("kind") == "spark":
        from thebes.data.engines.spark import spark_engine

        return EngineTable(schema, spark_engine(schema, source, folder=folder))

    from thebes.data.connectors.registry import open_connector
    from thebes.data.engines.duck import MEMORY, DuckEngine

    connector = open_connector(source, folder=folder)
    try:
        engine = DuckEngine(
            schema, connector, scratch=scratch or folder / "scratch", memory=memory or MEMORY, threads=threads
        )
    except BaseException:
        connector.close()
        raise
    return EngineTable(schema, engine)
