"""Public grids on which values are rounded, each by itself, before anything is summed.

Sums of integers are exact and the noise is an integer too, so nothing of a value survives in the low
bits of a release (Mironov 2012). The grid depends on declared bounds only, never on data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy.faults import Mistake


@dataclass(frozen=True, slots=True)
class Grid:
    """The range [low, high] cut into 2^bits steps. A value is clamped, then rounded to the nearest step."""

    low: float
    high: float
    bits: int = 20

    def __post_init__(self) -> None:
        for argument, value in (("low", self.low), ("high", self.high)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise Mistake(argument, "must be a finite number")
        if not self.low < self.high or not math.isfinite(self.high - self.low):
            raise Mistake("bounds", "low must be smaller than high")
        if not 1 <= self.bits <= 40:
            raise Mistake("bits", "must lie between 1 and 40")

    @property
    def steps(self) -> int:
        """The largest integer on the grid; the smallest is 0."""
        return 1 << self.bits

    @property
    def step(self) -> float:
        return (self.high - self.low) / self.steps

    def integers(self, values: ArrayLike) -> NDArray[np.int64]:
        """Each value's own step, 0 .. steps. NaN is refused: the caller decides what a missing value means."""
        array = np.asarray(values, dtype=np.float64)
        if np.isnan(array).any():
            raise Mistake("values", "must not hold missing numbers (NaN); say first what a missing value means")
        clamped = np.clip(array, self.low, self.high)
        return np.rint((clamped - self.low) / (self.high - self.low) * self.steps).astype(np.int64)

    def values(self, integers: ArrayLike) -> NDArray[np.float64]:
        """Back to the declared range (noise may lie outside it)."""
        return self.low + np.asarray(integers, dtype=np.float64) * self.step
