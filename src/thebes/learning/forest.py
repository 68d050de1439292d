"""Forests of random trees: each leaf says what its rows were, through noise.

All privacy is in the table of leaf counts (`trees.grown`); everything after is post-processing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from thebes.learning.arguments import one_of, whole
from thebes.learning.budget import FitBudget, Floats, Integers
from thebes.learning.estimator import PrivateClassifier, PrivateEstimator, PrivateRegressor
from thebes.learning.scaler import FARTHEST, Scaling
from thebes.learning.trees import DEEPEST, Forest, Growth, grown, importances_of, leaves_of, shares_of
from thebes.privacy.faults import Mistake

#: Steps to which a target is rounded between its lowest and its highest place.
_STEPS = 2**10


class _RandomForest(PrivateEstimator):
    """A forest: where it splits, and what that tells."""

    n_estimators: int | None
    max_depth: int | None
    features_: NDArray[np.int64]
    thresholds_: Floats
    importances_: Floats

    def _check_arguments(self, budget: FitBudget) -> None:
        if self.n_estimators is not None and whole("n_estimators", self.n_estimators) > 1000:
            raise Mistake("n_estimators", "must be at most 1000")
        if self.max_depth is not None and whole("max_depth", self.max_depth) > 2 * DEEPEST:
            raise Mistake("max_depth", f"must be at most {2 * DEEPEST}")

    def _kept(self, forest: Forest, width: int) -> None:
        self.features_, self.thresholds_ = forest.features, forest.thresholds
        self.importances_ = importances_of(forest.counts, forest.features, width)

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
            "leaves_": (trees, inner + 1),
            "importances_": (self.n_features_in_,),
        }
        return {**super()._shapes(), **own}

    @property
    def feature_importances_(self) -> Floats:
        """The part of each column in what splits tell of the target, by the released counts alone. Noise parts rows a
        little, too, so that a column that tells nothing has a small part."""
        check_is_fitted(self)
        if not self.importances_.any():
            raise Mistake("model", "tells no importances: it was released before they were kept, or all of it is noise")
        return self.importances_


class RandomForestClassifier(PrivateClassifier, _RandomForest):
    """A forest of random trees: pure with delta 0 (Laplace), else the less noisy of Laplace and Gaussian counts.

    `rows`: every tree sees all rows ("shared": a row is in one leaf of each tree, costs add), or trees see disjoint
    random parts ("disjoint": a row is in one leaf of one tree), or "auto" for the less expected error. With T trees a
    leaf's noise is T (Laplace) or sqrt T (Gaussian) times larger when shared, its counts T times larger: shared is
    never worse, so it wins ties. `n_estimators` and `max_depth`: None = from the public or released number of rows and
    the noise: 20 trees, or 5 where 20 would be very shallow.

    Proof: the count table changes in one leaf per tree when a row comes or goes, in two when it is replaced; see
    `trees.grown`.
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
        n_estimators: int | None = None,
        max_depth: int | None = None,
        rows: str = "auto",
        quality: bool | str = False,
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
        super()._check_arguments(budget)
        one_of("rows", self.rows, ("auto", "shared", "disjoint"))

    def _learn(
        self, units: Floats, labels: NDArray[np.int64], budget: FitBudget
    ) -> tuple[str, tuple[str, ...], dict[str, Any]]:
        growth, classes = Growth(self.n_estimators, self.max_depth, self.rows), np.arange(len(self.classes_))
        forest = grown(
            growth,
            units,
            lambda _: (labels[:, None] == classes).astype(np.int64),
            budget,
            inputs=units.shape[1],
            steps=1,
        )
        self._kept(forest, units.shape[1])
        overall = np.maximum(forest.counts.sum(axis=(0, 1)), 0) + 1e-9
        overall = np.maximum(overall / overall.sum(), 1e-3)
        self.leaves_ = shares_of(forest.counts, forest.noise, overall / overall.sum())
        return "noisy leaves, " + ("laplace" if budget.pure else "gaussian"), (), dict(forest.told)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        shapes = super()._shapes()
        return {**shapes, "leaves_": (*shapes["leaves_"], len(self.classes_))}

    def _of_earlier(self) -> dict[str, Any]:
        """Return that no importances were kept with models before there were any."""
        return {"importances_": np.zeros(self.n_features_in_)}

    def _log_odds(self, units: Floats) -> Floats:
        leaf = leaves_of(units, self.features_, self.thresholds_)
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
        quality: bool | str = False,
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


class RandomForestRegressor(PrivateRegressor, _RandomForest):
    """A forest of random trees that predicts a number: pure with delta 0 (Laplace), else the less noisy of both.

    A row is between the lowest and the highest place that targets usually have (`FARTHEST` released spreads from
    the centre, or the bounds), and counts in its leaf as so much high and so much low; a leaf says the share that is
    high. So it is a classifier of two classes whose labels are shares, its noise and its proof (`trees.grown`) are
    that one's, and the number of rows costs nothing beside the sum of their targets. `n_estimators` and `max_depth`:
    None = as the classifier has it.
    """

    _numbers = ("target_range_", "features_", "thresholds_", "leaves_", "importances_")

    def __init__(
        self,
        *,
        epsilon: Any,
        adjacency: Any,
        delta: Any = 0.0,
        bounds: Any = None,
        n_estimators: int | None = None,
        max_depth: int | None = None,
        quality: bool | str = False,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.adjacency = adjacency
        self.delta = delta
        self.bounds = bounds
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.quality = quality
        self.random_state = random_state

    def _learn(self, units: Floats, target: Floats, budget: FitBudget) -> tuple[str, tuple[str, ...], dict[str, Any]]:
        def cells(scaling: Scaling) -> Integers:
            low, high = _ends(scaling)
            place = (np.clip(target[:, 0], low, high) - low) / (high - low)
            above = np.rint(place * _STEPS).astype(np.int64)
            return np.column_stack([above, _STEPS - above])

        columns = np.hstack([units, target])
        growth = Growth(self.n_estimators, self.max_depth)
        forest = grown(growth, columns, cells, budget, inputs=units.shape[1], steps=_STEPS)
        self._kept(forest, units.shape[1])
        low, high = _ends(forest.scaling)
        middle = np.full(2, 0.5)
        self.leaves_ = low + shares_of(forest.counts, forest.noise, middle)[:, :, 0] * (high - low)
        return "noisy leaves, " + ("laplace" if budget.pure else "gaussian"), (), dict(forest.told)

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        return {**super()._shapes(), "target_range_": (2,)}

    def _said(self, units: Floats) -> Floats:
        leaf = leaves_of(units, self.features_, self.thresholds_)
        return np.asarray(self.leaves_[np.arange(len(self.leaves_))[None, :], leaf].mean(axis=1))


def _ends(scaling: Scaling) -> tuple[float, float]:
    """The lowest and the highest place of a target, which is the last column."""
    centre, room = float(scaling.centre[-1]), FARTHEST * float(scaling.spread[-1])
    return max(-1.0, centre - room), min(1.0, centre + room)
