"""Caps of the unit sphere: how likely a uniform direction falls into one, and what PrivUnit's reports average to.

All formulas are for D dimensions and the height T = <V, u> of a direction V over u, whose density is proportional to
(1 - t^2)^((D-3)/2); with T = 1 - 2x, x is Beta(a, a), a = (D-1)/2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from thebes.privacy.distributions import beta_cdf, beta_quantile, log_beta
from thebes.privacy.mechanisms.local.shape import Floats

_FINEST = 400  # how many ways of sharing epsilon are tried
_LARGEST_LOG_ODDS = 40.0  # of a coin of 64 bits


@dataclass(frozen=True, slots=True)
class SphericalCap:
    """The directions whose height over the owner's own is at least 1 - 2 `depth`: a share `mass` of the sphere."""

    dimensions: int
    depth: float
    mass: float

    @property
    def height(self) -> float:
        return 1 - 2 * self.depth

    def first_moment(self, hold: float) -> float:
        """E T where the cap is drawn with probability `hold`, its complement otherwise."""
        lift = self._lift
        return hold * lift / self.mass - (1 - hold) * lift / (1 - self.mass)

    def second_moment(self, hold: float) -> float:
        """E T^2 likewise. Over the whole sphere it is 1 / D."""
        inside = ((self.dimensions - 1) * self.height * self._lift + self.mass) / self.dimensions
        outside = 1 / self.dimensions - inside
        return hold * inside / self.mass + (1 - hold) * outside / (1 - self.mass)

    def fourth_moment(self, hold: float) -> float:
        """E T^4 likewise. Over the whole sphere it is 3 / (D (D+2)). Integrated by parts twice."""
        size = self.dimensions
        second = ((size - 1) * self.height * self._lift + self.mass) / size
        inside = ((size - 1) * self.height**3 * self._lift + 3 * second) / (size + 2)
        outside = 3 / (size * (size + 2)) - inside
        return hold * inside / self.mass + (1 - hold) * outside / (1 - self.mass)

    @property
    def _lift(self) -> float:
        # The integral of t over the cap, (1 - height^2)^a / ((D-1) B(1/2, a)): the density integrated by parts.
        a = (self.dimensions - 1) / 2
        log = a * math.log(4 * self.depth * (1 - self.depth)) - log_beta(0.5, a)
        return math.exp(log) / (self.dimensions - 1)


def depth_at(dimensions: int, share: Floats) -> Floats:
    """The depth below which lies this share of all directions: the inverse of the regularised incomplete beta."""
    a = (dimensions - 1) / 2
    return np.asarray(beta_quantile(a, a, share))


def mass_at(dimensions: int, depth: float) -> float:
    """The share of all directions that lie in a cap of this depth."""
    a = (dimensions - 1) / 2
    return float(beta_cdf(a, a, depth))


@lru_cache(maxsize=64)
def best_cap(dimensions: int, epsilon: float, *, second: bool) -> SphericalCap:
    """The cap that leaves the largest signal in the mean (or in the second moment) for this epsilon.

    With p drawn from the cap of mass q, epsilon = ln(p / (1-p)) + ln((1-q) / q); every split of epsilon between the
    two terms is tried on a grid.
    """
    odds = min(epsilon, _LARGEST_LOG_ODDS) * np.arange(1, _FINEST + 1) / _FINEST
    depths = depth_at(dimensions, 1 / (1 + np.exp(epsilon - odds)))
    choices = [
        (SphericalCap(dimensions, depth, mass_at(dimensions, depth)), 1 / (1 + math.exp(-log_odds)))
        for depth, log_odds in zip(depths.tolist(), odds.tolist(), strict=True)
    ]
    moment = SphericalCap.second_moment if second else SphericalCap.first_moment
    return max(choices, key=lambda choice: moment(*choice))[0]
