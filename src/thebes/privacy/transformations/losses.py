"""A model's squared losses beside what one number for everybody loses, in cells that noise can hide."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from thebes.privacy.grid import Grid
from thebes.privacy.stability import Integers, Sensitivity, Transformation
from thebes.privacy.transformations.moments import BernsteinSums
from thebes.privacy.transformations.rows import BLOCK

BITS = 20  #: a row is so many bits' worth of steps


@dataclass(frozen=True, slots=True)
class LossBesideGuess(Transformation):
    """Each row, a loss and a value, both in [0, 1], gives its loss in steps, rounded up, and the three cells that
    `BernsteinSums` of degree 2 gives the value: what any one number for everybody loses is linear in these. A loss that
    is no number is the worst one: NaN passes a clip, and as an integer it has no bound."""

    @property
    def values(self) -> BernsteinSums:
        """The three cells of the value."""
        return BernsteinSums(Grid(0.0, 1.0, BITS), 2)

    @property
    def steps(self) -> int:
        """The steps that a loss of 1 has, and that a value hands out."""
        return 1 << BITS

    @property
    def reach(self) -> Sensitivity:
        return Sensitivity(2 * self.steps, 2 * self.steps**2, 4)

    @property
    def diameter(self) -> Sensitivity:
        # The loss moves by its whole range, and the value's tokens from one cell to another.
        return Sensitivity(3 * self.steps, 3 * self.steps**2, 4)

    def total(self, rows: Any) -> Integers:
        table = np.clip(np.nan_to_num(np.asarray(rows, dtype=np.float64).reshape(-1, 2), nan=1.0), 0.0, 1.0)
        totals = np.zeros(4, dtype=np.int64)
        for start in range(0, len(table), BLOCK):
            lost, value = table[start : start + BLOCK].T
            totals[0] += np.ceil(lost * self.steps).astype(np.int64).sum()
            totals[1:] += self.values.cells(value).sum(axis=0)
        return totals
