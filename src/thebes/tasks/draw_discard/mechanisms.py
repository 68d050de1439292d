"""Mechanisms that hide one owner's gradient, behind one face: it is clipped, perturbed on a public grid, and decoded.

Everything after the draw on the grid (decoding, times the rate, off the drawn model, which the server knows) is a
function of public things and the draw: post-processing, so that floating point adds nothing that could leak.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thebes.learning.graph.gradient_clip import clip_rows
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.local.privunit import MOST_DIMENSIONS, PrivUnit
from thebes.privacy.mechanisms.local.vectors import LocalGaussianVector, LocalLaplaceVector, LocalLaplaceWeights
from thebes.privacy.randomness import Randomness
from thebes.tasks.draw_discard.kind import DrawDiscardDocument

Floats = NDArray[np.float64]
Drawn = NDArray[Any]  #: of the mechanism's own numbers


class GradientNoise(Protocol):
    """One mechanism for whole gradients of `weights` numbers; `clip` bounds each clipped weight."""

    @property
    def name(self) -> str: ...

    @property
    def pure(self) -> bool: ...

    @property
    def variance(self) -> float:
        """Of the noise on one weight of a gradient, at a zero gradient."""
        ...

    @property
    def distance(self) -> float:
        """The greatest L2 distance of two owners' clipped gradients."""
        ...

    def hide(self, gradients: Floats, randomness: Randomness) -> Floats:
        """Each gradient (of finite numbers) clipped and perturbed, in its own units."""
        ...

    def ahead(self, count: int, randomness: Randomness) -> Drawn:
        """Draw ahead what hides `count` gradients, as far as it does not depend on them; each line serves once."""
        ...

    def joined(self, gradients: Floats, drawn: Drawn) -> Floats:
        """`hide` with what was drawn ahead."""
        ...

    def parameters(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class ByNoise:
    """Noise added to a clipped gradient, Laplace or Gaussian."""

    vector: LocalLaplaceWeights | LocalLaplaceVector | LocalGaussianVector
    weights: int

    @property
    def name(self) -> str:
        return self.vector.name

    @property
    def pure(self) -> bool:
        return not isinstance(self.vector, LocalGaussianVector)

    @property
    def variance(self) -> float:
        return self.vector.variance

    @property
    def distance(self) -> float:
        spread = math.sqrt(self.weights) if isinstance(self.vector, LocalLaplaceWeights) else 1.0
        return 2 * self.vector.clip * spread

    def hide(self, gradients: Floats, randomness: Randomness) -> Floats:
        return self.joined(gradients, self.vector.noise.drawn(gradients.shape, randomness))

    def ahead(self, count: int, randomness: Randomness) -> Drawn:
        return self.vector.noise.drawn((count, self.weights), randomness)

    def joined(self, gradients: Floats, drawn: Drawn) -> Floats:
        if isinstance(self.vector, LocalGaussianVector):
            return self.vector.decode(self.vector.joined(clip_rows(gradients, self.vector.clip), drawn))
        return self.vector.joined(gradients, drawn)

    def parameters(self) -> dict[str, Any]:
        return self.vector.parameters()


@dataclass(frozen=True)
class ByDirection:
    """PrivUnit: the gradient shortened to an L2 length of `radius`, reported as one direction."""

    unit: PrivUnit

    name = "privunit"
    pure = True

    @property
    def variance(self) -> float:
        return self.unit.radius**2 * self.unit.c / self.unit.m**2

    @property
    def distance(self) -> float:
        return 2 * self.unit.radius

    def hide(self, gradients: Floats, randomness: Randomness) -> Floats:
        return self.unit.decode(self.unit.perturb(clip_rows(gradients, self.unit.radius), randomness))

    def ahead(self, count: int, randomness: Randomness) -> Drawn:
        return self.unit.ahead(count, randomness)

    def joined(self, gradients: Floats, drawn: Drawn) -> Floats:
        return self.unit.decode(self.unit.joined(clip_rows(gradients, self.unit.radius), drawn))

    def parameters(self) -> dict[str, Any]:
        return self.unit.parameters()


@dataclass(frozen=True)
class NotAtAll:
    """Clipped by weight, and nothing else: for simulations only. NOT PRIVATE."""

    clip: float
    weights: int

    name = "none: NOT PRIVATE"
    pure = True

    @property
    def variance(self) -> float:
        return 0.0

    @property
    def distance(self) -> float:
        return 2 * self.clip * math.sqrt(self.weights)

    def hide(self, gradients: Floats, randomness: Randomness) -> Floats:
        return np.clip(gradients, -self.clip, self.clip)

    def ahead(self, count: int, randomness: Randomness) -> Drawn:
        return np.zeros((count, 0), dtype=np.int64)

    def joined(self, gradients: Floats, drawn: Drawn) -> Floats:
        return np.clip(gradients, -self.clip, self.clip)

    def parameters(self) -> dict[str, Any]:
        return {"clip": self.clip}


def made(document: DrawDiscardDocument, weights: int, epsilon: Decimal, delta: Decimal) -> GradientNoise:
    """The document's mechanism for one participation that may spend so much in all; by weight, an equal share each."""
    if document.mechanism == "none":
        return NotAtAll(document.clip, weights)
    if document.mechanism == "laplace":
        return ByNoise(LocalLaplaceWeights(weights, epsilon, document.clip), weights)
    if document.mechanism == "laplace-l1":
        return ByNoise(LocalLaplaceVector(weights, epsilon, document.clip), weights)
    if document.mechanism == "gaussian":
        return ByNoise(LocalGaussianVector.calibrated(weights, epsilon, delta, document.clip), weights)
    if weights >= MOST_DIMENSIONS:
        raise Mistake("mechanism", f"cannot be privunit here, which takes fewer than {MOST_DIMENSIONS} weights")
    return ByDirection(PrivUnit(weights, epsilon, radius=document.clip))


def first_deviation(document: DrawDiscardDocument, hiding: GradientNoise) -> float:
    """The standard deviation of one weight's noise by which the first instances are spread; where there is none, that
    of Laplace noise by weight with the document's epsilon (1 if it gives none, as in the seed)."""
    if document.mechanism == "none":
        return math.sqrt(2) * 2 * document.clip / document.epsilon
    return math.sqrt(hiding.variance)
