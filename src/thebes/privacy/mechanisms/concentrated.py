"""Gaussian noise for a rho that somebody fixed in advance, or Laplace noise of the same price where that is quieter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from thebes.privacy import exact
from thebes.privacy.events import ConcentratedEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Concentrated, Pure
from thebes.privacy.measurement import Measurement
from thebes.privacy.mechanisms.additive import Additive, Integers, Laplace, released
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.privacy.samplers import LARGEST_SCALE
from thebes.privacy.stability import Sensitivity

_UP = Context(prec=60, rounding=ROUND_CEILING)


@dataclass(frozen=True, slots=True)
class ConcentratedNoise:
    """Discrete Gaussian noise that is rho-zCDP: of scale L2 sensitivity / sqrt(2 rho), rounded up.

    The event is exact for noise on whole numbers, so there is no slack (Canonne, Kamath & Steinke 2020, theorem 14).
    """

    rho: Decimal

    def __init__(self, rho: exact.Number) -> None:
        object.__setattr__(self, "rho", ConcentratedEvent(rho).rho)

    @property
    def ratio(self) -> float:
        """Scale over L2 sensitivity, rounded up."""
        return math.nextafter(float(_UP.divide(Decimal("0.5"), self.rho).sqrt(_UP)), math.inf)

    def noise(self, sensitivity: Sensitivity) -> Additive:
        exactly = Fraction(self.ratio) * Fraction(sensitivity.l2)
        scale = float(exactly)
        scale = scale if Fraction(scale) >= exactly else math.nextafter(scale, math.inf)
        if scale > LARGEST_SCALE:
            raise Mistake("epsilon", "is too small for bounds cut this finely; use fewer bits")
        return Additive("gaussian", scale, 1, ConcentratedEvent(self.rho))

    def release(
        self, totals: Integers, *, sensitivity: Sensitivity, adjacency: Adjacency, randomness: Randomness
    ) -> Measurement:
        return released(totals, noise=self.noise(sensitivity), adjacency=adjacency, randomness=randomness)


def quieter(epsilon: Decimal, rho: Decimal) -> Pure | Concentrated:
    """Choose the loss whose noise deviates less on a sum where a unit moves one number, or all that it moves may lie in
    one (so that its L1 and L2 sensitivities are the same): discrete Laplace noise of `epsilon`, or discrete Gaussian
    noise of `rho`; 0 is none of a kind.

    Each keeps its own promise (Ghosh, Roughgarden & Sundararajan 2009; Canonne, Kamath & Steinke 2020, theorem 14), and
    which of them is drawn follows from two public numbers: so the release is as private as the one that is named.
    Where rho is the tight price of epsilon, epsilon tanh(epsilon / 2), the variances are 2 / epsilon^2 and 1 / (2 rho),
    but for the rounding to whole numbers: Gaussian noise has half the variance while epsilon is small, and more from
    epsilon 3.8 on.
    """
    if not rho:
        return Pure(epsilon)
    one = Sensitivity(1, 1, 1)
    smooth = ConcentratedNoise(rho).noise(one)
    return Concentrated(rho) if not epsilon or smooth.scale < Laplace(epsilon).noise(one).deviation else Pure(epsilon)


def noise_of(loss: Pure | Concentrated) -> Laplace | ConcentratedNoise:
    """The noise that a loss pays for."""
    return Laplace(loss.epsilon) if isinstance(loss, Pure) else ConcentratedNoise(loss.rho)
