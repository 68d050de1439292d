"""No learner and no kind is at or below guessing at epsilon 8 without saying so: of flowers of three kinds, of wines of
three, of pictures of ten digits and of tumours of two, of at most 1,000 of each."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import sklearn.datasets
from sklearn.model_selection import StratifiedKFold

import thebes
from thebes import learning
from thebes.learning.estimator import PrivateClassifier, PrivateRegressor
from thebes.tasks import registry

EPSILON, MOST = 8.0, 1_000
TABLES = ("iris", "digits", "wine", "breast_cancer")
LEARNERS = [getattr(learning, name) for name in learning.__all__ if name != "from_json"]
CLASSIFIERS = [made for made in LEARNERS if issubclass(made, PrivateClassifier)]
REGRESSORS = [made for made in LEARNERS if issubclass(made, PrivateRegressor)]
ADJACENCIES = ("replace-one", "add-remove-one")


def table(name: str) -> tuple[np.ndarray, np.ndarray, dict[Any, tuple[float, float]]]:
    """Columns, labels and public bounds."""
    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    if name == "digits":
        return X, y, {"*": (0.0, 16.0)}
    if name != "iris":
        return X, y, {place: _round_ends(column) for place, column in enumerate(X.T)}
    return X, y, {0: (4.0, 8.0), 1: (2.0, 5.0), 2: (0.9, 7.0), 3: (0.0, 3.0)}


def _round_ends(column: np.ndarray) -> tuple[float, float]:
    """A range as somebody would know it: both ends of it rounded to one digit, outwards."""
    digit = 10.0 ** np.floor(np.log10(column.max()))
    return float(np.floor(column.min() / digit) * digit), float(np.ceil(column.max() / digit) * digit)


def folds(X: np.ndarray, y: np.ndarray) -> Any:
    """Rows to learn from, at most `MOST`, and others."""
    for learned, others in StratifiedKFold(5, shuffle=True, random_state=1).split(X, y):
        yield learned[:MOST], others


@pytest.mark.few(16, slow=16)
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("made", CLASSIFIERS, ids=lambda made: made.__name__)
def test_every_classifier_is_better_than_the_most_frequent_label(made, adjacency, delta, name) -> None:
    X, y, bounds = table(name)
    if not delta and made is learning.LogisticRegression:
        pytest.skip("has no pure form")
    told = {"epsilon": EPSILON, "delta": delta, "adjacency": adjacency, "bounds": bounds}
    classes = np.unique(y).tolist()
    right = [
        made(**told, classes=classes, random_state=3 * seed + again).fit(X[own], y[own]).score(X[others], y[others])
        for seed, (own, others) in enumerate(folds(X, y))
        for again in range(3)
    ]
    assert np.mean(right) > np.bincount(y).max() / len(y) + 0.2


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("made", REGRESSORS, ids=lambda made: made.__name__)
def test_every_regressor_is_better_than_the_mean(made, name) -> None:
    """Told from the others: a petal's width, how dark the middle of a picture is, flavonoids, a radius."""
    X, labels, bounds = table(name)
    place = {"iris": 3, "digits": 28, "wine": 6, "breast_cancer": 0}[name]
    y, rest = X[:, place], np.delete(X, place, axis=1)
    ends = [bounds.get(column, bounds.get("*")) for column in range(X.shape[1]) if column != place]
    told = {"epsilon": EPSILON, "delta": 1e-5, "adjacency": "replace-one"}
    told["bounds"] = {**dict(enumerate(ends)), "y": bounds.get(place, bounds.get("*"))}
    found = [
        made(**told, random_state=seed).fit(rest[own], y[own]).score(rest[others], y[others])
        for seed, (own, others) in enumerate(folds(X, labels))
    ]
    assert np.mean(found) > 0.05


@pytest.mark.parametrize("name", TABLES)
def test_centres_of_clusters_are_nearer_than_a_single_one(name) -> None:
    X, y, bounds = table(name)
    box = {"bounds": bounds, "adjacency": "replace-one", "delta": 1e-5}

    def away(epsilon: float, clusters: int) -> float:
        models = [learning.KMeans(epsilon=epsilon, n_clusters=clusters, random_state=seed, **box) for seed in range(5)]
        return float(np.mean([(model.fit(X).transform(X).min(axis=1) ** 2).mean() for model in models]))

    assert away(EPSILON, len(np.unique(y))) < away(1e6, 1)


# --- kinds of people -------------------------------------------------------------------------------------------

KINDS: dict[str, dict[str, Any]] = {
    **{
        f"integrated, {model}": {"type": "integrated", "model": model, "quality": True, "delta": 1e-5}
        for model in ("GaussianNB", "LogisticRegression", "RandomForestClassifier")
    },
    "ensemble, votes": {"type": "ensemble", "method": "vote", "quality": True},
    "ensemble, odds": {"type": "ensemble", "method": "odds", "quality": True},
    "bounded": {"type": "bounded", "quality": True, "predicted": "y"},
    "draw-discard": {"type": "draw-discard", "family": "logistic", "mechanism": "privunit"},
    "gradient": {"type": "gradient", "clip": 1.0},
}
#: kinds that release no model of labels from people's own devices
NO_MODEL = {"basic", "query"}
OF_SITES = {"algorithm", "pipeline", "train"}


def test_every_kind_that_learns_from_people_is_tried() -> None:
    assert {kind["type"] for kind in KINDS.values()} | NO_MODEL | OF_SITES >= set(registry.types())


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_people_tells_more_than_a_guess_or_says_that_this_is_not_shown(kind, name) -> None:
    release, right, guess = released(kind, name)
    found = release.quality if "quality" in release.extra else None
    assert right > guess or (found.warns if found else "not checked" in str(release)), (right, guess)


def released(kind: str, name: str) -> tuple[Any, float, float]:
    """(the release of a simulation, the share of other rows that its model tells right, that of one guess)."""
    X, y, bounds = table(name)
    if KINDS[kind]["type"] in ("draw-discard", "gradient") and len(np.unique(y)) > 2:  # models of two labels
        y = (y > np.median(y)).astype(int)
    own, others = next(folds(X, y))
    columns = [f"x{place}" for place in range(X.shape[1])]
    document = document_of(KINDS[kind], columns, [bounds.get(j, bounds.get("*")) for j in range(X.shape[1])], y)

    def rows(places: np.ndarray) -> dict[str, np.ndarray]:
        return {**dict(zip(columns, X[places].T, strict=True)), "y": y[places]}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        release: Any = thebes.simulate(document, rows(own), seed=1)
        model = release.fit("logistic", output="y") if KINDS[kind]["type"] == "bounded" else release.model
        told = np.asarray(model.predict(rows(others)))
    most = np.bincount(y[own]).argmax()
    return release, float((told.reshape(-1) == y[others]).mean()), float((y[others] == most).mean())


def document_of(kind: dict[str, Any], columns: list[str], ends: list[Any], y: np.ndarray) -> dict[str, Any]:
    ranges = {
        column: {"type": "range", "low": low, "high": high, "default": (low + high) / 2}
        for column, (low, high) in zip(columns, ends, strict=True)
    }
    labels = {"type": "set", "values": np.unique(y).tolist(), "default": int(y.min())}
    document = {
        "epsilon": EPSILON,
        "featurizer": f"SELECT {', '.join((*columns, 'y'))} FROM p.t",
        "bounds": {**ranges, "y": labels},
        **kind,
    }
    if kind["type"] == "ensemble":
        return {**document, "label": "y"}
    if kind["type"] == "gradient":
        torch = pytest.importorskip("torch")
        from thebes.torch import encode

        torch.manual_seed(1)
        model, loss = encode(torch.nn.Linear(len(columns), 2), torch.nn.CrossEntropyLoss())
        document |= {"model": model, "loss": loss, "outputs": ["y"]}
    elif kind["type"] != "bounded":
        document["output"] = "y"
    return document if kind["type"] == "bounded" else {**document, "inputs": columns}
