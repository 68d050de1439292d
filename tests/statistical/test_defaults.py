"""Defaults, measured: a document that leaves a choice open errs at most a tenth more than the best that it could have
named, of every kind that has a choice, on three data sets at three epsilons."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

import thebes
from papers import datasets
from papers.draw_discard import known_weights
from thebes.tasks import registry
from thebes.tasks.choice import DocumentChoice

EPSILONS = (1.0, 4.0, 8.0)
SEEDS = {"bounded": 6, "ensemble": 3, "gradient": 12}
PEOPLE = 3000  #: of an ensemble; fewer are told nothing by any way
CLIP = 0.5
Floats = NDArray[np.float64]
Document = dict[str, Any]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of few people, and of models no better than guessing
        yield


def iris() -> datasets.Dataset:
    """150 flowers of three kinds, 4 columns; label 0, 1 or 2."""
    from sklearn.datasets import load_iris

    found, columns = load_iris(), ("sepal_length", "sepal_width", "petal_length", "petal_width")
    ends: dict[int | str, datasets.Pair] = dict(enumerate(((4.0, 8.0), (2.0, 5.0), (0.9, 7.0), (0.0, 3.0))))
    return datasets.Dataset("iris", found.data, found.target, columns, ends)


def columns(data: datasets.Dataset) -> list[str]:
    return [f"x{place}" for place in range(len(data.columns))]


def rows(data: datasets.Dataset, places: Any = slice(None)) -> dict[str, Any]:
    return {**dict(zip(columns(data), data.X[places].T, strict=True)), "y": data.y[places]}


def asked(kind: str, data: datasets.Dataset, epsilon: float, *more_columns: str, **more: Any) -> Document:
    ends = [data.bounds[place] for place in range(len(data.columns))]
    ranges = {
        column: {"type": "range", "low": low, "high": high, "default": low}
        for column, (low, high) in zip(columns(data), ends, strict=True)
    }
    return {
        "type": kind,
        "epsilon": epsilon,
        "featurizer": f"SELECT {', '.join((*columns(data), *more_columns))} FROM p.t",
        "bounds": {**ranges, **more.pop("bounds", {})},
        **more,
    }


# --- what each kind errs -------------------------------------------------------------------------------------


def bounded(data: datasets.Dataset, epsilon: float) -> tuple[Document, Callable[[Document, int], float]]:
    """Return how far an entry of the second moment is off, each column scaled to run from -1 to 1."""
    ends = np.array([data.bounds[place] for place in range(len(data.columns))])
    scaled = (np.clip(data.X, *ends.T) - ends.mean(axis=1)) / ((ends[:, 1] - ends[:, 0]) / 2)
    truth = scaled.T @ scaled / len(scaled)

    def error(document: Document, seed: int) -> float:
        release: Any = thebes.simulate(document, rows(data), seed=seed)
        return float(np.mean((release.moments.second - truth) ** 2))

    return asked("bounded", data, epsilon), error


def ensemble(data: datasets.Dataset, epsilon: float) -> tuple[Document, Callable[[Document, int], float]]:
    """Return the share of labels told wrong, of rows not learned from; each other row is that of many people."""
    order = np.random.default_rng(0).permutation(len(data.y))
    learned, held = np.split(order, [2 * len(order) // 3])
    labels = {"type": "set", "values": np.unique(data.y).tolist()}

    crowd = np.tile(learned, PEOPLE // len(learned))

    def error(document: Document, seed: int) -> float:
        release: Any = thebes.simulate(document, rows(data, crowd), seed=seed)
        return float(np.mean(release.model.predict(rows(data, held)) != data.y[held]))

    return asked("ensemble", data, epsilon, "y", bounds={"y": labels}, label="y"), error


def gradient(data: datasets.Dataset, epsilon: float) -> tuple[Document, Callable[[Document, int], float]]:
    """Return how far the gradient of all is from the mean of the clipped ones, for a model that says 0."""
    torch = pytest.importorskip("torch")
    from thebes.torch import encode

    linear = torch.nn.Linear(len(data.columns), 1)
    torch.nn.init.zeros_(linear.weight)
    torch.nn.init.zeros_(linear.bias)
    model, loss = encode(linear, torch.nn.MSELoss())
    each = -2 * data.y[:, None] * np.column_stack([data.X, np.ones(len(data.y))])
    length = np.linalg.norm(each, axis=1, keepdims=True)
    truth = (each * np.minimum(1, CLIP / np.maximum(length, 1e-12))).mean(axis=0)

    def error(document: Document, seed: int) -> float:
        release: Any = thebes.simulate(document, rows(data), seed=seed)
        return float(np.sum((release.gradient - truth) ** 2))

    shape = {"inputs": columns(data), "outputs": ["y"], "model": model, "loss": loss, "clip": CLIP}
    return asked("gradient", data, epsilon, "y", delta=1e-5, **shape), error


MEASURED = {"bounded": bounded, "ensemble": ensemble, "gradient": gradient}


def test_every_kind_that_has_a_choice_is_measured() -> None:
    # Between ranges that are declared and estimated only who asks can choose; rates are measured below.
    asked = {"basic", "draw-discard"}
    assert {kind for kind in registry.types() if hasattr(registry.kind(kind), "choice")} == set(MEASURED) | asked


def rivals(kind: str, document: Document) -> list[str]:
    """Return the names that a document could give for what it leaves open: those that promise no less."""
    checked: Any = registry.check(document)
    choice = registry.kind(kind).choice(checked)  # type: ignore[attr-defined]
    if isinstance(choice, DocumentChoice):
        return list(choice.errors)
    return [name for name in get_args(type(checked).model_fields[choice.field].annotation) if name != "auto"]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("data", [datasets.wine, datasets.cancer, iris], ids=lambda made: made.__name__)
@pytest.mark.parametrize("kind", MEASURED)
def test_what_is_left_open_errs_at_most_a_tenth_more_than_the_best_that_could_be_named(
    kind: str, data: Callable[[], datasets.Dataset], epsilon: float
) -> None:
    document, error = MEASURED[kind](data(), epsilon)
    field = registry.kind(kind).choice(registry.check(document)).field  # type: ignore[attr-defined]

    def errs(asked: Document) -> float:
        return float(np.mean([error(asked, seed) for seed in range(SEEDS[kind])]))

    named = {name: errs({**document, field: name}) for name in rivals(kind, document)}
    assert errs(document) <= 1.1 * min(named.values()), named


#: what hides a step; and how many people answer
STEPS: dict[str, Document] = {
    "epsilon 8": {"mechanism": "privunit", "epsilon": 8.0},
    "epsilon 2": {"mechanism": "privunit", "epsilon": 2.0},
    "epsilon 1": {"mechanism": "privunit", "epsilon": 1.0},
    "log 32 by weight": {"mechanism": "laplace", "epsilon_per_weight": float(np.log(32))},
    "nothing": {"mechanism": "none", "epsilon": 100.0},
}
FIXED = (0.001, 0.005, 0.01, 0.05, 0.2, 0.5)


#: crowds of each size; luck moves what few updates and much noise lead to
CROWDS = {10_000: 8, 60_000: 6, 200_000: 4}


@pytest.mark.parametrize(
    ("hidden", "updates"),
    [
        pytest.param(
            hidden, n, marks=pytest.mark.slow if (hidden, n) == ("log 32 by weight", 10_000) else pytest.mark.heavy
        )
        for hidden in STEPS
        for n in CROWDS
    ],
)
def test_steps_of_no_named_rate_reach_what_the_best_fixed_rate_reaches_but_for_a_hundredth(
    hidden: str, updates: int
) -> None:
    """The figures of the rule were chosen on others than these people; each rate learns from the same crowds."""
    test = known_weights.people(50_000, seed=99)
    crowds = [known_weights.people(updates, seed=seed) for seed in range(CROWDS[updates])]
    body = {**known_weights.DOCUMENT, **STEPS[hidden], "instances": 20}

    def right(**more: Any) -> Floats:
        releases: list[Any] = [thebes.simulate({**body, **more}, crowd, seed=n) for n, crowd in enumerate(crowds)]
        return np.array([(release.model.predict(test) == test["o"]).mean() for release in releases])

    lost = max((right(learning_rate=rate) for rate in FIXED), key=np.mean) - right()
    assert lost.mean() <= 0.01 + 3 * lost.std(ddof=1) / np.sqrt(len(crowds)), lost
