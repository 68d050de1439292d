"""Places where rows lie close together: a tree of boxes with noisy counts, and centres that follow from those alone.

Must stay true: the box of a row follows from that row and from released counts, by comparisons only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from thebes.learning.budget import FitBudget, Floats, Reach

_SHALLOWEST, _DEEPEST = 3, 14
#: A box is halved where its count stands out by so many deviations of one level's noise.
_STANDS_OUT = 3.0
#: What counts for less than so many is noise, and no place where rows lie.
_SEEN = 2.0
_STARTS, _ROUNDS = 20, 20


@dataclass(frozen=True, slots=True)
class Density:
    """Middles of boxes that stand out of the noise, and how many rows each is thought to hold."""

    middles: Floats
    counts: Floats


def learned_density(units: Floats, rows: float, budget: FitBudget, share: Fraction) -> Density:
    """Count rows in [-1, 1] in ever smaller boxes, halved along their longest side; `rows` is their public or released
    number.

    Proof: at each level the boxes are a partition that earlier levels' released counts decide, and a row lies in one
    of its boxes: coming or going it moves one count by 1, replaced two (`_reach`). Every level costs an equal part of
    `share`, fixed in advance; that later boxes depend on earlier counts changes nothing (see `FitBudget`). A box that
    is not halved any more is counted again with the others of its level, at no further price. All else is
    post-processing: the mean of a box's counts, the two halves of a box brought nearer to what it was thought to hold.
    After the private quadtrees of Cormode et al. (2012).
    """
    depth = _depth(rows, budget, share)
    each, noise = share / depth, _noise(depth, budget, share)
    low, high = np.full((1, units.shape[1]), -1.0), np.full((1, units.shape[1]), 1.0)
    place, every = np.zeros(len(units), dtype=np.int64), np.arange(len(units))
    halved, told, times = np.array([True]), np.array([rows]), np.array([1])
    for _ in range(depth):
        column = (high - low).argmax(axis=1)
        cut = np.take_along_axis((low + high) / 2, column[:, None], axis=1)[:, 0]
        first = np.cumsum(1 + halved) - 1 - halved
        place = first[place] + (halved[place] & (units[every, column[place]] > cut[place]))
        parent = np.repeat(np.arange(len(low)), 1 + halved)
        fresh, lower, upper = halved[parent], first[halved], first[halved] + 1
        low, high = low[parent], high[parent]
        high[lower, column[halved]] = low[upper, column[halved]] = cut[halved]
        counts = np.bincount(place, minlength=len(parent)).astype(np.int64)
        released = budget.laplace_counts if budget.pure else budget.gaussian_counts
        seen = released(counts, reach=_reach(pure=budget.pure), share=each).value
        mending = (told[halved] - seen[lower] - seen[upper]) / 4
        seen[lower] += mending
        seen[upper] += mending
        times = np.where(fresh, 1, times[parent] + 1)
        told = np.where(fresh, seen, told[parent] + (seen - told[parent]) / times)
        halved = fresh & (told >= _STANDS_OUT * noise)
    there = told > _SEEN * noise / np.sqrt(times)
    return Density(((low + high) / 2)[there], told[there])


def centres_of(density: Density, clusters: int, draws: Floats) -> Floats | None:
    """Weighted k-means on a density: the best of as many starts as `draws` (numbers from 0 to 1, one for each cluster)
    has lines, each as k-means++ has it. None where fewer places than clusters stand out."""
    points, weights = density.middles, density.counts
    if len(points) < clusters:
        return None
    best, least = None, math.inf
    for draw in draws:
        centres = _spread_out(points, weights, draw)
        for _ in range(_ROUNDS):
            own = _squares(points, centres).argmin(axis=1)
            mass = np.bincount(own, weights, minlength=clusters)
            sums = [np.bincount(own, weights * column, minlength=clusters) for column in points.T]
            moved = np.where(mass[:, None] > 0, np.column_stack(sums) / np.maximum(mass, 1e-300)[:, None], centres)
            if np.array_equal(moved, centres):
                break
            centres = moved
        cost = float(_squares(points, centres).min(axis=1) @ weights)
        if cost < least:
            best, least = centres, cost
    return best


def draws_for(clusters: int, budget: FitBudget) -> Floats:
    """Draw what `centres_of` needs."""
    return budget.randomness.below(2**30, _STARTS * clusters).reshape(_STARTS, clusters) / 2**30


def _spread_out(points: Floats, weights: Floats, draw: Floats) -> Floats:
    """Points, each chosen with a chance that grows with its weight and its squared distance to those before."""
    chosen: list[int] = []
    away = np.ones(len(points))
    for place in draw:
        total = np.cumsum(weights * away)
        chosen.append(min(int(np.searchsorted(total, place * total[-1], side="right")), len(points) - 1))
        nearer = ((points - points[chosen[-1]]) ** 2).sum(axis=1)
        away = nearer if len(chosen) == 1 else np.minimum(away, nearer)
    return points[chosen]


def _squares(points: Floats, centres: Floats) -> Floats:
    return np.asarray(((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2))


def _reach(*, pure: bool) -> Reach:
    """One count by 1, or two: L1 for Laplace, L2 for Gaussian."""
    return Reach(1, 2) if pure else Reach(1, math.sqrt(2))


def _noise(depth: int, budget: FitBudget, share: Fraction) -> float:
    """The deviation of a count where so many levels are counted."""
    reach, each = _reach(pure=budget.pure), share / depth
    return math.sqrt(2) * budget.laplace_scale(reach, each) if budget.pure else budget.gaussian_scale(reach, each)


def _depth(rows: float, budget: FitBudget, share: Fraction) -> int:
    """Return how many levels it takes until rows that are spread evenly just stand out in the last."""
    deeper = range(_SHALLOWEST + 1, _DEEPEST + 1)
    standing = (depth for depth in deeper if rows / 2**depth >= _STANDS_OUT * _noise(depth, budget, share))
    return max(standing, default=_SHALLOWEST)
