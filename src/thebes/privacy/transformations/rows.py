"""Rows as arrays of numbers, and their exact sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy.faults import Mistake
from thebes.privacy.stability import LARGEST_TOTAL, Integers

BLOCK = 1 << 14  #: rows that are summed at once


def summed(rows: NDArray[np.float64], coordinates: int, cells: Callable[[NDArray[np.float64]], Integers]) -> Integers:
    """The exact sum of cells(row), clamped; block by block, as a block fits into the processor's cache and 64 bits."""
    totals = [0] * coordinates
    for start in range(0, len(rows), BLOCK):
        block = cells(rows[start : start + BLOCK])
        block = block if block.ndim == 2 else block[:, None]
        totals = [a + b for a, b in zip(totals, block.sum(axis=0, dtype=np.int64).tolist(), strict=True)]
    return np.array([max(-LARGEST_TOTAL, min(LARGEST_TOTAL, t)) for t in totals], dtype=np.int64)


def array_of(values: Any) -> NDArray[Any]:
    """Rows as an array. Raises `Mistake` where some are longer than others."""
    try:
        return np.asarray(values)
    except ValueError:  # rows of different lengths
        raise Mistake("values", "must have as many entries in every row") from None


def numbers(values: ArrayLike, dimensions: int) -> NDArray[np.float64]:
    """One column of numbers (1), or rows of them (2). Raises `Mistake` for anything else."""
    array = array_of(values)
    if array.dtype.kind not in "biuf" or array.ndim != dimensions:
        raise Mistake("values", "must be one column of numbers" if dimensions == 1 else "must be rows of numbers")
    return array.astype(np.float64)
