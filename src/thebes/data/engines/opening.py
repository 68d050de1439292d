"""A table over somebody's rows: over a data frame, or over a source where it lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thebes.data.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

    from thebes.data.engines.table import EngineTable


def frame_table(schema: Schema, frame: pd.DataFrame) -> EngineTable:
    """A table over a data frame that has every declared column: for simulation and tests."""
    from thebes.data.engines.frames import FrameEngine
    from thebes.data.engines.table import EngineTable

    return EngineTable(schema, FrameEngine(schema, frame))
