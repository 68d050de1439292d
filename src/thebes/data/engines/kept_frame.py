"""Rows that are kept as a data frame of pandas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import narwhals.stable.v2 as nw
import pandas as pd


class KeptFrame:
    """A sorted data frame."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    @property
    def frame(self) -> nw.LazyFrame[Any]:
        """All of its rows."""
        return lazily(self._frame)

    @property
    def rows(self) -> int:
        """The number of its rows."""
        return len(self._frame)

    def chunks(self, rows: int) -> Iterator[pd.DataFrame]:
        for start in range(0, len(self._frame), rows):
            yield self._frame.iloc[start : start + rows].reset_index(drop=True)

    def close(self) -> None:
        self._frame = self._frame.iloc[:0]


def lazily(frame: pd.DataFrame) -> nw.LazyFrame[Any]:
    """Return a data frame as every engine gives its rows."""
    return nw.from_native(frame).lazy()
