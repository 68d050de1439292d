"""Rows on public scales. Everything here treats a row by itself: the same row gives the same floats in any company.

No matrix product stands on this path: its last bit may change when another row is added, and a proof of
sensitivity would end there. The same holds for vector instructions, so rows are processed in full lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.learning.budget import Floats

_BLOCK = 8192
_LANES = 64


@dataclass(frozen=True, slots=True)
class Box:
    """Public bounds of columns. Values outside are moved to the nearest bound; what is missing (NaN) is the middle."""

    low: Floats
    high: Floats

    def unit(self, values: Floats) -> Floats:
        """Columns mapped from [low, high] to [-1, 1]."""
        inside = np.clip(values, self.low, self.high)
        units = np.clip((inside - self.low) / (self.high - self.low) * 2 - 1, -1, 1)
        return np.where(np.isnan(units), 0.0, units)

    def back(self, units: Floats) -> Floats:
        """From [-1, 1] to [low, high]."""
        return self.low + (units + 1) / 2 * (self.high - self.low)


def lengths(rows: Floats) -> Floats:
    """The L2 norm of each row, as a column."""
    square = np.zeros((len(rows), 1))
    for j in range(rows.shape[1]):
        square += rows[:, j : j + 1] * rows[:, j : j + 1]
    return np.sqrt(square)


def shortened(rows: Floats, length: float) -> Floats:
    """Rows longer than `length` (L2), scaled down to it."""
    return rows * np.minimum(1.0, length / np.maximum(lengths(rows), 1e-300))


def scores(rows: Floats, weights: Floats) -> Floats:
    """Each row's inner products with the columns of `weights`, summed in a fixed order."""
    result = np.zeros((len(rows), weights.shape[1]))
    for j in range(rows.shape[1]):
        result += rows[:, j : j + 1] * weights[j]
    return result


def blocks(build: Callable[..., Floats], *columns: NDArray[Any]) -> Iterator[Floats]:
    """`build` applied to slices of `columns`: a bounded amount of memory, and every row in a full vector lane."""
    rows = len(columns[0])
    for start in range(0, rows, _BLOCK):
        parts = [column[start : start + _BLOCK] for column in columns]
        size = len(parts[0])
        lacking = -size % _LANES
        if lacking:
            parts = [np.concatenate([part, np.repeat(part[:1], lacking, axis=0)]) for part in parts]
        yield build(*parts)[:size]
