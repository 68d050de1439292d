"""Logistic regression on what every value does to the odds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.data import Data
from thebes.curator.pipelines.ready.pipeline import OfGaussians
from thebes.curator.pipelines.validators import Best
from thebes.data.schema import Schema
from thebes.learning import odds
from thebes.learning.arguments import whole
from thebes.learning.odds import OddsModel


class LogisticRegression(OfGaussians):
    """The regression of how likely the second of two values is (see `learning.odds`). A range without `bins` is cut
    into twenty."""

    def __init__(self, *, steps: int = odds.STEPS, **fields: Any) -> None:
        super().__init__(**fields)
        self.steps = whole("steps", steps)

    def train(self, data: Data, budget: Allowance) -> OddsModel:
        self.of_two(data.schema)
        features, paid = self.features(data.schema), self.paid(data, budget)
        return odds.fitted(features, self.batches(data), count=data.size, budget=paid, steps=self.steps)

    def best(self, metric: str, data: Data) -> Best | None:
        """Count the rows that no function of the features' cells tells rightly: in every cell those of the rarer value,
        and what this learns is such a function. A row more is in one cell, whose rarer value it adds to or not: so the
        least rises by 0 or 1."""
        if metric != "accuracy":
            return None
        features = self.features(data.schema)
        seen: dict[bytes, NDArray[np.int64]] = {}
        for rows, values in self.batches(data):
            cells, of = np.unique(features.cells(rows), axis=0, return_inverse=True)
            counts = np.zeros((len(cells), 2), dtype=np.int64)
            np.add.at(counts, (of.reshape(-1), (values > 0.5).astype(np.int64)), 1)
            for cell, count in zip(cells, counts, strict=True):
                seen[cell.tobytes()] = seen.get(cell.tobytes(), 0) + count
        counted = list(seen.values())
        return Best(float(sum(count.min() for count in counted)), int(sum(count.sum() for count in counted)))

    def fits(self, schema: Schema) -> None:
        super().fits(schema)
        self.of_two(schema)
