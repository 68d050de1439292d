"""The histogram of the reports about one subset: counts of support, kept by fold, and what they estimate.

Only sums are kept, so an aggregator's memory does not grow with its contributors. Folds are for cross-validation on
the noisy data and for error bars: report i of a partition is of fold i modulo their number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.mechanisms.histogram import on_simplex
from thebes.tasks.ensemble.cells import SubsetCells
from thebes.tasks.ensemble.plan import Reporter

FOLDS = 5
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass
class SupportHistogram:
    """`support[f, c]` reports of fold f support cell c, of `told[f]` reports."""

    cells: SubsetCells
    reporter: Reporter
    support: Integers
    told: Integers

    @classmethod
    def empty(cls, cells: SubsetCells, reporter: Reporter) -> SupportHistogram:
        return cls(cells, reporter, np.zeros((FOLDS, cells.size), dtype=np.int64), np.zeros(FOLDS, dtype=np.int64))

    def hear(self, reports: NDArray[Any]) -> None:
        """Add checked reports."""
        first = int(self.told.sum())
        for start in range(min(FOLDS, len(reports))):
            mine = reports[start::FOLDS]
            fold = (first + start) % FOLDS
            counted = np.bincount(mine, minlength=self.cells.size) if mine.ndim == 1 else mine.sum(axis=0)
            self.support[fold] += counted.astype(np.int64)
            self.told[fold] += len(mine)

    @property
    def count(self) -> int:
        return int(self.told.sum())

    def shares(self, folds: Any = slice(None)) -> Floats:
        """The unbiased share of each cell; it may be negative."""
        told = int(self.told[folds].sum())
        hold, stray = float(self.reporter.hold), float(self.reporter.stray)
        return np.asarray(
            (self.support[folds].reshape(-1, self.cells.size).sum(axis=0) / max(told, 1) - stray) / (hold - stray)
        )

    def table(self, folds: Any = slice(None)) -> Floats:
        """Counts by (combination of bins, label) that could be true: projected, without missing labels."""
        told = int(self.told[folds].sum())
        if not told:
            return np.zeros((self.cells.size // self.cells.label.size, self.cells.label.known))
        projected = on_simplex(self.shares(folds), total=1.0) * told
        return projected.reshape(-1, self.cells.label.size)[:, : self.cells.label.known]

    def noise(self) -> float:
        """Standard deviation that the mechanism leaves in the count of a rare cell."""
        hold, stray = float(self.reporter.hold), float(self.reporter.stray)
        return float(np.sqrt(self.count * stray * (1 - stray)) / (hold - stray))

    def labels(self) -> Floats:
        """Unbiased shares of the labels, fold by fold; missing labels count to none."""
        each = [self.shares([fold]) for fold in range(FOLDS) if self.told[fold]]
        whole = np.array(each).reshape(len(each), -1, self.cells.label.size).sum(axis=1)
        return np.asarray(whole[:, : self.cells.label.known])
