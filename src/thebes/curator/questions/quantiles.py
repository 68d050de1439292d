"""Quantiles from counts: how many rows lie below each of many places of a range, in one level of bins or in several."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.curator.questions.groups import Groups
from thebes.curator.questions.plans import NONE_DERIVED, Ends, Integers, Plan
from thebes.data.derived_columns import DerivedColumns
from thebes.data.filter import RowFilter
from thebes.data.table import Axis, Sums, Term
from thebes.privacy import exact
from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Hiding, LeastNoise
from thebes.privacy.mechanisms.summed_noise import apart, weighed_widths
from thebes.privacy.promise import Adjacency
from thebes.privacy.stability import Change
from thebes.privacy.transformations.counts import LevelCounts

BINS = 1024  #: unless the question says how many


@dataclass(frozen=True)
class QuantilePlan(Plan):
    """The value below which a share of the rows lies, up to the width of a bin.

    Let T(e) = (rows below the edge e) - share * (all rows). It rises with e and is 0 where the quantile lies. Each is a
    weighed sum of noisy counts: of whole bins of the first level, and of those of every finer level that fill up to e.
    After the noise, T is made to rise again (isotonic regression, weighed by the inverse of each variance) and the
    answer is read off where it passes 0, straight within a bin.

    The interval holds every bin whose own two edges the noise allows to lie on either side of 0, each with half the
    odds of missing (`weighed_widths`). It speaks of the clamped rows at hand and ends at edges of bins.
    """

    groups: Groups
    where: RowFilter | None
    bins: Axis
    share: float
    counts: LevelCounts
    features: DerivedColumns = NONE_DERIVED

    @property
    def row(self) -> LevelCounts:
        return self.counts

    @property
    def sums(self) -> Sums:
        return Sums((Term(),), axes=(*self.groups.axes, self.bins), where=self.where)

    @property
    def edges(self) -> Floats:
        return np.array(self.bins.edges)

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            **super().parameters,
            "levels": list(self.counts.levels),
            "resolution": float(np.diff(self.edges).max()),
        }

    @property
    def notes(self) -> tuple[str, ...]:
        levels = self.counts.levels
        if len(levels) == 1:
            return (f"Read off counts of {levels[0]} bins: one level of counts had the least expected error.",)
        named = " and in ".join(str(cells) for cells in levels)
        return (f"Read off noisy counts of the rows in {named} bins: these had the least expected error.",)

    @property
    def ends_of_totals(self) -> Ends:
        return 0.0, 1.0

    def of_sums(self, sums: Integers) -> Integers:
        return np.stack([self.counts.of_cells(own) for own in sums.reshape(self.groups.count, -1)])

    def examine(self, totals: Integers) -> None:
        super().examine(totals)
        for own in totals.reshape(self.groups.count, -1):
            self._fair((self.counts.of_cells(own[-self.counts.levels[-1] :]) == own).all())

    def value(self, totals: Floats) -> float:
        spread = variances(self.counts.levels, self.share)
        rising = _rising(self._steps(totals), 1 / spread)
        above = int(np.searchsorted(rising, 0.0, side="left"))
        if above == 0 or above == rising.size:
            return float(self.edges[min(above, rising.size - 1)])
        low, high = rising[above - 1], rising[above]
        part = -low / (high - low)
        return float(self.edges[above - 1] + part * (self.edges[above] - self.edges[above - 1]))

    def ends(self, totals: Floats, hidden: Hiding, level: float) -> Ends:
        (noises, off), (weights, times) = apart(hidden), parts(self.counts.levels, self.share)
        width = off * (times @ np.abs(weights))
        if noises:
            width = width + weighed_widths(noises, weights, times, level)
        steps = self._steps(totals)
        both = np.flatnonzero(((steps - width)[:-1] <= 0) & ((steps + width)[1:] >= 0))
        if not both.size:
            return float(self.edges[0]), float(self.edges[-1])  # nothing fits this noise: it was beyond its width
        return float(self.edges[both[0]]), float(self.edges[both[-1] + 1])

    def _steps(self, totals: Floats) -> Floats:
        """T at every edge."""
        levels = self.counts.levels
        counts = np.split(np.asarray(totals, dtype=np.float64), np.cumsum(levels)[:-1])
        finest, edge = levels[-1], np.arange(levels[-1] + 1)
        below = np.zeros(finest + 1)
        for place, (cells, own) in enumerate(zip(levels, counts, strict=True)):
            upto = np.concatenate([[0.0], np.cumsum(own)])
            block = finest // cells
            start = edge // (finest // levels[place - 1]) * (finest // levels[place - 1]) if place else 0 * edge
            below += upto[edge // block] - upto[start // block]
        rising: Floats = below - self.share * counts[0].sum()
        return rising


def parts(levels: tuple[int, ...], share: float) -> tuple[Floats, NDArray[np.int64]]:
    """(weights, how many counts have each of them in T at every edge): whole cells of the first level below the edge
    count 1 - share, the others of that level -share, and finer cells 1."""
    finest, edge = levels[-1], np.arange(levels[-1] + 1)
    below = edge // (finest // levels[0])
    finer = np.zeros_like(edge)
    for coarse, fine in pairwise(levels):
        finer += edge % (finest // coarse) // (finest // fine)
    return np.array([1 - share, share, 1.0]), np.stack([below, levels[0] - below, finer], axis=1)


def variances(levels: tuple[int, ...], share: float) -> Floats:
    """The variance of T at every edge, where each count has variance 1."""
    weights, times = parts(levels, share)
    return np.asarray(times @ weights**2)


@lru_cache(maxsize=256)
def levels_for(bins: int, share: float, *, epsilon: exact.Number, delta: exact.Number) -> tuple[int, ...]:
    """The levels of counts (each so many times as fine as the one before) whose T has the least mean deviation under
    noise for this budget. One level is a histogram: every count has little noise, but many are added up. With more of
    them a row counts in each, which takes more noise, but few counts reach up to an edge. The choice depends on public
    things alone, and not on how many rows a person has, so that every site chooses alike."""
    depth = bins.bit_length() - 1
    change = Change(Adjacency.ADD_REMOVE_ONE)

    def deviation(levels: tuple[int, ...]) -> float:
        noise = LeastNoise(epsilon, delta).noise(LevelCounts(levels).sensitivity(change))
        return noise.deviation * float(np.sqrt(variances(levels, share)).mean())

    return min((_evenly(depth, count) for count in range(1, depth + 1)), key=deviation)


def _evenly(depth: int, count: int) -> tuple[int, ...]:
    """`count` levels, each as many times as fine as the one before as powers of two allow."""
    return tuple(1 << math.ceil(depth * (place + 1) / count) for place in range(count))


def _rising(values: Floats, weights: Floats) -> Floats:
    """The nearest values that never fall, in squares so weighed: neighbours that do are pooled (Ayer et al. 1955)."""
    pools: list[tuple[float, float, int]] = []
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        pool = (value, weight, 1)
        while pools and pools[-1][0] >= pool[0]:
            mean, mass, size = pools.pop()
            both = mass + pool[1]
            pool = ((mean * mass + pool[0] * pool[1]) / both, both, size + pool[2])
        pools.append(pool)
    return np.repeat([mean for mean, _, _ in pools], [size for _, _, size in pools])
