"""Gaussian noise for one of many releases whose shares of rho somebody fixed in advance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from thebes.privacy import exact
from thebes.privacy.events import ConcentratedEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Measurement
from thebes.privacy.mechanisms.additive import Additive, Integers, released
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
