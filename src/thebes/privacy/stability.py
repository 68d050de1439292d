"""Stability as code: every transformation knows how far its answer can move between neighbouring data sets.

No sensitivity is ever set by hand: it follows from what one row can add (`reach`) and how far two rows can differ
(`diameter`), both in whole grid steps after rounding, so that rounding is inside the figure and never beside it.
`transformation >> noise` is a mechanism whose noise is calibrated by that map.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.grid import Grid
from thebes.privacy.promise import Adjacency, Unit, adjacency_of, unit_of

if TYPE_CHECKING:
    from thebes.privacy.measurement import Measurement
    from thebes.privacy.randomness import Randomness

Integers = NDArray[np.int64]

#: Totals are clamped to this on both sides; a clamp never moves two totals further apart.
LARGEST_TOTAL = 2**61

_BLOCK = 1 << 14


@dataclass(frozen=True, slots=True)
class Change:
    """How far apart neighbouring data sets are: the rows of one unit, at most `rows` of them.

    `public_size` says that every unit has exactly one row in both worlds, so their number is public; it is
    possible under replace-one only. `event` is the least claim: a row is a unit.
    """

    adjacency: Adjacency
    rows: int = 1
    unit: Unit = Unit.EVENT
    public_size: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "adjacency", adjacency_of(self.adjacency))
        object.__setattr__(self, "unit", unit_of(self.unit))
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or not 1 <= self.rows <= 2**20:
            raise Mistake("rows", "must be a whole number between 1 and 2^20")
        if self.rows > 1 and self.unit is Unit.EVENT:
            raise Mistake("unit", "an event is one row; name the unit that has several")
        if self.public_size and (self.adjacency is not Adjacency.REPLACE_ONE or self.rows != 1):
            raise Mistake("adjacency", "the number of rows is public only under replace-one with one row per unit")


def change_of(adjacency: str | Adjacency | Change, *, public_size: bool = False) -> Change:
    """Read a change; a bare adjacency means that one unit is one row."""
    change = adjacency if isinstance(adjacency, Change) else Change(adjacency_of(adjacency))
    if change.public_size == public_size:
        return change
    return Change(change.adjacency, change.rows, change.unit, public_size)


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far a vector of whole numbers can move. The L2 norm is kept squared, because its square is whole."""

    l1: int
    l2_squared: int
    coordinates: int = 1

    @property
    def l2(self) -> float:
        """Rounded up."""
        return math.nextafter(math.sqrt(self.l2_squared), math.inf)

    def times(self, rows: int) -> Sensitivity:
        return Sensitivity(self.l1 * rows, self.l2_squared * rows * rows, self.coordinates)

    def or_more(self, other: Sensitivity) -> Sensitivity:
        return Sensitivity(max(self.l1, other.l1), max(self.l2_squared, other.l2_squared), self.coordinates)


class Noise(Protocol):
    """Something that noises whole numbers of a known sensitivity (see `mechanisms.additive`)."""

    def release(
        self, totals: Integers, *, sensitivity: Sensitivity, adjacency: Adjacency, randomness: Randomness
    ) -> Measurement: ...


class Transformation(ABC):
    """A sum over rows of a bounded vector of whole numbers."""

    @property
    @abstractmethod
    def reach(self) -> Sensitivity:
        """The most that one row can add."""

    @property
    @abstractmethod
    def diameter(self) -> Sensitivity:
        """The most by which two rows' additions can differ."""

    @abstractmethod
    def total(self, rows: Any) -> Integers:
        """The exact sum over all rows; each row is clamped and rounded by itself first."""

    def sensitivity(self, change: Change) -> Sensitivity:
        """The map d_in -> d_out.

        add-remove-one: up to `rows` rows come or go, each within `reach`. replace-one with a public size: one row
        becomes another, within `diameter`. replace-one with a private size: a row may also become no row at all,
        so the larger of the two, `rows` times.
        """
        if change.adjacency is Adjacency.ADD_REMOVE_ONE:
            return self.reach.times(change.rows)
        if change.public_size:
            return self.diameter
        return self.diameter.or_more(self.reach).times(change.rows)

    def __rshift__(self, noise: Noise) -> Mechanism:
        return Mechanism(self, noise)


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A transformation and the noise that hides one unit in its answer."""

    transformation: Transformation
    noise: Noise

    def __call__(
        self, rows: Any, *, adjacency: str | Adjacency | Change, randomness: Randomness, public_size: bool = False
    ) -> Measurement:
        change = change_of(adjacency, public_size=public_size)
        sensitivity = self.transformation.sensitivity(change)
        totals = self.transformation.total(rows)
        return self.noise.release(totals, sensitivity=sensitivity, adjacency=change.adjacency, randomness=randomness)


def _summed(rows: NDArray[np.float64], coordinates: int, cells: Callable[[NDArray[np.float64]], Integers]) -> Integers:
    # The exact sum of cells(row), block by block (a block fits into the processor's cache and into 64 bits), clamped.
    totals = [0] * coordinates
    for start in range(0, len(rows), _BLOCK):
        block = cells(rows[start : start + _BLOCK])
        block = block if block.ndim == 2 else block[:, None]
        totals = [a + b for a, b in zip(totals, block.sum(axis=0, dtype=np.int64).tolist(), strict=True)]
    return np.array([max(-LARGEST_TOTAL, min(LARGEST_TOTAL, t)) for t in totals], dtype=np.int64)


def _array(values: Any) -> NDArray[Any]:
    try:
        return np.asarray(values)
    except ValueError:  # rows of different lengths
        raise Mistake("values", "must have as many entries in every row") from None


def _numbers(values: ArrayLike, dimensions: int) -> NDArray[np.float64]:
    array = _array(values)
    if array.dtype.kind not in "biuf" or array.ndim != dimensions:
        raise Mistake("values", "must be one column of numbers" if dimensions == 1 else "must be rows of numbers")
    return array.astype(np.float64)


@dataclass(frozen=True, slots=True)
class Count(Transformation):
    """How many rows are marked: each row is True or False."""

    reach = Sensitivity(1, 1)
    diameter = Sensitivity(1, 1)

    def total(self, rows: ArrayLike) -> Integers:
        marks = _array(rows)
        if marks.size == 0:
            return np.zeros(1, dtype=np.int64)
        if marks.dtype != np.bool_ or marks.ndim != 1:
            raise Mistake("values", "must be one column of True and False")
        return np.array([np.count_nonzero(marks)], dtype=np.int64)


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
        return _summed(_numbers(rows, 1), 1, self._steps)


@dataclass(frozen=True, slots=True)
class BernsteinSums(Transformation):
    """Each row hands out exactly `grid.steps` tokens to degree + 1 cells, by where t = (value - low) / range lies.

    Degree 1 gives cells 1-t and t, degree 2 gives (1-t)^2, 2t(1-t) and t^2. Count, sum and sum of squares are
    linear in the cells, yet together they are no more sensitive than a histogram: this is what makes it better
    than noising the three apart. Cells are rounded down in whole-number arithmetic and the first takes the rest.
    """

    grid: Grid
    degree: int

    def __post_init__(self) -> None:
        if self.degree not in (1, 2) or self.grid.bits > 30:
            raise Mistake("degree", "must be 1 or 2, on a grid of at most 30 bits")

    @property
    def reach(self) -> Sensitivity:
        steps = self.grid.steps
        return Sensitivity(steps, steps**2, self.degree + 1)

    @property
    def diameter(self) -> Sensitivity:
        # Non-negative vectors of the same sum: at most all tokens move from one cell to another.
        steps = self.grid.steps
        return Sensitivity(2 * steps, 2 * steps**2, self.degree + 1)

    def cells(self, values: ArrayLike) -> Integers:
        t, steps = self.grid.integers(values), self.grid.steps
        if self.degree == 1:
            return np.stack([steps - t, t]).T
        squares, mixed = t * t >> self.grid.bits, 2 * t * (steps - t) >> self.grid.bits
        return np.stack([steps - squares - mixed, mixed, squares]).T

    def total(self, rows: ArrayLike) -> Integers:
        return _summed(_numbers(rows, 1), self.degree + 1, self.cells)


@dataclass(frozen=True, slots=True)
class CentredMoments(Transformation):
    """The sums of c and of 2c^2/steps (rounded down), c the value's distance from the middle in half steps of `grid`.

    For a public number of rows. With a = |c - c'| / steps in [0, 2]: |c + c'| / steps <= 2 - a, hence the L1
    distance of two rows is at most a (1 + 2 (2 - a)) <= 25/8 steps (at a = 5/4) and the squared L2 distance at
    most a^2 (1 + 4 (2 - a)^2) <= 5.145 steps^2 (at a = 3/2 - 1/sqrt(8)), plus what rounding adds.
    """

    grid: Grid

    def __post_init__(self) -> None:
        if self.grid.bits > 28:
            raise Mistake("bits", "must be at most 28")

    @property
    def reach(self) -> Sensitivity:
        steps = self.grid.steps
        return Sensitivity(3 * steps, 5 * steps**2, 2)

    @property
    def diameter(self) -> Sensitivity:
        steps = self.grid.steps
        return Sensitivity(
            math.ceil(Fraction(25, 8) * steps) + 1, math.ceil(Fraction(5145, 1000) * steps**2) + 4 * steps + 1, 2
        )

    def cells(self, values: ArrayLike) -> Integers:
        centred = 2 * self.grid.integers(values) - self.grid.steps
        return np.stack([centred, 2 * centred * centred >> self.grid.bits]).T

    def total(self, rows: ArrayLike) -> Integers:
        return _summed(_numbers(rows, 1), 2, self.cells)


@dataclass(frozen=True, slots=True)
class HistogramCounts(Transformation):
    """How many rows fall into each of `cells` cells; a row is the number of its cell, or -1 for none of them."""

    cells: int

    def __post_init__(self) -> None:
        if isinstance(self.cells, bool) or not isinstance(self.cells, int) or self.cells < 2:
            raise Mistake("cells", "must be a whole number of at least 2")

    @property
    def reach(self) -> Sensitivity:
        return Sensitivity(1, 1, self.cells)

    @property
    def diameter(self) -> Sensitivity:
        return Sensitivity(2, 2, self.cells)

    def total(self, rows: ArrayLike) -> Integers:
        cell = np.asarray(rows)
        if cell.size == 0:
            return np.zeros(self.cells, dtype=np.int64)
        if cell.ndim != 1 or cell.dtype.kind != "i":
            raise Fault("rows are not numbers of cells")
        counts = np.zeros(self.cells + 1, dtype=np.int64)
        for start in range(0, cell.size, _BLOCK):
            block = cell[start : start + _BLOCK]
            if block.min() < -1 or block.max() >= self.cells:
                raise Fault("a row's cell does not exist")
            counts += np.bincount(block + 1, minlength=self.cells + 1)
        return counts[1:]


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
        return _summed(_numbers(rows, 1), 1, lambda values: self.shift + self.grid.integers(values))


@dataclass(frozen=True, slots=True)
class BernsteinProducts(Transformation):
    """Each row of two numbers hands out exactly first.steps * second.steps tokens to nine cells: the products of the
    three cells that `BernsteinSums` of degree 2 gives the one number and of the three it gives the other.

    The three cells of a number are not negative and add up to its steps; so their products are not negative and add up
    to the product of both. One row adds that much in L1, and no more in L2 (all of it in one cell); two rows differ by
    at most twice as much, all of it in two cells. Every product of powers of the two numbers up to the second is
    linear in the cells, so that number of rows, both sums, both sums of squares and the sum of products together are
    no more sensitive than a histogram.
    """

    first: Grid
    second: Grid

    def __post_init__(self) -> None:
        if self.first.bits + self.second.bits > 40:
            raise Mistake("bits", "of both together must be at most 40")

    @property
    def tokens(self) -> int:
        """What each row hands out."""
        return self.first.steps * self.second.steps

    @property
    def reach(self) -> Sensitivity:
        return Sensitivity(self.tokens, self.tokens**2, 9)

    @property
    def diameter(self) -> Sensitivity:
        return Sensitivity(2 * self.tokens, 2 * self.tokens**2, 9)

    def cells(self, rows: NDArray[np.float64]) -> Integers:
        one, other = BernsteinSums(self.first, 2).cells(rows[:, 0]), BernsteinSums(self.second, 2).cells(rows[:, 1])
        products: Integers = (one[:, :, None] * other[:, None, :]).reshape(-1, 9)
        return products

    def total(self, rows: ArrayLike) -> Integers:
        table = _numbers(rows, 2)
        if table.shape[1] != 2:
            raise Mistake("values", "must be rows of two numbers")
        return _summed(table, 9, self.cells)


@dataclass(frozen=True, slots=True)
class LevelCounts(Transformation):
    """How many rows fall into each cell of several histograms of the same rows, one after another. `levels` are their
    numbers of cells, each a multiple of the one before: a row is the number of its cell in the last one (or -1), and
    lies in that cell's ancestors in the others.

    A row adds 1 to exactly one cell of each level: L1 distance `len(levels)`, and so many coordinates of 1 each, hence
    the same squared L2. Two rows differ in at most two cells of each level.
    """

    levels: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.levels or self.levels[0] < 2:
            raise Mistake("levels", "must be at least one, of at least two cells")
        if any(fine <= coarse or fine % coarse for coarse, fine in pairwise(self.levels)):
            raise Mistake("levels", "must each be a multiple of the one before")

    @property
    def reach(self) -> Sensitivity:
        return Sensitivity(len(self.levels), len(self.levels), sum(self.levels))

    @property
    def diameter(self) -> Sensitivity:
        return Sensitivity(2 * len(self.levels), 2 * len(self.levels), sum(self.levels))

    def of_cells(self, finest: Integers) -> Integers:
        """The counts of every level from those of the last one: what has the same ancestor adds up."""
        return np.concatenate([finest.reshape(cells, -1).sum(axis=1) for cells in self.levels])

    def total(self, rows: ArrayLike) -> Integers:
        return self.of_cells(HistogramCounts(self.levels[-1]).total(rows))


@dataclass(frozen=True, slots=True)
class MarginalCounts(Transformation):
    """How many rows fall into each cell of several histograms of the same rows, one after another; `cells` are their
    numbers of cells. A row is the list of its cells, one in each, -1 where it is in none of them.

    A row adds 1 to at most one cell of each: L1 distance `len(cells)`, and so many coordinates of 1 each, hence the
    same squared L2. Two rows differ in at most two cells of each.
    """

    cells: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.cells or any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in self.cells):
            raise Mistake("cells", "must be at least one histogram, each of at least one cell")

    @property
    def reach(self) -> Sensitivity:
        return Sensitivity(len(self.cells), len(self.cells), sum(self.cells))

    @property
    def diameter(self) -> Sensitivity:
        return Sensitivity(2 * len(self.cells), 2 * len(self.cells), sum(self.cells))

    def total(self, rows: ArrayLike) -> Integers:
        cell = np.asarray(rows, dtype=np.int64).reshape(-1, len(self.cells))
        of_each = zip(cell.T, self.cells, strict=True)
        return np.concatenate([HistogramCounts(max(2, n)).total(column)[:n] for column, n in of_each])


@dataclass(frozen=True, slots=True)
class Grouped(Transformation):
    """The totals of `of` for each of `groups` groups of rows that share none: (the number of each row's group or -1,
    the rows).

    A row is in one group at most, so what it adds lies in that group's coordinates and is as long as without groups:
    the same reach. Rows of two groups share no coordinate: their distance is twice the reach in L1 and twice its
    square in squared L2, unless two rows of one group can be farther apart. One person with several rows may be in
    several groups; `sensitivity` adds up rows, whichever group they are in, and by the triangle inequality that is
    never too little.
    """

    of: Transformation
    groups: int

    def __post_init__(self) -> None:
        if isinstance(self.groups, bool) or not isinstance(self.groups, int) or self.groups < 1:
            raise Mistake("groups", "must be a whole number of at least 1")

    @property
    def _coordinates(self) -> int:
        return self.groups * self.of.reach.coordinates

    @property
    def reach(self) -> Sensitivity:
        one = self.of.reach
        return Sensitivity(one.l1, one.l2_squared, self._coordinates)

    @property
    def diameter(self) -> Sensitivity:
        one, within = self.of.reach, self.of.diameter
        if self.groups == 1:
            return within
        return Sensitivity(max(2 * one.l1, within.l1), max(2 * one.l2_squared, within.l2_squared), self._coordinates)

    def total(self, rows: Any) -> Integers:
        group, values = (np.asarray(part) for part in rows)
        return np.concatenate([self.of.total(values[group == place]) for place in range(self.groups)])


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
        array = _numbers(rows, 2)
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
        if _array(rows).size == 0:
            return np.zeros(self.coordinates, dtype=np.int64)
        return _summed(_numbers(rows, 2), self.coordinates, self.integers)
