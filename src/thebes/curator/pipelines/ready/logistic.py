"""Logistic regression on what every value does to the odds."""

from __future__ import annotations

from typing import Any

from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.data import Data
from thebes.curator.pipelines.ready.pipeline import OfGaussians
from thebes.data.schema import Schema
from thebes.learning import odds
from thebes.learning.arguments import whole
from thebes.learning.odds import OddsModel


class LogisticRegression(OfGaussians):
    """The regression of how likely the second of two values is (see `learning.odds`). A range without `bins` is cut
    into twenty."""

    by_cells = True

    def __init__(self, *, steps: int = odds.STEPS, **fields: Any) -> None:
        super().__init__(**fields)
        self.steps = whole("steps", steps)

    def train(self, data: Data, budget: Allowance) -> OddsModel:
        self.of_two(data.schema)
        features, paid = self.features(data.schema), self.paid(data, budget)
        return odds.fitted(features, self.batches(data), count=data.size, budget=paid, steps=self.steps)

    def fits(self, schema: Schema) -> None:
        super().fits(schema)
        self.of_two(schema)
