"""Neural networks by sampled noisy descent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.data import Data
from thebes.curator.pipelines.ready.pipeline import Ready
from thebes.data.schema import Schema
from thebes.learning import network
from thebes.learning.arguments import positive, whole
from thebes.learning.network import NetworkModel, Sampling
from thebes.privacy import exact
from thebes.privacy.accounting.calibration import sampled_ratio
from thebes.privacy.events import Event
from thebes.privacy.faults import Mistake


class NeuralNetwork(Ready):
    """Layers of rectified units (see `learning.network`): a number with bounds, or how likely the second of two values
    is. Every unit takes part in each of `steps` steps with the chance `rate`, and with all its rows."""

    def __init__(
        self,
        *,
        layers: Sequence[int] = (32, 16),
        steps: int = 400,
        rate: float = 0.01,
        clip: float = 1.0,
        learning_rate: float = 0.02,
        **fields: Any,
    ) -> None:
        super().__init__(**fields)
        if not isinstance(layers, (list, tuple)):
            raise Mistake("layers", "must list how many units each layer has")
        self.layers = tuple(whole("layers", units) for units in layers)
        self.steps, self.rate = whole("steps", steps), positive("rate", rate)
        self.clip, self.learning_rate = positive("clip", clip), positive("learning_rate", learning_rate)

    def train(self, data: Data, budget: Allowance) -> NetworkModel:
        schema = data.schema
        self._reads(schema)
        ranged = schema.column(self.output, "output").ranged
        paid = budget.spend()
        return network.fitted(
            self.features(schema),
            self._batches(data, ranged=ranged),
            ends=self.ends(schema) if ranged else None,
            layers=self.layers,
            sampling=self._sampling(paid.epsilon, paid.delta),
            clip=self.clip,
            learning_rate=self.learning_rate,
            count=data.size,
            change=schema.change,
            randomness=data.randomness,
        )

    def fits(self, schema: Schema) -> None:
        self._reads(schema)
        first, limits = self._sampling(self.epsilon, self.delta), self.limits
        sampled_ratio(
            rate=first.rate, rounds=first.steps, epsilon=limits.start, delta=limits.delta_for(limits.start)
        )  # which refuses what no noise hides

    def _reads(self, schema: Schema) -> None:
        """Refuse columns that a network cannot learn from, whatever an attempt may spend."""
        super().fits(schema)
        if not schema.column(self.output, "output").ranged:
            self.of_two(schema)

    def check(self) -> None:
        super().check()
        if not self.output:
            raise Mistake("output", "must name the column to predict")
        self._sampling(self.epsilon, self.delta)

    def event(self, epsilon: exact.Number, delta: exact.Number) -> Event | None:
        return self._sampling(epsilon, delta).event

    def _sampling(self, epsilon: exact.Number, delta: exact.Number) -> Sampling:
        return Sampling.of(epsilon, delta, steps=self.steps, rate=self.rate)

    def _batches(self, data: Data, *, ranged: bool) -> network.Batches:
        scale = self.scale(data.schema) if ranged else np.asarray
        for batch in data.batches((*self.inputs, self.output)):
            yield batch.numbers[:, :-1], scale(batch.numbers[:, -1]), batch.people
