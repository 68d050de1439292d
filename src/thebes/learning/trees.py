"""Trees whose splits never look at a row, and what their noisy leaves tell.

Must stay true: splits follow from released and public numbers and from chance; all that rows decide is in one table of
whole counts, in which a row is in one leaf of each tree that it feeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from thebes.learning.budget import FitBudget, Floats, Integers, Reach
from thebes.learning.scaler import Scaling, doubt_of_scaling, learned_scaling
from thebes.privacy.randomness import Randomness

#: Thresholds are drawn within this many released spreads of a column's released centre.
_WINDOW = 1.5
#: Trees grow while the forest sees at least this many noise deviations (and rows) in an average leaf.
_LEAF_NOISES, _LEAF_ROWS = 4.0, 5.0
DEEPEST = 10
#: How many trees there are where nobody says: few ones, where many would be shallower than `_DEEP`.
MANY, _FEW, _DEEP = 20, 5, 4
COUNT_SHARE = Fraction(1, 50)
_SCALING_SHARE = Fraction(1, 4)
#: Centres are not bought where noise would leave them known to no more than this, bounds lying at -1 and 1.
_BLURRED = 0.35


@dataclass(frozen=True, slots=True)
class Forest:
    """Grown trees: of each inner node its column and threshold, of each leaf noisy `counts` of rows by cell, with a
    deviation of `noise`. `scaling` is what the splits were drawn within, of further columns as well."""

    features: NDArray[np.int64]
    thresholds: Floats
    counts: Floats
    noise: float
    scaling: Scaling
    shared: bool

    @property
    def told(self) -> dict[str, object]:
        """Say on a certificate how the forest grew."""
        return {
            "trees": len(self.features),
            "depth": (self.features.shape[1] + 1).bit_length() - 1,
            "rows": "shared" if self.shared else "disjoint",
        }


@dataclass(frozen=True, slots=True)
class Growth:
    """The way in which a forest grows: all of it public. `trees` and `depth`: None = by the rules of `grown`."""

    trees: int | None
    depth: int | None
    rows: str = "shared"

    def prepared(self, budget: FitBudget) -> bool:
        """Return whether trees share rows, and turn to the less noisy mechanism before anything is bought."""
        trees, share = self.trees or MANY, 1 - _SCALING_SHARE
        shared = self.rows == "shared" or (self.rows == "auto" and not _disjoint_is_better(trees, budget, share))
        if not _gaussian_is_better(trees if shared else 1, budget, share):
            budget.use_pure()
        return shared


def grown(
    growth: Growth, columns: Floats, cells: Callable[[Scaling], Integers], budget: FitBudget, *, inputs: int, steps: int
) -> Forest:
    """Draw trees over the first `inputs` of `columns`, and buy how much of which cell is in each leaf: each row counts
    `steps` there, in the whole parts that `cells` says once columns are scaled.

    Centre and spread of columns are bought with a quarter of the budget, unless noise leaves them known to no better
    than `_BLURRED`; thresholds then lie anywhere in the bounds. There are `MANY` trees, or `_FEW` where many could not
    be `_DEEP`. Both follow from public or released numbers.

    Proof: a row's parts are whole, not negative and add up to `steps`, in one leaf of each tree that it feeds. So in L1
    a row adds `steps` to a tree, and two rows are at most twice that apart; in L2 a row adds at most `steps`, and two
    are at most sqrt 2 times that apart, in one leaf or in two. What tree a row feeds, and every split, is drawn without
    looking at the rows or from released numbers.
    """
    shared = growth.prepared(budget)
    count = budget.row_count(len(columns), COUNT_SHARE)
    rest = Fraction(1) if budget.counts_are_public else 1 - COUNT_SHARE
    width = columns.shape[1]
    share = rest * (1 - _SCALING_SHARE)
    if doubt_of_scaling(width, budget, rest * _SCALING_SHARE) <= _BLURRED * count:
        scaling = learned_scaling(columns, count, budget, rest * _SCALING_SHARE)
    else:
        scaling, share = Scaling(np.zeros(width), np.ones(width)), rest
    trees, noise, depth = _sized(growth, shared, count, budget, share)
    narrowed = Scaling(scaling.centre[:inputs], scaling.spread[:inputs])
    features, thresholds = _splits(narrowed, trees, depth, budget.randomness)
    leaf = leaves_of(columns[:, :inputs], features, thresholds)
    own = None if shared else budget.randomness.below(trees, len(columns))
    counts = _counted(leaf, cells(scaling), own, 2**depth)
    per = reach_of(trees if shared else 1, pure=budget.pure)
    released = (budget.laplace_counts if budget.pure else budget.gaussian_counts)(
        counts.reshape(-1), reach=Reach(per.length * steps, per.distance * steps), share=share
    )
    return Forest(features, thresholds, released.value.reshape(counts.shape) / steps, noise, scaling, shared)


def _sized(growth: Growth, shared: bool, count: float, budget: FitBudget, share: Fraction) -> tuple[int, float, int]:
    """(trees, deviation of the noise on a leaf's count, depth)."""

    def of(trees: int) -> tuple[int, float, int]:
        reach = reach_of(trees if shared else 1, pure=budget.pure)
        noise = (
            math.sqrt(2) * budget.laplace_scale(reach, share) if budget.pure else budget.gaussian_scale(reach, share)
        )
        return trees, noise, growth.depth or _depth(count if shared else count / trees, trees, noise)

    if growth.trees is not None:
        return of(growth.trees)
    many = of(MANY)
    return many if many[2] >= _DEEP else of(_FEW)


def _counted(leaf: Integers, cells: Integers, own: Integers | None, leaves: int) -> Integers:
    """Add up cells by tree and leaf. Of whole numbers so small any order of a sum is exact in floats."""
    trees = leaf.shape[1]
    counts = np.zeros((trees, leaves, cells.shape[1]), dtype=np.int64)
    for tree in range(trees):
        seen = slice(None) if own is None else own == tree
        for cell in range(cells.shape[1]):
            found = np.bincount(leaf[seen, tree], weights=cells[seen, cell], minlength=leaves)
            counts[tree, :, cell] = found.astype(np.int64)
    return counts


def reach_of(trees: int, *, pure: bool) -> Reach:
    """A row adds 1 to one leaf count in each of `trees` trees: L1 for Laplace, L2 for Gaussian."""
    return Reach(trees, 2 * trees) if pure else Reach(math.sqrt(trees), math.sqrt(2 * trees))


def _deviation(trees: int, budget: FitBudget, share: Fraction) -> float:
    laplace = math.sqrt(2) * budget.laplace_scale(reach_of(trees, pure=True), share)
    return laplace if budget.pure else min(laplace, budget.gaussian_scale(reach_of(trees, pure=False), share))


def _gaussian_is_better(trees: int, budget: FitBudget, share: Fraction) -> bool:
    laplace = math.sqrt(2) * budget.laplace_scale(reach_of(trees, pure=True), share)
    return not budget.pure and budget.gaussian_scale(reach_of(trees, pure=False), share) < laplace


def _disjoint_is_better(trees: int, budget: FitBudget, share: Fraction) -> bool:
    # Counts are `trees` times smaller in disjoint parts; equality up to rounding is a tie.
    return trees * _deviation(1, budget, share) < _deviation(trees, budget, share) * (1 - 1e-6)


def _depth(seen: float, trees: int, noise: float) -> int:
    leaves = min(seen * math.sqrt(trees) / (_LEAF_NOISES * noise), seen / _LEAF_ROWS)
    return min(max(1, math.floor(math.log2(max(leaves, 1)))), DEEPEST)


def _splits(scaling: Scaling, trees: int, depth: int, randomness: Randomness) -> tuple[NDArray[np.int64], Floats]:
    """Complete trees, root first: node j has children 2j+1 and 2j+2. Each threshold lies inside its node's cell."""
    width, inner = len(scaling.centre), 2**depth - 1
    features = randomness.below(width, trees * inner).reshape(trees, inner)
    places = 0.1 + 0.8 * randomness.below(2**30, trees * inner).reshape(trees, inner) / 2**30
    thresholds = np.empty((trees, inner))
    low = np.tile(np.clip(scaling.centre - _WINDOW * scaling.spread, -1, 1), (trees, 2 * inner + 1, 1))
    high = np.tile(np.clip(scaling.centre + _WINDOW * scaling.spread, -1, 1), (trees, 2 * inner + 1, 1))
    every = np.arange(trees)
    for node in range(inner):
        column = features[:, node]
        below, above = low[every, node, column], high[every, node, column]
        thresholds[:, node] = below + (above - below) * places[:, node]
        for child in (2 * node + 1, 2 * node + 2):
            low[:, child], high[:, child] = low[:, node], high[:, node]
        high[every, 2 * node + 1, column] = low[every, 2 * node + 2, column] = thresholds[:, node]
    return features, thresholds


def leaves_of(units: Floats, features: NDArray[np.int64], thresholds: Floats) -> NDArray[np.int64]:
    """The leaf number of each row in each tree."""
    trees, inner = features.shape
    node = np.zeros((len(units), trees), dtype=np.int64)
    every, rows = np.arange(trees)[None, :], np.arange(len(units))[:, None]
    for _ in range(inner.bit_length()):  # one level after the other, also where there is no row
        node = 2 * node + 1 + (units[rows, features[every, node]] > thresholds[every, node])
    return np.asarray(node - inner)


def importances_of(counts: Floats, features: NDArray[np.int64], width: int) -> Floats:
    """Add up how far splits at each column lower the Gini impurity of the noisy counts, as shares of all of it."""
    found = np.zeros(width)
    below = np.maximum(counts, 0.0)
    for level in range(int(math.log2(counts.shape[1])) - 1, -1, -1):
        split = features[:, 2**level - 1 : 2 ** (level + 1) - 1]
        above = below[:, 0::2] + below[:, 1::2]
        gained = _impurity(above) - _impurity(below[:, 0::2]) - _impurity(below[:, 1::2])
        np.add.at(found, split, np.maximum(gained, 0.0))
        below = above
    total = float(found.sum())
    return found / total if total > 0 else found


def _impurity(counts: Floats) -> Floats:
    """Gini's impurity of each node times the rows in it."""
    rows = counts.sum(axis=-1)
    return np.asarray(rows - (counts**2).sum(axis=-1) / np.maximum(rows, 1e-300))


def shares_of(counts: Floats, noise: float, overall: Floats) -> Floats:
    """The share of each cell in each leaf: from the root down, a node's counts and its parent's shares, which count as
    many rows as one deviation of the node's noise. The root's parent says `overall`."""
    levels = [counts]
    while levels[-1].shape[1] > 1:
        levels.append(levels[-1][:, 0::2] + levels[-1][:, 1::2])
    shares = np.tile(overall, (len(counts), 1, 1))
    for below in range(len(levels) - 1, -1, -1):
        shares = shares if below == len(levels) - 1 else np.repeat(shares, 2, axis=1)
        pulled = np.maximum(levels[below], 0.0) + (noise * math.sqrt(2**below) + 1) * shares
        shares = pulled / pulled.sum(axis=-1, keepdims=True)
    return np.asarray(shares)
