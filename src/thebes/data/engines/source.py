"""A table over somebody's rows: over a data frame, or over a source where it lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thebes.data.given_rows import FILES, given_file, given_frame
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    from thebes.data.connectors.connector import Connector
    from thebes.data.engines.table import EngineTable
    from thebes.data.join import Join


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
    source = _given_source(rows)
    if source is not None:
        return table_of(schema, source[0], folder=source[1], scratch=scratch)
    return frame_table(schema, given_frame(rows))


def _given_source(rows: Any) -> tuple[dict[str, str], Path] | None:
    """The source that a path names, and the folder it lies in; None where no path was given."""
    path = given_file(rows)
    if path is None:
        return None
    more = {"delimiter": "\t"} if path.suffix.lower() == ".tsv" else {}
    return {"kind": FILES[path.suffix.lower()], "path": path.name, **more}, path.resolve().parent


def joined_table(join: Join, sources: Sequence[Mapping[str, Any]], *, folder: Path, scratch: Path) -> EngineTable:
    """A table over the joined rows of two sources where they lie."""
    from thebes.data.connectors.registry import open_connector

    for name, source in zip(join.names, sources, strict=True):
        if source.get("kind") == "spark":
            raise Mistake("join", f"cannot reach into Spark, where the rows of {name} lie")
    with ExitStack() as opened:  # what was opened is closed again where something is refused
        connectors = []
        for source in sources:
            connectors.append(open_connector(source, folder=folder))
            opened.callback(connectors[-1].close)
        made = _joined(join, connectors, scratch)
        opened.pop_all()
    return made


def given_join(join: Join, rows: Sequence[Any], *, scratch: Path) -> EngineTable:
    """A table over the joined rows of two data sets that a person gives."""
    from thebes.data.connectors.given import GivenRows
    from thebes.data.connectors.registry import open_connector

    connectors: list[Connector] = []
    for schema, own in zip(join.schemas, rows, strict=True):
        source = _given_source(own)
        if source is None:
            connectors.append(GivenRows(schema, given_frame(own)))
        else:
            connectors.append(open_connector(source[0], folder=source[1]))
    return _joined(join, connectors, scratch)


def _joined(join: Join, connectors: Sequence[Connector], scratch: Path) -> EngineTable:
    from thebes.data.engines.joined import JoinedEngine
    from thebes.data.engines.table import EngineTable

    return EngineTable(join.schema, JoinedEngine(join, connectors, scratch=scratch))


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
    from thebes.data.engines.tensor_rows import check_reachable

    if source.get("kind") == "spark":
        from thebes.data.engines.spark import spark_engine

        return EngineTable(schema, spark_engine(schema, source, folder=folder))

    from thebes.data.connectors.connector import path_of
    from thebes.data.connectors.registry import open_connector
    from thebes.data.engines.duck import MEMORY, TENSOR_MEMORY, DuckEngine

    connector = open_connector(source, folder=folder)
    scratch = scratch or folder / "scratch"
    try:
        memory = memory or (TENSOR_MEMORY if schema.tensors else MEMORY)
        engine = DuckEngine(schema, connector, scratch=scratch, memory=memory, threads=threads)
    except BaseException:
        connector.close()
        raise
    files = path_of(str(source["files"]), folder) if "files" in source else None
    table = EngineTable(schema, engine, files, scratch)
    try:
        check_reachable(schema, engine, files)
    except BaseException:
        table.close()
        raise
    return table
