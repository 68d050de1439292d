"""Sums of numbers and of vectors, each row clamped to what it may add at most."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy.faults import Mistake
from thebes.privacy.grid import Grid
from thebes.privacy.stability import Integers, Sensitivity, Transformation
from thebes.privacy.transformations.rows import array_of, numbers, summed


@dataclass(frozen=True, slots=True)
class BoundedSum(Transformation):
    """The sum of numbers clamped to [low, high], in steps of a grid whose middle is 0, so that no row means 0."""

    low: float
    high: float
    bits: int = 20

    def __post_init__(self) -> None:
        Grid(self.low, self.high, self.bits)

    @property
    def _grid(self) -> Grid:
        most = float(max(abs(self.low), abs(self.high)))
        return Grid(-most, most, self.bits)

    @property
    def step(self) -> float:
        return self._grid.step

    def _steps(self, values: ArrayLike) -> Integers:
        clamped = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
        return self._grid.integers(clamped) - self._grid.steps // 2

    @property
    def _ends(self) -> tuple[int, int]:
        low, high = self._steps([self.low, self.high])
        return int(low), int(high)

    @property
    def reach(self) -> Sensitivity:
        most = max(abs(end) for end in self._ends)
        return Sensitivity(most, most**2)

    @property
    def diameter(self) -> Sensitivity:
        low, high = self._ends
        return Sensitivity(high - low, (high - low) ** 2)

    def total(self, rows: ArrayLike) -> Integers:
        return summed(numbers(rows, 1), 1, self._steps)


@dataclass(frozen=True, slots=True)
class ShiftedSum(Transformation):
    """The sum of `shift` + t, with t a value's own step on `grid` (0 to `grid.steps`): a sum in steps of any grid that
    does not begin at 0, `shift` being where it begins.

    A row adds a whole number between shift and shift + steps, so at most the larger of both in size; two rows differ
    by at most `steps`.
    """

    grid: Grid
    shift: int

    @property
    def reach(self) -> Sensitivity:
        most = max(abs(self.shift), abs(self.shift + self.grid.steps))
        return Sensitivity(most, most**2)

    @property
    def diameter(self) -> Sensitivity:
        return Sensitivity(self.grid.steps, self.grid.steps**2)

    def total(self, rows: ArrayLike) -> Integers:
        return summed(numbers(rows, 1), 1, lambda values: self.shift + self.grid.integers(values))


@dataclass(frozen=True, slots=True)
class VectorSum(Transformation):
    """The sum of rows of `coordinates` numbers, each row shrunk until its L1 or L2 norm is at most `bound`.

    A row is rounded toward 0 on a grid of `bound` / 2^bits, which never lengthens it; rows that floating point
    left a hair too long are shortened once more in whole numbers, so the norm holds exactly.
    """

    bound: float
    norm: int
    coordinates: int
    bits: int = 20

    def __post_init__(self) -> None:
        if isinstance(self.bound, bool) or not isinstance(self.bound, (int, float)):
            raise Mistake("bound", "must be a number")
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise Mistake("bound", "must be finite and greater than 0")
        if self.norm not in (1, 2):
            raise Mistake("norm", "must be 1 or 2")
        if isinstance(self.coordinates, bool) or not isinstance(self.coordinates, int) or self.coordinates < 1:
            raise Mistake("coordinates", "must be a whole number of at least 1")
        if not 1 <= self.bits <= 24:
            raise Mistake("bits", "must lie between 1 and 24")
        if self.step < sys.float_info.min:  # such numbers have lost digits, and shrinking would never end
            raise Mistake("bound", "is too small for steps of it to be told apart")

    @property
    def step(self) -> float:
        return self.bound / (1 << self.bits)

    @property
    def reach(self) -> Sensitivity:
        most = 1 << self.bits
        # In L2 the L1 norm is at most sqrt(coordinates) times as long, and no whole number above that.
        l1 = most if self.norm == 1 else math.isqrt(self.coordinates * most**2)
        return Sensitivity(l1, most**2, self.coordinates)

    @property
    def diameter(self) -> Sensitivity:
        # Twice the reach: a row may turn into its opposite.
        return self.reach.times(2)

    def integers(self, rows: ArrayLike) -> Integers:
        # Row after row in memory: NumPy adds up a row that lies otherwise in another order, so that a row's last bits
        # would follow from how many rows lie beside it.
        array = np.ascontiguousarray(numbers(rows, 2))
        if array.shape[1] != self.coordinates:
            raise Mistake("values", f"must be rows of {self.coordinates} numbers")
        if not np.isfinite(array).all():
            raise Mistake("values", "must be finite")
        most = 1 << self.bits
        largest = np.abs(array).max(axis=1, keepdims=True)
        shape = np.divide(array, largest, out=np.zeros_like(array), where=largest > 0)
        length = np.abs(shape).sum(axis=1) if self.norm == 1 else np.sqrt((shape * shape).sum(axis=1))
        with np.errstate(over="ignore"):  # a row of tiny numbers has room without end
            room = np.divide(self.bound, largest[:, 0], out=np.full(len(array), np.inf), where=largest[:, 0] > 0)
        shrink = np.minimum(1.0, np.divide(room, length, out=np.ones(len(array)), where=length > 0))
        whole: Integers = np.trunc(array * shrink[:, None] / self.bound * most).astype(np.int64)
        while (late := self._too_long(whole, most)).any():
            whole[late] -= np.sign(whole[late])
        return whole

    def _too_long(self, whole: Integers, most: int) -> NDArray[np.bool_]:
        if self.norm == 1:
            return np.asarray(np.abs(whole).sum(axis=1) > most)
        return np.asarray((whole * whole).sum(axis=1) > most**2)

    def total(self, rows: ArrayLike) -> Integers:
        if array_of(rows).size == 0:
            return np.zeros(self.coordinates, dtype=np.int64)
        return summed(numbers(rows, 2), self.coordinates, self.integers)
