"""The directions that are downhill for a model: gradient questions, answered with noise or out of made-up rows.

What must stay true: rows' gradients are clipped layer by layer and counted in whole steps, each row by itself; what a
direction may cost is known before rows are looked at, and follows from what was released.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from thebes.curator.cache.answer import NOTHING, Amounts, AnswerSource
from thebes.curator.cache.purchase import Purchase
from thebes.curator.cache.synopsis import Pay
from thebes.curator.questions.plans import Integers
from thebes.data.schema import Schema
from thebes.data.table import Table
from thebes.learning.features import Features
from thebes.learning.slopes import Slopes
from thebes.privacy import exact
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Additive, Gaussian
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import Change, Sensitivity
from thebes.privacy.transformations.sums import VectorSum

BITS = 16  #: of the steps in which a layer's gradient is counted
ROWS = 2**28  #: no more are summed
_AT_ONCE = 2**21  #: numbers of gradients held at a time

Sums = Callable[[Floats], Integers]  #: the exact sum of all rows' clipped gradients at these weights: SECRET


@dataclass(frozen=True)
class Taught:
    """A model over columns of a schema: `slopes` gives its gradients, `layers` how many weights each layer has. Of one
    row the gradient of each layer counts up to `clip` / sqrt(layers), all of it up to `clip`."""

    schema: Schema
    features: Features
    output: str
    slopes: Slopes = field(compare=False)
    layers: tuple[int, ...] = ()
    clip: float = 1.0

    def __post_init__(self) -> None:
        if not self.layers:
            object.__setattr__(self, "layers", (self.slopes.count,))
        if sum(self.layers) != self.slopes.count or min(self.layers) < 1:
            raise Mistake("layers", "must share out all weights of the model")
        column = self.schema.column(self.output, "output")
        if not column.ranged and column.values is None:
            raise Mistake("output", f"names {self.output!r}, which has neither bounds nor declared values")

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.features.columns, self.output)

    @cached_property
    def counted(self) -> tuple[VectorSum, ...]:
        """The sums in which each layer's gradients are counted."""
        return tuple(VectorSum(self.clip / np.sqrt(len(self.layers)), 2, size, BITS) for size in self.layers)

    @property
    def step(self) -> float:
        return self.counted[0].step

    @cached_property
    def starts(self) -> list[int]:
        """The places at which each layer but the first begins."""
        return [int(end) for end in np.cumsum(self.layers)[:-1]]

    def sensitivity(self, change: Change) -> Sensitivity:
        """Layers have no weight in common: squared lengths add up."""
        parts = [layer.sensitivity(change) for layer in self.counted]
        return Sensitivity(sum(p.l1 for p in parts), sum(p.l2_squared for p in parts), self.slopes.count)

    def inputs(self, numbers: Floats) -> tuple[Floats, Floats]:
        """Return what the model is fed of a batch that has `columns` in order, and its targets: a range from -1 to
        1."""
        column = self.schema.columns[self.output]
        targets = numbers[:, -1]
        if column.ranged:
            grid = column.grid(1)
            targets = np.clip((targets - grid.low) / (grid.high - grid.low) * 2 - 1, -1, 1)
        return self.features.of(numbers[:, :-1]), targets

    def whole(self, weights: Floats, inputs: Floats, targets: Floats) -> Integers:
        """Each row's clipped gradient in whole steps; what is no number counts as none."""
        gradients, _ = self.slopes.of(weights, inputs, targets)
        finite = np.where(np.isfinite(gradients), gradients, 0.0)
        layers = np.split(finite, self.starts, axis=1)
        return np.hstack([counted.integers(each) for counted, each in zip(self.counted, layers, strict=True)])


class Taken:
    """The rows of a table, held to be summed again at other weights."""

    def __init__(self, taught: Taught, table: Table) -> None:
        found = [taught.inputs(np.asarray(batch.numbers)) for batch in table.batches(taught.columns)]
        self._taught = taught
        if sum(len(targets) for _, targets in found) > ROWS:
            raise Fault("these are more rows than gradients are summed over")
        self._inputs = np.concatenate([inputs for inputs, _ in found] or [np.zeros((0, taught.features.width))])
        self._targets = np.concatenate([targets for _, targets in found] or [np.zeros(0)])

    def __call__(self, weights: Floats) -> Integers:
        """The exact sum of all rows' clipped gradients: SECRET."""
        count = self._taught.slopes.count
        total = np.zeros(count, dtype=np.int64)
        at_once = max(1, _AT_ONCE // count)
        for start in range(0, len(self._inputs), at_once):
            rows = slice(start, start + at_once)
            total += self._taught.whole(weights, self._inputs[rows], self._targets[rows]).sum(axis=0)
        return total


@dataclass(frozen=True, slots=True)
class Direction:
    """The mean of all rows' clipped gradients, about. `alike`: out of made-up rows, the least cosine that it has with
    the exact sum (each layer's weighed by how long that is), and the odds that it has less."""

    mean: Floats
    source: AnswerSource
    alike: tuple[float, float] | None = None
    cost: Amounts = field(default=NOTHING)


class Directions(Protocol):
    """Whatever answers gradient questions about one data set and one model."""

    def most(self, weights: Floats) -> Sequence[Purchase]:
        """All that an answer may have to pay now, from public state alone."""
        ...

    def answer(self, weights: Floats, sums: Sums, pay: Pay, randomness: Randomness) -> Direction:
        """The answer; `pay` charges before anything is looked at or drawn, each purchase as often as `most` has it."""
        ...


@dataclass(frozen=True)
class Noised:
    """Answers every question with Gaussian noise of (epsilon, delta); `size` is the public number of rows."""

    taught: Taught
    epsilon: exact.Number
    delta: exact.Number
    size: float

    @cached_property
    def noise(self) -> Additive:
        return Gaussian(self.epsilon, self.delta).noise(self.taught.sensitivity(self.taught.schema.change))

    @cached_property
    def purchase(self) -> Purchase:
        return Purchase.of_noise(self.noise, epsilon=self.epsilon, delta=self.delta)

    def most(self, weights: Floats) -> Sequence[Purchase]:
        return (self.purchase,)

    def answer(self, weights: Floats, sums: Sums, pay: Pay, randomness: Randomness) -> Direction:
        pay(self.purchase)
        return self.drawn(sums(weights), randomness)

    def drawn(self, total: Integers, randomness: Randomness) -> Direction:
        """With noise that was paid for."""
        noised = self.noise.add(total, randomness)
        return Direction(noised * (self.taught.step / max(1.0, self.size)), AnswerSource.MECHANISM)


def charged(direction: Direction, cost: Amounts) -> Direction:
    return replace(direction, cost=cost)
