"""Noise on a whole vector (a gradient): Laplace by weight or by L1 length, Gaussian by L2 length, on a public grid.

Each coordinate is a whole number of steps of clip / 2^bits before any chance enters, and so is what leaves: nothing of
a value survives in low bits. Everything is public but the vector itself.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.mechanisms.additive import Additive, Gaussian, Laplace
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import Sensitivity

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

BITS = 16  #: a coordinate under Gaussian noise is rounded to clip / 2^BITS
_FINE_BITS = 24  #: with Laplace noise, whose scale has room for more
_LARGEST = float(2**30)  #: no coordinate of a report, in multiples of clip, is larger
_SHRINK = 1 - 1e-9  #: far above what sums of floats can be off by
_LEAST_CLIP = 1e-100  #: so that no step, nor what a gradient is shortened by, is a number that has lost its digits
_LONGEST = 1e150  #: of a longer gradient that would still be; it counts as zero


@dataclass(frozen=True)
class LocalGaussianVector:
    """A gradient of length at most `clip`, on a grid, with Gaussian noise for two gradients 2 clip apart.

    Each coordinate is rounded to `step`; rounding moves a vector by at most sqrt(d)/2 steps, so two rounded ones differ
    by at most 2 clip/step + sqrt(d). The analytic ratio for (epsilon, delta) and the discrete noise's slack are those
    of `mechanisms.additive` (Balle & Wang 2018). The seed's noise for distance `clip` would promise half as much.
    """

    dimension: int
    epsilon: Decimal
    delta: Decimal
    clip: float
    noise: Additive
    name: str = "local-gaussian"

    def __post_init__(self) -> None:
        _usable(self.clip)

    @classmethod
    def calibrated(cls, dimension: int, epsilon: Decimal, delta: Decimal, clip: float) -> LocalGaussianVector:
        reach = math.ceil((2 * 2**BITS + math.sqrt(dimension)) ** 2 * (1 + 1e-12))
        sensitivity = Sensitivity(math.ceil(math.sqrt(reach * dimension)), reach, dimension)
        return cls(dimension, epsilon, delta, clip, Gaussian(epsilon, delta).noise(sensitivity))

    @property
    def step(self) -> float:
        return self.clip / (1 << BITS)

    def perturb(self, gradients: Floats, randomness: Randomness) -> Floats:
        """Noised gradients in units of clip, each row with its own noise."""
        return self.joined(gradients, self.noise.drawn(gradients.shape, randomness))

    def joined(self, gradients: Floats, drawn: Integers) -> Floats:
        """The same with noise that was drawn before (`noise.drawn`) and serves once."""
        noised = self.noise.joined(np.rint(gradients / self.step).astype(np.int64), drawn) / 2**BITS
        return np.asarray(np.clip(noised, -_LARGEST, _LARGEST))

    def decode(self, reports: NDArray[Any]) -> Floats:
        return np.asarray(reports, dtype=np.float64) * self.clip

    @property
    def variance(self) -> float:
        """Of the noise on one decoded coordinate."""
        return (self.noise.drawn_scale / self.noise.finer * self.step) ** 2

    def expected_error(self) -> float:
        """Expected squared distance of one report."""
        return float(self.dimension * self.variance)

    def parameters(self) -> dict[str, Any]:
        return {"scale": self.noise.drawn_scale / self.noise.finer * self.step, "clip": self.clip, "bits": BITS}


class _LaplaceVector(ABC):
    """Discrete Laplace noise on every coordinate of a clipped and rounded vector."""

    name: str

    def __init__(self, dimension: int, epsilon: Decimal, clip: float) -> None:
        _usable(clip)
        self.dimension, self.epsilon, self.clip = dimension, epsilon, clip
        self.step = clip / (1 << _FINE_BITS)
        twice = 2 << _FINE_BITS  # two clipped vectors (or weights) are at most this many steps apart
        self.noise = Laplace(epsilon).noise(Sensitivity(twice, twice * twice))

    @abstractmethod
    def steps(self, gradients: Floats) -> Integers:
        """Clipped gradients as whole numbers of steps."""

    def perturb(self, gradients: Floats, randomness: Randomness) -> Floats:
        """Clipped and noised gradients in their own units, each row with its own noise."""
        return self.joined(gradients, self.noise.drawn(gradients.shape, randomness))

    def joined(self, gradients: Floats, drawn: Integers) -> Floats:
        """The same with noise that was drawn before (`noise.drawn`) and serves once."""
        return np.asarray(self.noise.joined(self.steps(gradients), drawn) * self.step)

    @property
    def variance(self) -> float:
        """Of the noise on one coordinate."""
        return (self.noise.deviation * self.step) ** 2

    def parameters(self) -> dict[str, Any]:
        return {"scale": self.noise.scale * self.step, "clip": self.clip, "bits": _FINE_BITS}


class LocalLaplaceWeights(_LaplaceVector):
    """Each weight of a gradient clipped to [-clip, clip] by itself, with noise of scale 2 clip / epsilon.

    `epsilon` is that of one weight seen alone; everything an owner sends is `dimension` times as much (composition).
    Proof: a clipped, rounded weight is a whole number of steps, at most clip / step of them, so two differ by at most
    2 clip / step, and likelihoods under discrete Laplace noise of scale 2 clip / (step epsilon) by a factor of at most
    e^epsilon (Dwork et al. 2006; Ghosh et al. 2009). Algorithm 1 of Draw and Discard.
    """

    name = "laplace by weight"

    def steps(self, gradients: Floats) -> Integers:
        top = float(1 << _FINE_BITS)
        return np.rint(np.minimum(np.maximum(gradients / self.step, -top), top)).astype(np.int64)


class LocalLaplaceVector(_LaplaceVector):
    """A whole gradient of L1 length at most `clip`, with noise of scale 2 clip / epsilon on every weight.

    Proof: a gradient is shortened to an L1 length of clip (1 - 10^-9), which floats cannot miss by so much, and each
    coordinate cut (not rounded) to a whole number of steps, which shortens it further: two are at most 2 clip / step
    apart in L1. Discrete Laplace noise of scale 2 clip / (step epsilon) on every coordinate changes the likelihood of
    any outcome by a factor of at most e^(L1 distance / scale) = e^epsilon (Dwork et al. 2006; Ghosh et al. 2009).
    """

    name = "laplace by L1 length"

    def steps(self, gradients: Floats) -> Integers:
        lengths = np.abs(gradients).sum(axis=-1, keepdims=True)
        shorter = np.minimum(1.0, self.clip * _SHRINK / np.maximum(lengths, 1e-300)) * (lengths < _LONGEST)
        return np.asarray(np.trunc(gradients * shorter / self.step), dtype=np.int64)


def _usable(clip: float) -> None:
    if not clip >= _LEAST_CLIP:
        raise Mistake("clip", f"must be at least {figure(_LEAST_CLIP)}")
