"""Counts of rows: marked ones, those in each cell, those in each cell of several histograms at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.promise import Adjacency
from thebes.privacy.stability import Change, Integers, Sensitivity, Transformation
from thebes.privacy.transformations.rows import BLOCK, array_of


@dataclass(frozen=True, slots=True)
class Count(Transformation):
    """The count of the rows that are marked: each row is True or False."""

    reach = Sensitivity(1, 1)
    diameter = Sensitivity(1, 1)

    def total(self, rows: ArrayLike) -> Integers:
        marks = array_of(rows)
        if marks.size == 0:
            return np.zeros(1, dtype=np.int64)
        if marks.dtype != np.bool_ or marks.ndim != 1:
            raise Mistake("values", "must be one column of True and False")
        return np.array([np.count_nonzero(marks)], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class UnitCount(Transformation):
    """The number of units that have a marked row in a group, of `groups` groups of rows that share none; a row is the
    number of its unit.

    A unit that comes or goes has at most so many rows as may come or go, and so is in at most as many groups; each
    group's number moves by 1, however many of its rows are there: L1 and squared L2 are both the smaller of the two.
    """

    groups: int = 1

    reach = Sensitivity(1, 1)
    diameter = Sensitivity(1, 1)

    def sensitivity(self, change: Change) -> Sensitivity:
        if change.adjacency is not Adjacency.ADD_REMOVE_ONE:
            return super(UnitCount, self).sensitivity(change)
        most = min(change.rows, self.groups)
        return Sensitivity(most, most)

    def total(self, rows: ArrayLike) -> Integers:
        return np.array([np.unique(array_of(rows)).size], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class HistogramCounts(Transformation):
    """The counts of the rows that fall into each of `cells` cells; a row is the number of its cell, or -1 for none of
    them."""

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
        for start in range(0, cell.size, BLOCK):
            block = cell[start : start + BLOCK]
            if block.min() < -1 or block.max() >= self.cells:
                raise Fault("a row's cell does not exist")
            counts += np.bincount(block + 1, minlength=self.cells + 1)
        return counts[1:]


@dataclass(frozen=True, slots=True)
class LevelCounts(Transformation):
    """The counts of the rows that fall into each cell of several histograms of the same rows, one after another.
    `levels` are their numbers of cells, each a multiple of the one before: a row is the number of its cell in the last
    one (or -1), and lies in that cell's ancestors in the others.

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
    """The counts of the rows that fall into each cell of several histograms of the same rows, one after another;
    `cells` are their numbers of cells. A row is the list of its cells, one in each, -1 where it is in none of them.

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
