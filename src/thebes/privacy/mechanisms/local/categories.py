"""The common part of all frequency mechanisms: a report supports some categories, and supports the true one more often.

If a report supports its owner's category with probability `hold` and any other one with probability `stray`, then
(count / n - stray) / (hold - stray) is unbiased, and its error does not depend on the true frequencies.
"""

from __future__ import annotations

from abc import abstractmethod
from decimal import Decimal
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.local.coins import declared_epsilon
from thebes.privacy.mechanisms.local.shape import (
    Estimate,
    Floats,
    Integers,
    LocalMechanism,
    contributors_of,
    integers_within,
    whole_number,
)
from thebes.privacy.randomness import Randomness

MOST_CATEGORIES = 2**20


class CategoryMechanism(LocalMechanism):
    """One category of `size`, reported under local differential privacy; categories are 0 .. size-1 and public.

    Subclasses set `hold` and `stray` exactly, from their coins' thresholds.
    """

    hold: Fraction
    stray: Fraction

    def __init__(self, size: int, epsilon: exact.Number, delta: exact.Number = 0) -> None:
        self.size = whole_number("size", size, 2, MOST_CATEGORIES)
        self.epsilon: Decimal = declared_epsilon(epsilon)
        self.delta: Decimal = exact.delta(delta)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.size}, epsilon={self.epsilon}, delta={self.delta})"

    @abstractmethod
    def _draw(self, categories: Integers, randomness: Randomness) -> NDArray[np.int64] | NDArray[np.uint8]: ...

    @abstractmethod
    def _support(self, reports: NDArray[np.int64] | NDArray[np.uint8]) -> Integers:
        """Count the reports that support each category."""

    def perturb(self, values: ArrayLike, randomness: Randomness) -> NDArray[np.int64] | NDArray[np.uint8]:
        """One report for each category index."""
        return self._draw(integers_within("values", values, 0, self.size - 1), randomness)

    def estimate(self, reports: ArrayLike) -> Estimate:
        """Unbiased share of each category among the contributors. Shares may be negative and need not sum to 1."""
        checked = self.check(reports)
        n, gap, stray = checked.shape[0], self._gap, float(self.stray)
        value = (self._support(checked) / n - stray) / gap
        base, slope = self._variances
        error = np.sqrt(np.clip(base + slope * np.clip(value, 0, 1), 0, None) / n)
        return Estimate(value, error, n, lambda z: _score(value, z, base / n, slope / n, self._steps(z) / (n * gap)))

    def variance(self, contributors: int, frequency: float | None = None) -> float:
        """Variance of one category's estimate at its true `frequency`; at the worst one if that is not given."""
        base, slope = self._variances
        if frequency is None:
            return max(base, base + slope) / contributors_of(contributors)
        if not 0 <= frequency <= 1:
            raise Mistake("frequency", "must lie between 0 and 1")
        return (base + slope * frequency) / contributors_of(contributors)

    def expected_error(self, contributors: int) -> float:
        """Expected squared L2 distance between estimated and true frequencies, whatever the true ones are.

        ((m - 1) q (1 - q) + p (1 - p)) / (n (p - q)^2); its root is theorem 2 of AnonML (Cyphers & Veeramachaneni
        2017), written there for one kind of report and true for all.
        """
        base, slope = self._variances
        return (self.size * base + slope) / contributors_of(contributors)

    @property
    def _gap(self) -> float:
        return float(self.hold - self.stray)

    @property
    def _variances(self) -> tuple[float, float]:
        # One report's variance is base + slope * frequency: others stray, the category's own hold.
        others = self.stray * (1 - self.stray) / (self.hold - self.stray) ** 2
        own = self.hold * (1 - self.hold) / (self.hold - self.stray) ** 2
        return float(others), float(own - others)

    def _steps(self, z: float) -> float:
        """Return the counts by which a normal law of the noise falls short on either side: half a one as counts are
        whole, and what noise that leans to one side adds.

        By Cornish and Fisher (1938) its quantile lies (z^2 - 1) / 6 times skewness deviations beyond the normal one.
        Skewness times deviation is the third moment over the variance: of coins of odds p a mean of 1 - 2p.
        """
        leaning = float(max(abs(1 - 2 * self.stray), abs(1 - 2 * self.hold)))
        return 0.5 + max(0.0, (z * z - 1) / 6) * leaning


def _score(value: Floats, z: float, base: float, slope: float, step: float) -> tuple[Floats, Floats]:
    # The frequencies f with |value - f| <= step, or (|value - f| - step)^2 <= z^2 (base + slope f): Wilson's interval
    # for this noise. Where hardly any is left at one end, both roots lie on one side of what the step alone reaches.
    def end(centre: Floats, sign: int) -> Floats:
        middle = centre + z * z * slope / 2
        inside = middle**2 - centre**2 + z * z * base
        root = middle + sign * np.sqrt(np.clip(inside, 0, None))
        return np.asarray((np.maximum if sign > 0 else np.minimum)(root, centre), dtype=np.float64)

    return end(value - step, -1), end(value + step, 1)
