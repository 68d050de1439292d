"""Trees whose splits never look at a row: random columns and thresholds over public or released ranges, noisy leaves.

All privacy is in one release, the table of leaf counts; everything after is post-processing.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from thebes.learning.arguments import one_of, whole
from thebes.learning.budget import FitBudget, Floats, Noisy, Reach
from thebes.learning.estimator import PrivateClassifier
from thebes.learning.scaler import Scaling, learned_scaling
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import Randomness

_COUNT_SHARE = Fraction(1, 50)
_SCALING_SHARE = Fraction(1, 4)
#: Thresholds are drawn within this many released spreads of a column's released centre.
_WINDOW = 1.5
#: Trees grow while the forest sees at least this many noise deviations (and rows) in an average leaf.
_LEAF_NOISES, _LEAF_ROWS = 4.0, 5.0
_DEEPEST = 10


class RandomForestClassifier(PrivateClassifier):
    """A forest of random trees: pure with delta 0 (Laplace), else the less noisy of Laplace and Gaussian counts.

    `rows`: every tree sees all rows ("shared": a row is in one leaf of each tree, costs add), or trees see disjoint
    random parts ("disjoint": a row is in one leaf of one tree), or "auto" for the less expected error. With T trees a
    leaf's noise is T (Laplace) or sqrt T (Gaussian) times larger when shared, its counts T times larger: shared is
    never worse, so it wins ties. `max_depth`: None = from the public or released number of rows and the noise.

    Proof: the count table changes in one leaf per tree when a row comes or goes, in two when it is replaced;
    `_reach`. Which tree a row feeds, and every split, is drawn without looking at the rows or from released numbers.
    """

    _numbers = ("features_", "thresholds_", "leaves_", "importances_")

    def __init__(
        self,
        *,
        epsilon: Any,
        adjacency: Any,
        delta: Any = 0.0,
        bounds: Any = None,
        classes: Any = None,
        n_estimators: int = 20,
        max_depth: int | None = None,
        rows: str = "auto",
        quality: bool = False,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.adjacency = adjacency
        self.delta = delta
        self.bounds = bounds
        self.classes = classes
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.rows = rows
        self.quality = quality
        self.random_state = random_state

    def _check_arguments(self, budget: FitBudget) -> None:
        if whole("n_estimators", self.n_estimators) > 1000:
            raise Mistake("n_estimators", "must be at most 1000")
        if self.max_depth is not None and whole("max_depth", self.max_depth) > 2 * _DEEPEST:
            raise Mistake("max_depth", f"must be at most {2 * _DEEPEST}")
        one_of("rows", self.rows, ("auto", "shared", "disjoint"))

    def _learn(
        self, units: Floats, labels: NDArray[np.int64], budget: FitBudget
    ) -> tuple[str, tuple[str, ...], dict[str, Any]]:
        rest = Fraction(1)
        trees, share = self.n_estimators, 1 - _SCALING_SHARE
        shared = self.rows == "shared" or (self.rows == "auto" and not _disjoint_is_better(trees, budget, share))
        if not _gaussian_is_better(trees if shared else 1, budget, share):
            budget.use_pure()
        count = budget.row_count(len(units), _COUNT_SHARE)
        if not budget.counts_are_public:
            rest -= _COUNT_SHARE
        scaling = learned_scaling(units, count, budget, rest * _SCALING_SHARE)
        share = rest * (1 - _SCALING_SHARE)
        reach = _reach(trees if shared else 1, pure=budget.pure)
        noise = (
            math.sqrt(2) * budget.laplace_scale(reach, share) if budget.pure else budget.gaussian_scale(reach, share)
        )
        seen = count if shared else count / trees
        depth = self.max_depth or _depth(seen, trees, noise)

        self.features_, self.thresholds_ = _splits(scaling, trees, depth, budget.randomness)
        leaf = _leaves_of(units, self.features_, self.thresholds_)
        counts = np.zeros((trees, 2**depth, len(self.classes_)), dtype=np.int64)
        if shared:
            np.add.at(counts, (np.arange(trees)[None, :], leaf, labels[:, None]), 1)
        else:
            own = budget.randomness.below(trees, len(units))
            np.add.at(counts, (own, leaf[np.arange(len(units)), own], labels), 1)
        released: Noisy = (budget.laplace_counts if budget.pure else budget.gaussian_counts)(
            counts.reshape(-1), reach=reach, share=share
        )
        leaves = released.value.reshape(counts.shape)
        self.leaves_ = _shares(leaves, noise)
        self.importances_ = _importances(leaves, self.features_, units.shape[1])
        mechanism = "noisy leaves, " + ("laplace" if budget.pure else "gaussian")
        return mechanism, (), {"trees": trees, "depth": depth, "rows": "shared" if shared else "disjoint"}

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        trees, inner = np.shape(self.features_) if np.ndim(self.features_) == 2 else (0, 0)
        if trees < 1 or (inner + 1) & inner or inner < 1:
            raise Mistake("model", "features_ must hold complete trees")
        if not (np.issubdtype(self.features_.dtype, np.integer) and self.features_.min() >= 0):
            raise Mistake("model", "features_ must hold column numbers")
        if self.features_.max() >= self.n_features_in_:
            raise Mistake("model", "features_ must hold column numbers")
        own = {
            "features_": (trees, inner),
            "thresholds_": (trees, inner),
            "leaves_": (trees, inner + 1, len(self.classes_)),
            "importances_": (self.n_features_in_,),
        }
        return {**super()._shapes(), **own}

    def _of_earlier(self) -> dict[str, Any]:
        """Return that no importances were kept with models before there were any."""
        return {"importances_": np.zeros(self.n_features_in_)}

    @property
    def feature_importances_(self) -> Floats:
        """The part of each column in what splits tell of the classes, by the released counts alone. Noise parts classes
        a little, too, so that a column that tells nothing has a small part."""
        check_is_fitted(self)
        if not self.importances_.any():
            raise Mistake("model", "tells no importances: it was released before they were kept, or all of it is noise")
        return self.importances_

    def _log_odds(self, units: Floats) -> Floats:
        leaf = _leaves_of(units, self.features_, self.thresholds_)
        votes = self.leaves_[np.arange(len(self.leaves_))[None, :], leaf].mean(axis=1)
        return np.asarray(np.log(votes))


class DecisionTreeClassifier(RandomForestClassifier):
    """One random tree with noisy leaves: the forest's mechanism with a single tree, for a model people can read."""

    def __init__(
        self,
        *,
        epsilon: Any,
        adjacency: Any,
        delta: Any = 0.0,
        bounds: Any = None,
        classes: Any = None,
        max_depth: int | None = None,
        quality: bool = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            adjacency=adjacency,
            delta=delta,
            bounds=bounds,
            classes=classes,
            n_estimators=1,
            max_depth=max_depth,
            quality=quality,
            random_state=random_state,
        )


def _reach(trees: int, *, pure: bool) -> Reach:
    """A row adds 1 to one leaf count in each of `trees` trees: L1 for Laplace, L2 for Gaussian."""
    return Reach(trees, 2 * trees) if pure else Reach(math.sqrt(trees), math.sqrt(2 * trees))


def _deviation(trees: int, budget: FitBudget, share: Fraction) -> float:
    laplace = math.sqrt(2) * budget.laplace_scale(_reach(trees, pure=True), share)
    return laplace if budget.pure else min(laplace, budget.gaussian_scale(_reach(trees, pure=False), share))


def _gaussian_is_better(trees: int, budget: FitBudget, share: Fraction) -> bool:
    laplace = math.sqrt(2) * budget.laplace_scale(_reach(trees, pure=True), share)
    return not budget.pure and budget.gaussian_scale(_reach(trees, pure=False), share) < laplace


def _disjoint_is_better(trees: int, budget: FitBudget, share: Fraction) -> bool:
    # Counts are `trees` times smaller in disjoint parts; equality up to rounding is a tie.
    return trees * _deviation(1, budget, share) < _deviation(trees, budget, share) * (1 - 1e-6)


def _depth(seen: float, trees: int, noise: float) -> int:
    leaves = min(seen * math.sqrt(trees) / (_LEAF_NOISES * noise), seen / _LEAF_ROWS)
    return min(max(1, math.floor(math.log2(max(leaves, 1)))), _DEEPEST)


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


def _leaves_of(units: Floats, features: NDArray[np.int64], thresholds: Floats) -> NDArray[np.int64]:
    """The leaf number of each row in each tree."""
    trees, inner = features.shape
    node = np.zeros((len(units), trees), dtype=np.int64)
    every, rows = np.arange(trees)[None, :], np.arange(len(units))[:, None]
    for _ in range(inner.bit_length()):  # one level after the other, also where there is no row
        node = 2 * node + 1 + (units[rows, features[every, node]] > thresholds[every, node])
    return np.asarray(node - inner)


def _importances(counts: Floats, features: NDArray[np.int64], width: int) -> Floats:
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


def _shares(counts: Floats, noise: float) -> Floats:
    """Class shares per leaf, pulled toward the whole forest's shares by about one deviation of the noise."""
    overall = np.maximum(counts.sum(axis=(0, 1)), 0) + 1e-9
    overall = np.maximum(overall / overall.sum(), 1e-3)
    overall /= overall.sum()
    pull = noise + 1.0
    leaves = np.maximum(counts, 0.0) + pull * overall
    return np.asarray(leaves / leaves.sum(axis=-1, keepdims=True))
