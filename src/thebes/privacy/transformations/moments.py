"""Sums, squares and products out of one histogram-like total, which together cost what one of them costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy.faults import Mistake
from thebes.privacy.grid import Grid
from thebes.privacy.stability import Integers, Sensitivity, Transformation
from thebes.privacy.transformations.rows import numbers, summed


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
        return summed(numbers(rows, 1), self.degree + 1, self.cells)


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
        """The number of tokens that each row hands out."""
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
        table = numbers(rows, 2)
        if table.shape[1] != 2:
            raise Mistake("values", "must be rows of two numbers")
        return summed(table, 9, self.cells)


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
        return summed(numbers(rows, 1), 2, self.cells)
