"""The common part of all mechanisms for one bounded number: a public grid, unbiased decoding, and the mean of many
reports.

A value is clamped to its declared bounds and rounded to the grid before any chance enters, so reports are whole
numbers from a set that is the same for every value.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.grid import Grid
from thebes.privacy.mechanisms.local.coins import declared_epsilon
from thebes.privacy.mechanisms.local.shape import (
    Estimate,
    Floats,
    Integers,
    LocalMechanism,
    contributors_of,
    integers_within,
)
from thebes.privacy.randomness import Randomness

Positions = float | Floats  #: 0 for low and 1 for high, one or many


class NumberMechanism(LocalMechanism):
    """One number of [low, high] in its own units, reported under local differential privacy.

    Unbiased for the clamped value as rounded to the grid (off by at most half a step, 2^-bits of the range).
    """

    #: the smallest and the largest whole number that a report can be
    least: int
    most: int

    def __init__(
        self, low: float, high: float, epsilon: exact.Number, delta: exact.Number = 0, *, bits: int = 20
    ) -> None:
        self.grid = Grid(low, high, bits)
        self.epsilon: Decimal = declared_epsilon(epsilon)
        self.delta: Decimal = exact.delta(delta)

    def __repr__(self) -> str:
        bounds = f"{self.grid.low}, {self.grid.high}"
        return f"{type(self).__name__}({bounds}, epsilon={self.epsilon}, delta={self.delta}, bits={self.grid.bits})"

    @abstractmethod
    def _draw(self, steps: Integers, randomness: Randomness) -> Integers: ...

    @abstractmethod
    def _shares(self, reports: Integers) -> Floats:
        """Each report's unbiased position in the range, 0 for low and 1 for high."""

    @abstractmethod
    def _moment(self, share: Positions, k: int) -> Positions:
        """The k-th central moment (2, 3 or 4) of one decoded position, by the true position. The second, its variance,
        is largest at 0, 1/2 or 1."""

    def _moments(self, share: Floats) -> tuple[Floats, Floats, Floats]:
        second, third, fourth = (np.asarray(self._moment(share, k), dtype=np.float64) for k in (2, 3, 4))
        return second, third, fourth

    def _variance(self, share: float) -> float:
        return float(self._moment(share, 2))

    def perturb(self, values: ArrayLike, randomness: Randomness) -> Integers:
        """One whole number for each value; values outside the bounds are clamped, NaN and infinities refused."""
        return self._draw(self.grid.integers(finite("values", values)), randomness)

    def check(self, reports: ArrayLike) -> Integers:
        return integers_within("reports", reports, self.least, self.most)

    def decode(self, reports: ArrayLike) -> Floats:
        """Each report as an unbiased number in the value's own units. One alone says next to nothing."""
        return np.asarray(self.grid.low + self._shares(self.check(reports)) * self._range, dtype=np.float64)

    def estimate(self, reports: ArrayLike) -> Estimate:
        """Unbiased mean over the contributors' clamped values."""
        decoded = self.decode(reports)
        value, n = np.asarray(decoded.mean()), decoded.size
        # What the reports scatter includes the people's own differences, so it never understates the noise by much.
        seen = float(decoded.var(ddof=1)) if n > 1 else math.inf
        noise = min(max(seen, self._least_variance), self.variance(1)) / n
        error = np.asarray(math.sqrt(noise))
        share, spread = float(value - self.grid.low) / self._range, min(seen, self.variance(1)) / self._range**2
        return Estimate(value, error, n, lambda z: self._ends(share, spread, n, z))

    def _ends(self, share: float, seen: float, n: int, z: float) -> tuple[Floats, Floats]:
        """Return the least and the largest true mean from which this one is no farther than its noise reaches.

        The noise of people who are all alike is that of their position, so each true mean is judged by its own, as
        Wilson (1927) does for shares: the scatter of few reports, rare far ones above all, says too little exactly when
        their mean is off. Of people who differ, the scatter holds what they add, and that of the worst is the most.
        A normal law of the noise falls short where few far reports make most of it; by Cornish and Fisher (1938) its
        quantile lies (z^2 - 1) / 6 skewnesses and (z^3 - 3 z) / 24 excess kurtoses farther out.
        """
        grid = np.linspace(0.0, 1.0, 65)
        of_all = self._moments(grid)

        def reach(true: Floats, side: int) -> Floats:
            own = self._moments(np.clip(true, 0, 1))
            alike = own[0] >= seen
            variance = np.where(alike, own[0], seen)
            leaning = np.where(alike, side * own[1], np.abs(of_all[1]).max()) / (variance**1.5 * math.sqrt(n))
            heavy = np.where(alike, own[2] - 3 * own[0] ** 2, (of_all[2] - 3 * of_all[0] ** 2).max())
            tails = heavy / (variance**2 * n)
            far = z + max(0.0, (z * z - 1) / 6) * np.maximum(0, leaning)
            far += max(0.0, (z**3 - 3 * z) / 24) * np.maximum(0, tails)
            return np.asarray(far * np.sqrt(variance / n) + self._step / n, dtype=np.float64)

        most = max(float(reach(np.append(grid, share), side).max()) for side in (-1, 1))
        away = np.linspace(0.0, most, 513)
        ends = []
        for side in (-1, 1):  # of true means below what was found, the noise went up
            within = away <= reach(share + side * away, -side)
            farthest = min(int(np.flatnonzero(within).max(initial=0)) + 1, away.size - 1)  # the next one is outside
            ends.append(np.asarray(self.grid.low + (share + side * away[farthest]) * self._range))
        return ends[0], ends[1]

    def variance(self, contributors: int, value: float | None = None) -> float:
        """Noise variance of the mean where every true number is `value`; at the worst value if that is not given."""
        n = contributors_of(contributors)
        if value is None:
            return max(self._variance(share) for share in (0.0, 0.5, 1.0)) * self._range**2 / n
        share = float(np.clip((finite("value", [value])[0] - self.grid.low) / self._range, 0, 1))
        return self._variance(share) * self._range**2 / n

    def expected_error(self, contributors: int) -> float:
        """Expected squared distance of the estimated mean at the worst true values, in squared units."""
        return self.variance(contributors)

    def parameters(self) -> dict[str, Any]:
        return {"low": self.grid.low, "high": self.grid.high, "bits": self.grid.bits}

    @property
    def _step(self) -> float:
        """Half of what two reports next to each other differ by, where reports have few values."""
        return 0.0

    @property
    def _range(self) -> float:
        return self.grid.high - self.grid.low

    @property
    def _least_variance(self) -> float:
        return min(self._variance(share) for share in (0.0, 0.5, 1.0)) * self._range**2


def finite(argument: str, values: ArrayLike, *, width: int | None = None) -> Floats:
    """Finite numbers as floats: a list, or rows of `width`. Messages never repeat what was found."""
    shape = "a list of numbers" if width is None else f"rows of {width} numbers"
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError, TypeError):
        raise Mistake(argument, f"must be {shape}") from None
    if array.ndim != (1 if width is None else 2) or (width is not None and array.shape[1] != width):
        raise Mistake(argument, f"must be {shape}")
    if array.shape[0] == 0:
        raise Mistake(argument, "must not be empty")
    if array.dtype.kind not in "iuf":
        raise Mistake(argument, f"must be {shape}")
    numbers = array.astype(np.float64, copy=False)
    if not np.isfinite(numbers).all():
        raise Mistake(argument, "must be finite; say first what a missing value means")
    return numbers
