"""The rows that one question keeps, as batches of numbers: person after person, some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thebes.data.engines.engine import KeptRows
from thebes.data.engines.tensor_rows import TensorRows
from thebes.data.schema import Schema
from thebes.data.table import Batch
from thebes.privacy.promise import Unit

WHOSE = "_whose"  #: the column that says whose a row is; without people it means nothing


def place_at(number: int) -> str:
    """Return the column of kept rows in which the distinct column of this number lies."""
    return f"_x{number}"


@dataclass(frozen=True, slots=True)
class KeptBatches:
    """Kept rows, sorted by whose they are, with the columns `names`, of which some may be named twice."""

    schema: Schema
    kept: KeptRows
    tensors: TensorRows
    names: tuple[str, ...]

    def batches(self, rows: int) -> Iterator[Batch]:
        """Give about so many rows at a time, nobody's in two batches."""
        person, left = 0, None
        for chunk in self.kept.chunks(rows):
            more = len(chunk) == rows
            chunk = chunk if left is None else pd.concat([left, chunk], ignore_index=True)
            fresh, left = self._starts(chunk), None
            if more and self._people:  # whose rows come last may have more
                last = int(np.flatnonzero(fresh)[-1])
                left, chunk, fresh = chunk.iloc[last:].reset_index(drop=True), chunk.iloc[:last], fresh[:last]
            if len(chunk):
                yield self._batch(chunk, fresh, person)
                person += int(fresh.sum())
        if left is not None:
            yield self._batch(left, self._starts(left), person)

    @property
    def _people(self) -> bool:
        """Return whether rows are those of people who may have several."""
        return Unit(self.schema.unit) is Unit.PERSON and self.schema.key is not None

    def _starts(self, chunk: pd.DataFrame) -> NDArray[np.bool_]:
        """Mark where a row is of somebody else than the row before."""
        if not self._people:
            return np.ones(len(chunk), dtype=np.bool_)
        whose = chunk[WHOSE].to_numpy(dtype=object)
        fresh = np.ones(len(chunk), dtype=np.bool_)
        fresh[1:] = whose[1:] != whose[:-1]
        return fresh

    def _batch(self, chunk: pd.DataFrame, fresh: NDArray[np.bool_], person: int) -> Batch:
        distinct = list(dict.fromkeys(self.names))
        numbers = np.zeros((len(chunk), len(self.names)), dtype=np.float64)
        for i, name in enumerate(self.names):
            column, values = self.schema.offered(name), chunk[place_at(distinct.index(name))]
            if column.ranged or column.type == "float":
                numbers[:, i] = values.to_numpy(dtype=np.float64)
            elif column.tensor is None:
                declared = pd.Index(list(column.held), dtype=object)
                numbers[:, i] = declared.get_indexer(pd.Index(values.astype(object)))
        return Batch(numbers, person + np.cumsum(fresh, dtype=np.int64) - 1, self.tensors.of(chunk))
