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
    about,
    contributors_of,
    integers_within,
)
from thebes.privacy.randomness import Randomness


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
    def _variance(self, share: float) -> float:
        """Variance of one decoded position where the true position is `share`; largest at 0, 1/2 or 1."""

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
        return about(value, error, n)

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
