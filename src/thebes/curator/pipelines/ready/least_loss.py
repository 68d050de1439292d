"""The least that any function of cells loses on some rows, so that a target beyond it can be rejected.

What must stay true: one row more moves a least loss by no less than nothing and by no more than that row can lose,
exactly. In every cell the function that loses least there says one value; a row more is in one cell, and keeping to the
value said before costs what this row loses by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from thebes.curator.pipelines.validators import BITS, Best
from thebes.privacy.measurement import Floats

#: one batch: the cell of each row, a line of numbers, and the row's output
Cells = Iterable[tuple[NDArray[np.int16], Floats]]


def fewest_wrong(batches: Cells) -> Best:
    """Count the rows of the rarer of two values in every cell."""
    sums = _sums((cells, np.stack([output <= 0.5, output > 0.5], axis=1)) for cells, output in batches)
    return Best(float(sum(min(each) for each in sums)), sum(sum(each) for each in sums))


def least_squares(batches: Cells, ends: tuple[float, float]) -> Best:
    """Add up the squared distances to the mean of every cell, of outputs rounded to steps of their range: whole
    numbers, so that nothing is lost to floating point. Rounding moves a row's loss by no more than a step of the
    largest, which a test allows for (`validators`)."""
    low, high = ends
    steps = 1 << BITS
    sums = _sums(
        (cells, np.stack([np.ones_like(whole), whole, whole**2], axis=1))
        for cells, output in batches
        for whole in [np.rint(np.clip((output - low) / (high - low), 0, 1) * steps).astype(np.int64)]
    )
    lost = sum((squared - Fraction(total**2, rows) for rows, total, squared in sums), Fraction(0))
    return Best(lost / steps**2 * Fraction((high - low) ** 2), sum(rows for rows, _, _ in sums))


def _sums(batches: Iterable[tuple[NDArray[np.int16], NDArray[np.generic]]]) -> list[list[int]]:
    """Add up whole numbers by cell."""
    found: dict[bytes, list[int]] = {}
    for cells, numbers in batches:
        known, of = np.unique(cells, axis=0, return_inverse=True)
        added = np.zeros((len(known), numbers.shape[1]), dtype=np.int64)
        np.add.at(added, of.reshape(-1), numbers.astype(np.int64))
        for cell, more in zip(known, added.tolist(), strict=True):
            kept = found.get(cell.tobytes(), [0] * len(more))
            found[cell.tobytes()] = [before + new for before, new in zip(kept, more, strict=True)]
    return list(found.values())
