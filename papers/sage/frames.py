"""Rows of a table as a pipeline's steps are given them: for experiments, where no stream and no ledger is needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thebes.curator.pipelines.data import Data
from thebes.data.engines.source import frame_table
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Batch, Sums
from thebes.privacy.randomness import Randomness

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FrameRows:
    """All rows of a frame that has the schema's columns."""

    schema: Schema
    frame: pd.DataFrame

    def part(self, which: Literal["train", "test"], *, test: float = 0.1) -> FrameRows:
        """The last rows to test on: of a shuffled frame they are as good as any."""
        cut = round(len(self.frame) * (1 - test))
        return FrameRows(self.schema, self.frame.iloc[:cut] if which == "train" else self.frame.iloc[cut:])

    def arrays(self, columns: Sequence[str], *, rows: int = 65_536) -> Iterator[Floats]:
        for start in range(0, len(self.frame), rows):
            part = self.frame.iloc[start : start + rows]
            numbers = np.column_stack([_numbers(part[name], self.schema, name) for name in columns])
            yield numbers[~np.isnan(numbers).any(axis=1)]

    def batches(self, columns: Sequence[str], *, rows: int = 65_536) -> Iterator[Batch]:
        yield from frame_table(self.schema, self.frame).batches(columns, rows=rows)

    def sums(self, wanted: Sums) -> NDArray[np.int64]:
        return frame_table(self.schema, self.frame).sums(wanted)

    def close(self) -> None:
        """Nothing is open."""


def data_of(schema: dict[str, Any], frame: pd.DataFrame, randomness: Randomness) -> Data:
    """Return what a step of a pipeline is given; how many rows there are is known here."""
    return Data(FrameRows(schema_of(schema), frame), float(max(1, len(frame))), randomness=randomness)


def _numbers(values: pd.Series, schema: Schema, name: str) -> Floats:
    column = schema.columns[name]
    if column.values is not None:
        place = {value: float(index) for index, value in enumerate(column.values)}
        if list(column.values) == list(range(len(column.values))):
            return np.asarray(values, dtype=np.float64)
        return np.asarray(values.map(place), dtype=np.float64)
    numbers: Floats = np.asarray(values, dtype=np.float64)
    return np.asarray(numbers if column.low is None else np.clip(numbers, column.low, column.high))
