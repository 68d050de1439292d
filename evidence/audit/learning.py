"""Estimators: what somebody who sees every released number of a model can tell about one row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from thebes import learning
from thebes.learning import moments, network, odds
from thebes.learning.budget import FitBudget
from thebes.learning.features import Categories, Features, Range
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness, system
from thebes.privacy.stability import Change
from thebes.tasks.audit.case import Audited, repeatedly

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE_ONE
BOX: dict[Any, tuple[float, float]] = {0: (-1.0, 1.0), 1: (-1.0, 1.0)}
WITH_TARGET: dict[Any, tuple[float, float]] = {**BOX, "y": (-1.0, 1.0)}

#: A few rows about the middle; the last one sits in the farthest corner of the box, or in the opposite one, or is gone.
MIDDLE = np.array([[0.5, -0.5], [-0.5, 0.5], [0.5, 0.5], [-0.5, -0.5]])
LABELS = np.array([0, 1, 0, 1])
CORNER = np.array([[1.0, 1.0]])
_CROWD = 600
PLACES = np.array([[1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]])


#: Fits once with the given noise, and returns every number that is released.
Fit = Callable[[Randomness], np.ndarray]


@dataclass(frozen=True, slots=True)
class Fitted:
    """One estimator, fitted on two neighbours."""

    name: str
    delta: float
    adjacency: Adjacency
    here: Fit
    there: Fit
    draws: int


def cases(*, epsilon: float = 1.0) -> list[Audited]:
    """All of this room, fitted with `epsilon`, which is also the claim."""
    return [attacked(each, epsilon) for each in fitted(epsilon=epsilon)]


def attacked(each: Fitted, epsilon: float) -> Audited:
    """Return the case of an estimator that claims `epsilon`."""
    here, there = (repeatedly(partial(fit, system())) for fit in (each.here, each.there))
    return Audited(each.name, epsilon, each.delta, each.adjacency, here, there, draws=each.draws)


def fitted(*, epsilon: float = 1.0) -> list[Fitted]:
    """Every estimator, on neighbours that are hard to hide."""
    classes = {"bounds": BOX, "classes": [0, 1]}
    made: list[tuple[str, Callable[..., Any], dict[str, Any], tuple[str, ...], int]] = [
        ("Gaussian naive Bayes", learning.GaussianNB, classes, ("means_", "variances_", "class_prior_"), 800),
        (
            "Gaussian naive Bayes with delta",
            learning.GaussianNB,
            {**classes, "delta": 1e-2},
            ("means_", "variances_", "class_prior_"),
            800,
        ),
        ("decision tree", learning.DecisionTreeClassifier, classes, (), 800),
        (
            "random forest",
            learning.RandomForestClassifier,
            {**classes, "n_estimators": 2},
            (),
            600,
        ),
        (
            "random forest of numbers",
            learning.RandomForestRegressor,
            {"bounds": WITH_TARGET, "n_estimators": 2},
            (),
            600,
        ),
        (
            "logistic regression",
            learning.LogisticRegression,
            {**classes, "delta": 1e-2, "steps": 4},
            ("weights_",),
            500,
        ),
        (
            "linear regression, moments",
            learning.LinearRegression,
            {"bounds": WITH_TARGET, "delta": 1e-2, "method": "moments"},
            ("weights_",),
            500,
        ),
        (
            "linear regression, descent",
            learning.LinearRegression,
            {"bounds": WITH_TARGET, "delta": 1e-2, "method": "descent", "steps": 4},
            ("weights_",),
            500,
        ),
        ("ridge", learning.Ridge, {"bounds": WITH_TARGET, "delta": 1e-2, "steps": 4}, ("weights_",), 500),
        ("k-means", learning.KMeans, {"bounds": BOX, "n_clusters": 1, "steps": 1}, ("centres_",), 800),
        ("standard scaler", learning.StandardScaler, {"bounds": BOX}, ("centre_", "spread_"), 800),
        ("principal components", learning.PCA, {"bounds": BOX, "delta": 1e-2}, ("explained_variance_",), 500),
        ("k-means from bought starts", learning.KMeans, {"bounds": BOX, "n_clusters": 2}, ("centres_",), 800),
        (
            "bounds estimated",
            learning.GaussianNB,
            {"bounds": "estimate", "classes": [0, 1]},
            ("low_", "high_", "means_"),
            400,
        ),
    ]
    estimators = [
        Fitted(
            name,
            options.get("delta", 0.0),
            adjacency,
            *_fits(kind, {"epsilon": epsilon, **options}, seen, adjacency),
            draws,
        )
        for name, kind, options, seen, draws in made
        for adjacency in (REPLACE, ADD)
    ]
    return [
        *estimators,
        *(_bought_classes(epsilon, adjacency) for adjacency in (REPLACE, ADD)),
        *(_tested_by_order(epsilon, adjacency) for adjacency in (REPLACE, ADD)),
        *_over_batches(epsilon),
    ]


#: One category that only the row in question has, and its target is at the far end.
_COLUMNS = Features([Categories("kind", (0, 1, 2)), Range("size", -1.0, 1.0)])
_ROWS = np.array([[0, 0.5], [1, -0.5], [0, 0.2], [1, -0.1], [2, 1.0]])
_TARGETS, _CLASSES = np.array([0.1, -0.2, 0.0, 0.2, 1.0]), np.array([0.0, 1.0, 0.0, 1.0, 1.0])
_DELTA = 1e-2
_EACH_ITS_OWN = np.arange(len(_ROWS))


def _over_batches(epsilon: float) -> list[Fitted]:
    """Fit what pipelines train with: rows come in batches, and their number is private."""
    size = 5.0

    def squares(count: int) -> Fit:
        def fit(randomness: Randomness) -> np.ndarray:
            budget = FitBudget(epsilon=epsilon, delta=_DELTA, adjacency=ADD, randomness=randomness)
            batch = _COLUMNS.of(_ROWS[:count]), _TARGETS[:count]
            model = moments.fitted(_COLUMNS, (-1.0, 1.0), lambda: [batch], count=size, budget=budget)
            return np.append(model.weights, model.intercept)

        return fit

    def told_apart(count: int) -> Fit:
        def fit(randomness: Randomness) -> np.ndarray:
            budget = FitBudget(epsilon=epsilon, delta=_DELTA, adjacency=ADD, randomness=randomness)
            batch = _ROWS[:count], _CLASSES[:count]
            model = odds.fitted(_COLUMNS, [batch], count=size, budget=budget, steps=3)
            return np.concatenate([*model.tables, model.weights, [model.intercept]])

        return fit

    def trained(count: int, people: np.ndarray = _EACH_ITS_OWN) -> Fit:
        def fit(randomness: Randomness) -> np.ndarray:
            model = network.fitted(
                _COLUMNS,
                [(_ROWS[:count], _TARGETS[:count], people[:count])],
                ends=(-1.0, 1.0),
                layers=(1,),
                sampling=network.Sampling.of(epsilon, _DELTA, steps=2, rate=0.5),
                count=size,
                change=Change(ADD),
                randomness=randomness,
            )
            return model.predict(_ROWS)

        return fit

    made = (("least squares over batches", squares, 800), ("odds by categories", told_apart, 600),
            ("network by sampled descent", trained, 200))  # fmt: skip
    several = np.array([0, 1, 2, 3, 3])  # whoever comes or goes has two rows, all others one
    return [
        *(Fitted(name, _DELTA, ADD, fit(5), fit(4), draws) for name, fit, draws in made),
        Fitted("network over units of several rows", _DELTA, ADD, trained(5, several), trained(3), 100),
    ]


def _tested_by_order(epsilon: float, adjacency: Adjacency) -> Fitted:
    """A model is tested by the order of its scores: the row in question is the only one whose order is wrong."""
    model = learning.GaussianNB(
        epsilon=8, adjacency=str(adjacency), bounds=BOX, classes=[0, 1], random_state=1
    ).fit(np.vstack([PLACES[:1], PLACES[1:2]] * 20), [1, 0] * 20)  # fmt: skip
    rows, labels = np.vstack([-CORNER, -CORNER, CORNER]), np.array([0, 0, 1])

    def tested(rows: np.ndarray, labels: np.ndarray) -> Fit:
        def test(randomness: Randomness) -> np.ndarray:
            found = model.tested(
                rows, labels, epsilon=epsilon, adjacency=str(adjacency), randomness=randomness, metric="auc"
            )
            return np.array([found.value, found.interval.low, found.interval.high, found.people])

        return test

    without = tested(np.vstack([rows, CORNER]), np.append(labels, 1)) if adjacency is REPLACE else tested(rows, labels)
    worst = tested(np.vstack([rows, CORNER]), np.append(labels, 0))
    return Fitted("what a model is worth by the order of its scores", 0.0, adjacency, worst, without, 600)


def taken_classes() -> Fitted:
    """Return what nobody may do: declare the classes that the rows have."""
    return replace(_bought_classes(1.0, ADD, taken=True), name="classes taken from the data")


def _bought_classes(epsilon: float, adjacency: Adjacency, *, taken: bool = False) -> Fitted:
    """One row has a label that nobody else has; or it has another's, or is gone."""
    crowd = np.tile(MIDDLE, (_CROWD // 4, 1)), np.tile(LABELS, _CROWD // 4)

    def fitted(label: int | None) -> Fit:
        rows, labels = crowd if label is None else (np.vstack([crowd[0], CORNER]), np.append(crowd[1], label))

        def fit(randomness: Randomness) -> np.ndarray:
            model = learning.GaussianNB(
                epsilon=epsilon, delta=_DELTA, adjacency=str(adjacency), bounds=BOX,
                classes=np.unique(labels).tolist() if taken else "estimate", random_state=randomness,
            )  # fmt: skip
            try:
                model.fit(rows, labels)
            except Mistake:
                return np.full(6, -1e3)
            found = np.array([each in model.classes_ for each in (0, 1, 2)], dtype=np.float64)
            return np.append(found, model.predict_proba(PLACES)[:, 0])

        return fit

    other = 0 if adjacency is REPLACE else None
    return Fitted("classes bought", _DELTA, adjacency, fitted(2), fitted(other), 400)


def _fits(
    kind: Callable[..., Any], options: dict[str, Any], seen: tuple[str, ...], adjacency: Adjacency
) -> tuple[Fit, Fit]:
    with_corner = np.vstack([MIDDLE, CORNER]), np.append(LABELS, 1)
    other = (np.vstack([MIDDLE, -CORNER]), np.append(LABELS, 0)) if adjacency is REPLACE else (MIDDLE, LABELS)

    if options["bounds"] == "estimate":  # so many more rows that the range can just be seen
        crowd = np.full((_CROWD, 2), 0.9), np.zeros(_CROWD, dtype=np.int64)
        with_corner, other = (
            (np.vstack([crowd[0], rows]), np.append(crowd[1], labels)) for rows, labels in (with_corner, other)
        )
    width = sum({"low_": 2, "high_": 2, "means_": 4}.get(name, 0) for name in seen)

    def fitted(rows: tuple[np.ndarray, np.ndarray]) -> Fit:
        def fit(randomness: Randomness) -> np.ndarray:
            model = kind(adjacency=str(adjacency), random_state=randomness, **options)
            try:
                model.fit(*rows)
            except Mistake:  # "no range could be seen" is an outcome too: it is paid for like any other
                return np.full(width, -1e3)
            # A forest has no fixed number of leaves; what it says at both corners and in the middle has.
            numbers = [getattr(model, name) for name in seen]
            if not seen:
                shares = hasattr(model, "classes_")
                numbers = [model.predict_proba(PLACES)[:, 1] if shares else model.predict(PLACES)]
            return np.concatenate([np.ravel(released).astype(np.float64) for released in numbers])

        return fit

    return fitted(with_corner), fitted(other)
