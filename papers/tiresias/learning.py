"""Every model of tables 5.1 and 5.2, learned from one table, beside ordinary scikit-learn on the same folds."""

from __future__ import annotations

import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.datasets import Dataset
from papers.tiresias import asking
from papers.tiresias.asking import Predict
from thebes.simulation.world import simulate

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]
FOLDS = 5

BAYES, LOGISTIC, LINEAR = "integrated, naive Bayes", "integrated, logistic regression", "integrated, linear regression"
ROWS = "bounded, "
REGRESSION, FOREST, VECTORS = f"{ROWS}regression", f"{ROWS}random forest", f"{ROWS}support vectors"
PERCEPTRON, SHALLOW = "gradient, perceptron", "gradient, linear"
_INTEGRATED = {BAYES: "GaussianNB", LOGISTIC: "LogisticRegression", LINEAR: "LinearRegression"}
#: what a requestor fits to the rows of one bounded task
_FITTED = {REGRESSION: ("logistic", "linear"), FOREST: ("forest", "forest"), VECTORS: ("svm", "svm")}


@dataclass
class Scores:
    """By series, of one epsilon (or of none, without privacy): a mean over the folds for each seed; and how many
    seconds one training took."""

    by_seed: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def series_of(data: Dataset, *, quick: bool = False) -> tuple[str, ...]:
    """The models that the paper learns from it, and the linear one; quick: without those that take long."""
    integrated = (LINEAR,) if asking.is_number(data) else (BAYES, LOGISTIC)
    every = (REGRESSION, FOREST, VECTORS, *integrated, PERCEPTRON, SHALLOW)
    return tuple(series for series in every if not quick or series not in (FOREST, PERCEPTRON))


def private(data: Dataset, series: Sequence[str], epsilon: float, seeds: Sequence[int], *, folds: int) -> Scores:
    """Each model through its kind of task, for every seed over so many of five folds."""
    return _scored(data, seeds, folds, lambda train, seed: _learned(data, series, epsilon, train, seed))


def plain(data: Dataset, series: Sequence[str], seeds: Sequence[int], *, folds: int) -> Scores:
    """The same kinds of models from the same rows by scikit-learn, without privacy."""
    return _scored(data, seeds, folds, lambda train, seed: _ordinary(data, series, train))


def _scored(
    data: Dataset,
    seeds: Sequence[int],
    folds: int,
    learn: Callable[[NDArray[np.int64], int], Iterator[tuple[str, Predict, float]]],
) -> Scores:
    found = Scores()
    for seed in seeds:
        scores: dict[str, list[float]] = defaultdict(list)
        for number, (train, test) in enumerate(_split(data, seed)[:folds]):
            for series, predict, seconds in learn(train, 100 * seed + number):
                scores[series].append(_score(data, predict(data.X[test]), data.y[test]))
                found.seconds[series].append(seconds)
        for series, each in scores.items():
            found.by_seed[series].append(float(np.mean(each)))
    return found


def _split(data: Dataset, seed: int) -> list[Fold]:
    from sklearn.model_selection import KFold, StratifiedKFold

    folds = KFold if asking.is_number(data) else StratifiedKFold
    return list(folds(FOLDS, shuffle=True, random_state=seed).split(data.X, data.y))


def _score(data: Dataset, guess: NDArray[Any], truth: NDArray[Any]) -> float:
    """R2, or the share of right labels."""
    if asking.is_number(data):
        return float(1 - np.mean((guess - truth) ** 2) / np.var(truth))
    return float(np.mean(guess == truth))


# --- through the kinds ----------------------------------------------------------------------------------------


def _learned(
    data: Dataset, wanted: Sequence[str], epsilon: float, train: NDArray[np.int64], seed: int
) -> Iterator[tuple[str, Predict, float]]:
    """Every model, as a function of inputs, and the seconds until it was there."""
    inputs, target = data.X[train], data.y[train]
    seen = asking.table(data, inputs, target)
    number = asking.is_number(data)
    for series, model in _INTEGRATED.items():
        if series in wanted:
            release, seconds = _released(asking.integrated(data, epsilon, model), seen, seed)
            yield series, release.model.predict, seconds
    release, seconds = _released(asking.bounded(data, epsilon), seen, seed)
    for series, fits in _FITTED.items():
        if series not in wanted:
            continue
        began = time.perf_counter()
        fitted = release.fit(fits[number], output=asking.TARGET)
        yield series, fitted.predict, seconds + time.perf_counter() - began
    ends = asking.Ends(data)
    shown = asking.table(data, ends.inputs(inputs), ends.target(target) if number else target)
    for series in (one for one in (PERCEPTRON, SHALLOW) if one in wanted):
        release, seconds = _released(asking.gradient(data, epsilon, hidden=series == PERCEPTRON), shown, seed)
        yield series, _between(ends, release.model.predict, number), seconds


def _between(ends: asking.Ends, predict: Predict, number: bool) -> Predict:
    """A network in the table's own units."""
    if number:
        return lambda inputs: ends.back(predict(ends.inputs(inputs)))
    return lambda inputs: predict(ends.inputs(inputs))


def _released(document: Mapping[str, Any], seen: Any, seed: int) -> tuple[Any, float]:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fewer people in a round than min_count
        release = simulate(document, seen, seed=seed)
    return release, time.perf_counter() - began


# --- without privacy ------------------------------------------------------------------------------------------


def _ordinary(data: Dataset, wanted: Sequence[str], train: NDArray[np.int64]) -> Iterator[tuple[str, Predict, float]]:
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    makes = _regressors() if asking.is_number(data) else _classifiers()
    for several, model in makes.items():
        if not set(several) & set(wanted):
            continue
        began = time.perf_counter()
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = clone(model).fit(data.X[train], data.y[train])
        seconds = time.perf_counter() - began
        for series in several:
            yield series, fitted.predict, seconds


def _classifiers() -> dict[tuple[str, ...], Any]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    perceptron = MLPClassifier(hidden_layer_sizes=(asking.HIDDEN,), activation="tanh", max_iter=500, random_state=0)
    return {
        (LOGISTIC, REGRESSION, SHALLOW): make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        (BAYES,): GaussianNB(),
        (FOREST,): RandomForestClassifier(random_state=0),
        (VECTORS,): make_pipeline(StandardScaler(), SVC()),
        (PERCEPTRON,): make_pipeline(StandardScaler(), perceptron),
    }


def _regressors() -> dict[tuple[str, ...], Any]:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import LinearRegression
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVR

    def scaled(model: Any) -> Any:
        both = make_pipeline(StandardScaler(), model)
        return TransformedTargetRegressor(both, transformer=StandardScaler())

    perceptron = MLPRegressor(
        hidden_layer_sizes=(asking.HIDDEN,), activation="tanh", early_stopping=True, max_iter=500, random_state=0
    )
    return {
        (LINEAR, REGRESSION, SHALLOW): LinearRegression(),
        (FOREST,): RandomForestRegressor(n_estimators=50, min_samples_leaf=5, random_state=0),
        (VECTORS,): scaled(SVR()),
        (PERCEPTRON,): scaled(perceptron),
    }
