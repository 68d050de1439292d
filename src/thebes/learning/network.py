"""Networks by sampled noisy descent (DP-SGD, Abadi et al. 2016): small ones over rows of features.

Must stay true: every unit takes part in a step by a coin of its own, with exactly the stated chance, and all its rows
with it; a row's gradient is computed as if it were alone; a unit's is clipped and rounded to whole numbers by itself;
sums are divided by how many rows are *expected*, which is public, never by how many came.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from thebes.learning.features import Features
from thebes.learning.updates import Adam
from thebes.privacy import exact
from thebes.privacy.accounting.calibration import ratio_for_rounds, sampled_ratio
from thebes.privacy.accounting.distribution import SMALLEST_DELTA
from thebes.privacy.accounting.gaussian import grid_slack
from thebes.privacy.events import Event, PoissonGaussianEvent, Repeated
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Coin, Randomness
from thebes.privacy.stability import Change
from thebes.privacy.transformations.sums import VectorSum

if TYPE_CHECKING:
    from thebes.learning.graph.document import GraphLoss, Model

Floats = NDArray[np.float64]
#: Rows as a batch has them, the target of each, and whose it is: rows of one unit lie together and in one batch.
Batches = Iterable[tuple[Floats, Floats, NDArray[np.int64]]]
_PARTS = 2**20  #: a chance of taking part is a whole number of these
_BITS = 20
#: A row's gradient is a whole number of these parts of `clip`, and so cut that no unit's sum leaves 64 bits.
_FINE, _MOST_FINE = 2**30, 2**40
_SLACK_SHARE = 1 / 1000  #: of delta, for noise on whole numbers instead of real ones
_MOST_LAYERS, _MOST_UNITS = 4, 5000


@dataclass(frozen=True, slots=True)
class Sampling:
    """`steps` steps, each unit taking part in each with the chance `rate`: what they cost together, and how much noise
    that asks for.

    The least noise that one of two accountants proves enough. A Renyi curve at whole orders holds for noise on whole
    numbers as it is (`sampled_ratio`). A privacy loss distribution, with which a tenth less is usually enough, speaks
    of real noise and is asked at delta less a slack; the grid is made so fine that all steps together cost no more
    than that slack beside it (`accounting.gaussian.grid_slack`).
    """

    epsilon: Decimal
    delta: Decimal
    steps: int = 400
    rate: float = 0.01

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or not 0 < self.steps <= 10**6:
            raise Mistake("steps", "must be a whole number between 1 and a million")
        if not 1 / _PARTS <= self.rate <= 1:
            raise Mistake("rate", "must be greater than 0 and at most 1")

    @classmethod
    def of(cls, epsilon: exact.Number, delta: exact.Number, *, steps: int = 400, rate: float = 0.01) -> Self:
        """`rate` is rounded down to a multiple of 2^-20, so that a coin can have exactly it."""
        found = exact.delta(delta)
        if found == 0:
            raise Mistake(
                "delta", "is 0, but noisy descent has no pure form: give one greater than 0, for example 1e-6"
            )
        return cls(exact.epsilon(epsilon), found, steps, math.floor(rate * _PARTS) / _PARTS)

    @property
    def coin(self) -> Coin:
        return Coin.nearest(Fraction(self.rate))

    @property
    def ratio(self) -> float:
        """Deviation of a step's noise over the length of a clipped gradient."""
        return self._once.ratio

    @property
    def event(self) -> Event:
        return Repeated(self._once, self.steps)

    def finer(self, scale: float, width: int) -> int:
        """Return how many times finer the grid of a step's noise has to be than one on which its deviation is
        `scale`."""
        slack, finer = self._once.slack, 1
        farthest = math.sqrt(width) * scale / self.ratio  # two sums in L1, in steps of the coarse grid
        while slack and grid_slack(scale * finer, farthest * finer) > slack:
            finer *= 2
        return finer

    @property
    def _once(self) -> PoissonGaussianEvent:
        rate, rounds, epsilon = self.rate, self.steps, self.epsilon
        curve = sampled_ratio(rate=rate, rounds=rounds, epsilon=epsilon, delta=self.delta)
        slack = float(self.delta) * _SLACK_SHARE
        if float(self.delta) - slack < SMALLEST_DELTA:
            return PoissonGaussianEvent(rate, curve)
        left = math.nextafter(float(self.delta) - slack, 0) * (1 - 1e-12)
        relation = Adjacency.ADD_REMOVE_ONE
        least = ratio_for_rounds(rate=rate, rounds=rounds, epsilon=epsilon, delta=left, adjacency=relation)
        if least >= curve:
            return PoissonGaussianEvent(rate, curve)
        return PoissonGaussianEvent(rate, least, slack / rounds * (1 - 1e-12))


@dataclass(frozen=True, slots=True)
class NetworkModel:
    """`graph` holds the network and its weights (see `learning.graph`). Of a number it says the number, between `low`
    and `high`; of two classes (`classes`) how likely the second is."""

    features: Features
    graph: str
    classes: bool
    low: float = 0.0
    high: float = 1.0
    _read: list[Model] = field(default_factory=list, repr=False, compare=False)

    def predict(self, rows: Any) -> Floats:
        """For the rows of a table, or as a batch has them (the features' `columns` in order)."""
        from thebes.learning.graph.document import read_model
        from thebes.learning.graph.interpret import outputs_of

        if not self._read:
            self._read.append(read_model(self.graph))
        model = self._read[0]
        said = (
            outputs_of(model, model.initial, self.features.of(self.features.batch(rows))).reshape(-1).astype(np.float64)
        )
        if self.classes:
            return np.asarray(1 / (1 + np.exp(-np.clip(said, -700, 700))))
        return np.asarray(self.low + (np.clip(said, -1, 1) + 1) / 2 * (self.high - self.low))

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": "NetworkModel",
            "features": self.features.as_json(),
            "graph": self.graph,
            "classes": self.classes,
            "low": self.low,
            "high": self.high,
        }

    @classmethod
    def of_json(cls, told: Any) -> Self:
        """Read what `as_json` gave; a Mistake where it is something else."""
        from thebes.learning.graph.document import read_model

        features = Features.of_json(told.get("features"))
        try:
            found = cls(features, str(told["graph"]), told["classes"] is True, float(told["low"]), float(told["high"]))
        except (KeyError, TypeError, ValueError):
            raise Mistake("model", "is not as Thebes writes it") from None
        model = read_model(found.graph)
        if model.input.columns != features.width or math.prod(model.output_shape) != 1:
            raise Mistake("model", "has a network that does not fit its features")
        found._read.append(model)
        return found


def fitted(
    features: Features,
    batches: Batches,
    *,
    ends: tuple[float, float] | None,
    layers: Sequence[int] = (32, 16),
    sampling: Sampling,
    clip: float = 1.0,
    learning_rate: float = 0.02,
    count: float,
    change: Change,
    randomness: Randomness,
) -> NetworkModel:
    """Train on batches whose targets are a number scaled to [-1, 1] with its bounds `ends`, or the number of a class (0
    or 1) without. `count` is the public number of rows, `layers` how many units each has.

    A unit's gradient is the mean of its rows' ones, clipped to the length `clip` (`VectorSum`) however many those are,
    and it is in a step's sum by its own coin: every step is one Gaussian mechanism on a Poisson sample of units, priced
    as `sampling.event`. Adam's steps, whose length falls evenly from `learning_rate` to nothing, are post-processing.
    """
    from thebes.learning.graph.interpret import Floats as Weights
    from thebes.learning.graph.lanes import gradients_and_losses

    if change.adjacency is not Adjacency.ADD_REMOVE_ONE:
        raise Mistake("stream", "must have units that come or go")
    rows, truth, starts = _together(batches, len(features.columns))
    model, loss = _network(features.width, tuple(layers), classes=ends is None)
    weights: Weights = model.initial.copy()
    bounded = VectorSum(clip, 2, len(weights), _BITS)
    deviation = bounded.reach.l2 * sampling.ratio * (1 + 1e-12)
    finer = sampling.finer(deviation, len(weights))
    expected = max(1.0, sampling.rate * count)
    rule, coin, drawn = Adam(learning_rate), sampling.coin, randomness
    for step in range(sampling.steps):
        sizes, chosen = _rows_of(starts, np.flatnonzero(drawn.toss(coin, len(starts) - 1)))
        inputs = features.of(rows[chosen].astype(np.float64)).astype(np.float32)
        slopes = gradients_and_losses(model, loss, weights, inputs, truth[chosen][:, None])[:, :-1]
        finite = np.where(np.isfinite(slopes), slopes, 0.0).astype(np.float64)
        total = bounded.total(_by_unit(finite, sizes, clip))
        noisy = drawn.gaussian(total * finer, scale=deviation * finer).astype(np.float64) / finer
        direction = noisy * (clip / 2**_BITS) / expected
        rule.rate = learning_rate * (1 - step / sampling.steps)
        weights = rule.step(weights.astype(np.float64), direction).astype(np.float32)
    low, high = ends or (0.0, 1.0)
    return NetworkModel(features, _text(model, weights), ends is None, low, high)


class NetworkSlopes:
    """Gradients of a network of rectified units, computed in this process: for networks of one's own making only.

    `start` is where it begins (public, the same every time), `layers` how many weights each layer has, its offsets
    among them."""

    def __init__(self, width: int, layers: Sequence[int] = (32, 16), *, classes: bool) -> None:
        self._model, self._loss = _network(width, tuple(layers), classes=classes)
        sizes = [width, *layers, 1]
        self.layers = tuple((before + 1) * after for before, after in pairwise(sizes))

    @property
    def count(self) -> int:
        return self._model.graph.parameter_count

    @property
    def start(self) -> Floats:
        return self._model.initial.astype(np.float64)

    def of(self, weights: Floats, inputs: Floats, targets: Floats) -> tuple[Floats, Floats]:
        """See `Slopes`."""
        from thebes.learning.graph.lanes import gradients_and_losses

        small = np.asarray(weights, dtype=np.float32)
        rows, truth = inputs.astype(np.float32), targets.astype(np.float32)[:, None]
        found = gradients_and_losses(self._model, self._loss, small, rows, truth).astype(np.float64)
        return found[:, :-1], found[:, -1]


def _together(batches: Batches, width: int) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
    """All rows in half the memory, and where each unit's begin (and the last one's end)."""
    rows, targets, starts, seen = [np.zeros((0, width), dtype=np.float32)], [np.zeros(0, dtype=np.float32)], [], 0
    for numbers, target, people in batches:
        rows.append(numbers.astype(np.float32))
        targets.append(target.astype(np.float32))
        begins = np.ones(len(people), dtype=np.bool_)
        begins[1:] = people[1:] != people[:-1]
        starts.append(np.flatnonzero(begins) + seen)
        seen += len(people)
    return np.concatenate(rows), np.concatenate(targets), np.concatenate([*starts, np.array([seen])]).astype(np.int64)


def _rows_of(starts: NDArray[np.int64], units: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Count the rows that each of these units has, and list them, unit by unit."""
    sizes = starts[units + 1] - starts[units]
    before = np.cumsum(sizes) - sizes
    return sizes, np.arange(int(sizes.sum())) + np.repeat(starts[units] - before, sizes)


def _by_unit(slopes: Floats, sizes: NDArray[np.int64], clip: float) -> Floats:
    """The mean of each unit's rows: in whole numbers, so that it is the same in whatever order these lie.

    A unit of one row is rounded like all others, also where every unit has one: else one more row of one unit would
    decide about everybody's rounding. What is priced is the length of the whole numbers that `VectorSum` makes of this,
    each unit by itself; so the rounding, being the unit's own, costs nothing beside it.
    """
    fine = clip / _FINE
    whole = np.rint(np.clip(slopes / fine, -_MOST_FINE, _MOST_FINE)).astype(np.int64)
    # Without units there is nothing to add up, and `reduceat` takes no empty part.
    added = np.add.reduceat(whole, np.cumsum(sizes) - sizes, axis=0) if len(sizes) else whole
    return added / sizes[:, None] * fine


@lru_cache(maxsize=16)
def _network(width: int, layers: tuple[int, ...], *, classes: bool) -> tuple[Model, GraphLoss]:
    """A new network of rectified units that gives one number, the same every time, and the loss it is trained by."""
    import torch

    from thebes.learning.graph.document import read_loss, read_model, write_model
    from thebes.learning.graph.export import export_loss, export_model

    if not 1 <= len(layers) <= _MOST_LAYERS or not all(1 <= units <= _MOST_UNITS for units in layers):
        raise Mistake("layers", f"must be up to {_MOST_LAYERS} numbers of units, each at most {_MOST_UNITS}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)  # where a network begins is public
        parts: list[Any] = []
        for before, after in zip([width, *layers[:-1]], layers, strict=True):
            parts += [torch.nn.Linear(before, after), torch.nn.ReLU()]
        module = torch.nn.Sequential(*parts, torch.nn.Linear(layers[-1], 1))
    model = read_model(write_model(*export_model(module, (width,))))
    kind = torch.nn.BCEWithLogitsLoss() if classes else torch.nn.MSELoss()
    return model, read_loss(export_loss(kind, model.output_shape, "number").text, model)


def _text(model: Model, weights: NDArray[np.float32]) -> str:
    from thebes.learning.graph.document import write_model
    from thebes.learning.graph.weights import named

    return write_model(model.graph, {**model.values, **named(model.graph, weights)})
