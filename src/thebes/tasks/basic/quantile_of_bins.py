"""A quantile read off noised counts of bins, whose sum is public; its interval ends at edges of bins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.mechanisms.summed_noise import together


@dataclass(frozen=True)
class QuantileOfBins:
    """The quantile `alpha` of `people` values in bins between `edges`. Each count has two noises of the same kind.

    The value is where the noised shares of people up to each edge, made rising, pass alpha: in its bin as if people lay
    there evenly. The interval at a level: let J be the bin of the exact quantile, so that fewer than alpha n people lie
    below J and at least as many up to its end. The low end is the first bin whose people up to its end are at least
    alpha n - w, the high one is the bin after the last whose people up to its end are below alpha n + w. The first lies
    above J only if the noise at J's end is below -w, the second below J only if that at J's beginning is above w. Each
    is one fixed sum of counts' noises, which is symmetric: beyond its two-sided width w at the level it is on one side
    with at most half of 1 - level, whichever J is, and both together fail with at most 1 - level. Up to an edge the
    counts before it add up, or what those after it leave of the people: the fewer noises. `rounded` is by how much a
    value may have been moved before it fell into its bin.
    """

    counts: Floats
    people: int
    edges: Floats
    alpha: float
    noise: Additive
    rounded: float = 0.0

    @cached_property
    def _below(self) -> Floats:
        """People up to each inner edge."""
        up, down = np.cumsum(self.counts), np.cumsum(self.counts[::-1])[::-1]
        bins = len(self.counts)
        first = np.arange(1, bins) <= bins - np.arange(1, bins)
        return np.where(first, up[:-1], self.people - down[1:])

    @property
    def value(self) -> float:
        shares = np.clip(np.maximum.accumulate([0.0, *self._below, float(self.people)]), 0, self.people)
        wanted = self.alpha * self.people
        last = len(self.counts) - 1
        place = min(int(np.searchsorted(shares[1:], wanted)), last)
        low, high = shares[place], shares[place + 1]
        within = 0.5 if high <= low else min(max((wanted - low) / (high - low), 0.0), 1.0)
        return float(self.edges[place] + within * (self.edges[place + 1] - self.edges[place]))

    def ends(self, level: float) -> tuple[float, float]:
        """Return the interval at a level; it holds the value, which is no part of the proof, so it is widened to it."""
        wanted, bins = self.alpha * self.people, len(self.counts)
        fewest = np.minimum(np.arange(1, bins), bins - np.arange(1, bins))
        width = self._widths(level)[fewest - 1]
        enough = np.flatnonzero(self._below >= wanted - width)
        short = np.flatnonzero(self._below < wanted + width)
        low = int(enough[0]) if enough.size else bins - 1
        high = int(short[-1]) + 1 if short.size else 0
        first = max(float(self.edges[low]) - self.rounded, float(self.edges[0]))
        last = min(float(self.edges[high + 1]) + self.rounded, float(self.edges[-1]))
        return min(first, self.value), max(last, self.value)

    def _widths(self, level: float) -> Floats:
        """Return the width of a sum of 1, 2, ... counts' noises, which never falls: adding independent noise that is
        symmetric about 0 spreads a unimodal one."""
        most = len(self.counts) // 2
        at = [*range(1, min(most, 16) + 1)]
        while at[-1] < most:
            at.append(min(most, at[-1] * 5 // 4))
        known = {many: together([self.noise] * (2 * many)).width(level) for many in at}
        return np.array([next(known[many] for many in at if many >= count) for count in range(1, most + 1)])
