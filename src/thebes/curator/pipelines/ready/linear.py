"""Linear regression: one pass over the blocks, in bounded memory."""

from __future__ import annotations

from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.data import Data
from thebes.curator.pipelines.ready.pipeline import OfGaussians
from thebes.data.schema import Schema
from thebes.learning import moments
from thebes.learning.moments import LinearModel


class LinearRegression(OfGaussians):
    """Least squares from noisy second moments (see `learning.moments`): a number with bounds from any inputs."""

    def train(self, data: Data, budget: Allowance) -> LinearModel:
        features, ends = self.features(data.schema), self.ends(data.schema)
        paid = self.paid(data, budget)
        return moments.fitted(
            features,
            ends,
            self.scaled(data, features),
            count=data.size,
            budget=paid,
            targets=lambda: self.outputs(data),
        )

    def fits(self, schema: Schema) -> None:
        super().fits(schema)
        self.ends(schema)
