"""Rows that DuckDB keeps in order, to be read more than once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import pandas as pd

if TYPE_CHECKING:
    from thebes.data.engines.duck import DuckEngine


class KeptTable:
    """Rows in order in a table of the engine's."""

    def __init__(self, engine: DuckEngine, name: str) -> None:
        self._engine = engine
        self.name = name

    @property
    def frame(self) -> nw.LazyFrame[Any]:
        """All of its rows."""
        return self._engine.lazy(f"SELECT * FROM {self.name}")

    @property
    def rows(self) -> int:
        """The number of its rows."""
        ((count,),) = self._engine.run(f"SELECT count(*) FROM {self.name}").fetchall()
        return int(count)

    def chunks(self, rows: int) -> Iterator[pd.DataFrame]:
        for start in range(0, self.rows, rows):
            wanted = f"rowid >= {start} AND rowid < {start + rows}"
            yield self._engine.run(f"SELECT * FROM {self.name} WHERE {wanted} ORDER BY rowid").df()

    def close(self) -> None:
        self._engine.run(f"DROP TABLE IF EXISTS {self.name}")
