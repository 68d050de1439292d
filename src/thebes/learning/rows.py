"""Rows on public scales. Everything here treats a row by itself: the same row gives the same floats in any company.

No matrix product of fractions stands on this path: its last bit may change when another row is added, and a proof of
sensitivity would end there. Of whole numbers it may (`WholeRows`). The same holds for vector instructions, so rows are
processed in full lanes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thebes.learning.budget import Floats

_BLOCK = 2**13
_LANES = 64
WHOLE = 2**15  #: the largest whole number of a row in `WholeRows`, and of its pull
_WEIGHTS = 36  #: bits of the weights of one score, added up
_FARTHEST = 2.0**40  #: weights of a descent that went wild count as this


@dataclass(frozen=True, slots=True)
class Box:
    """Public bounds of columns. Values outside are moved to the nearest bound; what is missing (NaN) is the middle."""

    low: Floats
    high: Floats

    def unit(self, values: Floats) -> Floats:
        """Columns mapped from [low, high] to [-1, 1]."""
        inside = np.minimum(np.maximum(values, self.low), self.high)
        units = np.minimum(np.maximum((inside - self.low) / (self.high - self.low) * 2 - 1, -1), 1)
        return np.where(np.isnan(units), 0.0, units)

    def back(self, units: Floats) -> Floats:
        """From [-1, 1] to [low, high]."""
        return self.low + (units + 1) / 2 * (self.high - self.low)


def lengths(rows: Floats) -> Floats:
    """The L2 norm of each row, as a column."""
    squares = rows * rows
    while (width := squares.shape[1]) > 1:  # one half onto the other: an order that follows from the width alone
        half = width // 2
        folded = squares[:, :half] + squares[:, half : 2 * half]
        if width % 2:
            folded[:, 0] += squares[:, -1]
        squares = folded
    return np.sqrt(squares)


def shortened(rows: Floats, length: float | Floats) -> Floats:
    """Rows longer than `length` (L2; one for all, or a column of each one's), scaled down to it."""
    if rows.shape[1] == 1:
        return np.minimum(np.maximum(rows, -length), length)
    return rows * np.minimum(1.0, length / np.maximum(lengths(rows), 1e-300))


def scores(rows: Floats, weights: Floats) -> Floats:
    """Each row's inner products with the columns of `weights`, summed in a fixed order."""
    result = np.zeros((len(rows), weights.shape[1]))
    for j in range(rows.shape[1]):
        result += rows[:, j : j + 1] * weights[j]
    return result


def blocks(build: Callable[..., Floats], *columns: NDArray[Any]) -> Iterator[Floats]:
    """`build` applied to slices of `columns`: a bounded amount of memory, and every row in a full vector lane."""
    for parts, size in _filled(columns):
        yield build(*parts)[:size]


def slices(column: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """`column` in the slices in which `blocks` takes it."""
    return (column[start : start + _BLOCK] for start in range(0, len(column), _BLOCK))


def _filled(columns: tuple[NDArray[Any], ...]) -> Iterator[tuple[list[NDArray[Any]], int]]:
    """Slices of columns whose last lane is filled up with the first row, and how many of their rows count."""
    rows = len(columns[0])
    for start in range(0, rows, _BLOCK):
        parts = [column[start : start + _BLOCK] for column in columns]
        size = len(parts[0])
        lacking = -size % _LANES
        if lacking:
            parts = [np.concatenate([part, np.repeat(part[:1], lacking, axis=0)]) for part in parts]
        yield parts, size


@dataclass(frozen=True, slots=True)
class WholeRows:
    """Some rows in whole steps, whose matrix products are the same bits in any company, order and on any machine.

    Proof: all factors are whole numbers. Those of a row are at most 2^15, and the weights of one score at most 2^36
    together, but for rounding: so however many products of a score were added, and in whatever order, the sum is a
    whole number below 2^53. Pulls are at most 2^15 and rows at most 2^13, so the same holds for a sum over rows, and
    64 bits hold 2^19 such sums. Such numbers a float holds exactly: nothing is ever rounded, and a product that is
    fused with a sum is the same, too.
    """

    numbers: Floats
    targets: NDArray[Any]
    lengths: Floats  #: of the rows as they were rounded: nothing has to be added for that
    step: float
    count: int  #: of the rows that count; those after them fill the last lane

    @classmethod
    def of(cls, rows: Any, targets: Any, longest: float, seen: Callable[[Any], Floats]) -> Iterator[Self]:
        """A block at a time, of rows at most `longest` long: what is longer in a number is cut there."""
        step = longest / WHOLE
        for (part, own), size in _filled((rows, targets)):
            # What floats could not hold is 0, and no more of it comes in later: the integer of a NaN has no bound.
            numbers = np.rint(np.clip(np.nan_to_num(seen(part)), -longest, longest) / step)
            yield cls(numbers, np.nan_to_num(own), lengths(numbers) * step, step, size)

    def scores(self, weights: Floats, unit: float) -> Floats:
        """Each row's inner products with the columns of weights in whole units, see `whole_weights`."""
        return np.asarray((self.numbers @ weights) * (self.step * unit))

    def pulled(self, pulls: Floats) -> NDArray[np.int64]:
        """The sum of all rows, each times each of its pulls: whole numbers, at most `WHOLE`."""
        return np.asarray(self.numbers[: self.count].T @ pulls[: self.count]).astype(np.int64)


def whole_weights(weights: Floats) -> tuple[Floats, float]:
    """Weights in whole units, as fine as `WholeRows` allows, and what a unit is worth."""
    total = float(np.abs(weights).sum(axis=0).max())
    if not total <= _FARTHEST:  # asked once here, as a descent asks at each of its steps
        weights = np.nan_to_num(np.minimum(np.maximum(weights, -_FARTHEST), _FARTHEST))
        total = float(np.abs(weights).sum(axis=0).max())
    unit = 2.0 ** (math.ceil(math.log2(max(1.0, total))) - _WEIGHTS)
    return np.rint(weights / unit), unit
