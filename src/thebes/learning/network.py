"""Networks by sampled noisy descent (DP-SGD, Abadi et al. 2016): small ones over rows of features.

Must stay true: every row takes part in a step by a coin of its own, with exactly the stated chance; a row's gradient
is computed as if it were alone, clipped and rounded to whole numbers by itself; sums are divided by how many rows are
*expected*, which is public, never by how many came.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from thebes.learning.features import Features
from thebes.learning.updates import Adam
from thebes.privacy import exact
from thebes.privacy.accounting.calibration import sampled_ratio
from thebes.privacy.events import Event, PoissonGaussianEvent, Repeated
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Coin, Randomness
from thebes.privacy.stability import Change, VectorSum

if TYPE_CHECKING:
    from thebes.learning.graph.document import Loss, Model

Floats = NDArray[np.float64]
_PARTS = 2**20  #: a chance of taking part is a whole number of these
_BITS = 20
_MOST_LAYERS, _MOST_UNITS = 4, 5000


@dataclass(frozen=True, slots=True)
class Sampling:
    """`steps` steps, each row taking part in each with the chance `rate`: what they cost together, and how much
    noise that asks for. Renyi accounting at whole orders, which holds for noise on whole numbers (`sampled_ratio`)."""

    epsilon: Decimal
    delta: Decimal
    steps: int = 200
    rate: float = 0.02

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or not 0 < self.steps <= 10**6:
            raise Mistake("steps", "must be a whole number between 1 and a million")
        if not 1 / _PARTS <= self.rate <= 1:
            raise Mistake("rate", "must be greater than 0 and at most 1")

    @classmethod
    def of(cls, epsilon: exact.Number, delta: exact.Number, *, steps: int = 200, rate: float = 0.02) -> Self:
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
        return sampled_ratio(rate=self.rate, rounds=self.steps, epsilon=self.epsilon, delta=self.delta)

    @property
    def event(self) -> Event:
        return Repeated(PoissonGaussianEvent(self.rate, self.ratio), self.steps)


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

    def predict(self, rows: Floats) -> Floats:
        """For rows as a batch has them, with the features' `columns` in order."""
        from thebes.learning.graph.document import read_model
        from thebes.learning.graph.interpret import outputs_of

        if not self._read:
            self._read.append(read_model(self.graph))
        model = self._read[0]
        said = outputs_of(model, model.initial, self.features.of(rows)).reshape(-1).astype(np.float64)
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
        """What `as_json` gave; a Mistake where it is something else."""
        from thebes.learning.graph.document import read_model

        features = Features.of_json(told.get("features"))
        try:
            found = cls(features, str(told["graph"]), told["classes"] is True, float(told["low"]), float(told["high"]))
        except (KeyError, TypeError, ValueError):
            raise Mistake("model", "is none that was written here") from None
        model = read_model(found.graph)
        if model.input.columns != features.width or math.prod(model.output_shape) != 1:
            raise Mistake("model", "has a network that does not fit its features")
        found._read.append(model)
        return found


def fitted(
    features: Features,
    batches: Iterable[tuple[Floats, Floats]],
    *,
    ends: tuple[float, float] | None,
    layers: Sequence[int] = (32, 16),
    sampling: Sampling,
    clip: float = 1.0,
    learning_rate: float = 0.005,
    count: float,
    change: Change,
    randomness: Randomness,
) -> NetworkModel:
    """Train on batches of (rows as a batch has them, target): a number scaled to [-1, 1] with its bounds `ends`, or the
    number of a class (0 or 1) without. `count` is the public number of rows, `layers` how many units each has.

    A clipped gradient is at most `clip` long (`VectorSum`), and each row is in a step's sum by its own coin: every
    step is one Gaussian mechanism on a Poisson sample, priced as `sampling.event`. Which row is whose is not known
    here, so only units of one row are accepted. Adam's steps are post-processing.
    """
    from thebes.learning.graph.interpret import Floats as Weights
    from thebes.learning.graph.lanes import gradients_and_losses

    if change.adjacency is not Adjacency.ADD_REMOVE_ONE or change.rows != 1:
        raise Mistake("stream", "must have units of one row that come or go: a network samples single rows")
    rows, truth = _together(batches, len(features.columns))
    model, loss = _network(features.width, tuple(layers), classes=ends is None)
    weights: Weights = model.initial.copy()
    bounded = VectorSum(clip, 2, len(weights), _BITS)
    deviation = bounded.sensitivity(change).l2 * sampling.ratio * (1 + 1e-12)
    expected = max(1.0, sampling.rate * count)
    rule, coin, drawn = Adam(learning_rate), sampling.coin, randomness.in_bulk()
    for _ in range(sampling.steps):
        chosen = np.flatnonzero(drawn.toss(coin, len(rows)))
        inputs = features.of(rows[chosen].astype(np.float64)).astype(np.float32)
        slopes = gradients_and_losses(model, loss, weights, inputs, truth[chosen][:, None])[:, :-1]
        finite = np.where(np.isfinite(slopes), slopes, 0.0).astype(np.float64)
        noisy = drawn.gaussian(bounded.total(finite), scale=deviation).astype(np.float64)
        direction = noisy * (clip / 2**_BITS) / expected
        weights = rule.step(weights.astype(np.float64), direction).astype(np.float32)
    low, high = ends or (0.0, 1.0)
    return NetworkModel(features, _text(model, weights), ends is None, low, high)


def _together(batches: Iterable[tuple[Floats, Floats]], width: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """All rows in half the memory."""
    found = [(rows.astype(np.float32), target.astype(np.float32)) for rows, target in batches]
    rows = np.concatenate([one for one, _ in found]) if found else np.zeros((0, width), dtype=np.float32)
    return rows, np.concatenate([one for _, one in found]) if found else np.zeros(0, dtype=np.float32)


@lru_cache(maxsize=16)
def _network(width: int, layers: tuple[int, ...], *, classes: bool) -> tuple[Model, Loss]:
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
