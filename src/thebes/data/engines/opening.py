"""A table over somebody's rows: over a data frame, or over a source where it lies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thebes.data.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

    from thebes.data.engines.table import EngineTable


def frame_table(schema: Schema, frame: pd.DataFrame) -> EngineTable:
    """A table over a data frame that has every declared column: for simulation and tests."""
    from thebes.data.engines.frames import FrameEngine
    from thebes.data.engines.table import EngineTable

    return EngineTable(schema, FrameEngine(schema, frame))


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
    from thebes.data.connectors.connector import open_connector
    from thebes.data.engines.duck import MEMORY, DuckEngine
    from thebes.data.engines.table import EngineTable

    connector = open_connector(source, folder=folder)
    try:
        engine = DuckEngine(
            schema, connector, scratch=scratch or folder / "scratch", memory=memory or MEMORY, threads=threads
        )
    except BaseException:
        connector.close()
        raise
    return EngineTable(schema, engine)
