"""Accuracy of documents of the three learning kinds on real data: never below the floors."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

import thebes
from papers import datasets

SEEDS = 3


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def load(name: str) -> datasets.Dataset:
    data = getattr(datasets, name)()
    if data is None:
        pytest.skip("the California housing table is not in THEBES_DATA")
    return data


def regression(data: datasets.Dataset) -> bool:
    return data.name in ("diabetes", "housing")


def score(data: datasets.Dataset, one_fold) -> float:
    """Mean over seeds and folds of accuracy, or R2: `one_fold(train, test, seed)` gives the predictions."""
    found = []
    for seed in range(SEEDS):
        folds = (KFold if regression(data) else StratifiedKFold)(5, shuffle=True, random_state=seed)
        for fold, (train, test) in enumerate(folds.split(data.X, data.y)):
            guess, truth = one_fold(train, test, 100 * seed + fold), data.y[test]
            if regression(data):
                found.append(1 - np.mean((guess - truth) ** 2) / np.var(truth))
            else:
                found.append(np.mean(guess == truth))
    return float(np.mean(found))


def columns(data: datasets.Dataset, rows) -> dict:
    """A table whose columns SQL can name."""
    table = {f"x{i}": data.X[rows, i] for i in range(data.X.shape[1])}
    return {**table, "y": data.y[rows]}


def bounds(data: datasets.Dataset, default: bool = False) -> dict:
    every = {}
    for i in range(data.X.shape[1]):
        low, high = data.bounds[i]
        every[f"x{i}"] = {
            "type": "range",
            "low": low,
            "high": high,
            **({"default": (low + high) / 2} if default else {}),
        }
    if regression(data):
        low, high = data.bounds["y"]
        every["y"] = {"type": "range", "low": low, "high": high, **({"default": (low + high) / 2} if default else {})}
    else:
        labels = sorted(set(data.y.tolist()))
        every["y"] = {"type": "set", "values": labels, **({"default": labels[0]} if default else {})}
    return every


def named(data: datasets.Dataset) -> list[str]:
    return [f"x{i}" for i in range(data.X.shape[1])]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("dataset", "model", "epsilon", "floor"),
    [
        ("wine", "GaussianNB", 8, 0.80),
        ("wine", "GaussianNB", 32, 0.917),
        ("wine", "LogisticRegression", 8, 0.85),
        ("wine", "LogisticRegression", 32, 0.94),
        ("cancer", "GaussianNB", 4, 0.80),
        ("cancer", "GaussianNB", 32, 0.90),
        ("cancer", "LogisticRegression", 1, 0.88),
        ("cancer", "LogisticRegression", 4, 0.93),
        ("cancer", "LogisticRegression", 32, 0.95),
        ("diabetes", "LinearRegression", 1, 0.0),
        ("diabetes", "LinearRegression", 4, 0.25),
        ("diabetes", "LinearRegression", 8, 0.42),
        ("diabetes", "LinearRegression", 32, 0.45),
        ("housing", "LinearRegression", 1, 0.60),
        ("housing", "LinearRegression", 8, 0.64),
    ],
)
def test_integrated_tasks_reach_the_floor(dataset, model, epsilon, floor) -> None:
    data = load(dataset)
    document = {
        "type": "integrated",
        "epsilon": epsilon,
        "delta": 1e-5,
        "featurizer": f"SELECT {', '.join(named(data))}, y FROM p.t",
        "model": model,
        "inputs": named(data),
        "output": "y",
        "bounds": bounds(data),
    }

    def one_fold(train, test, seed):
        return thebes.simulate(document, columns(data, train), seed=seed).model.predict(data.X[test])

    assert score(data, one_fold) >= floor


@pytest.mark.few(1)
@pytest.mark.parametrize("mechanism", ["privunit", "privunit-short"])
@pytest.mark.parametrize(
    ("dataset", "model", "epsilon", "floor"),
    [
        ("wine", "logistic", 8, 0.75),
        ("wine", "logistic", 32, 0.92),
        ("cancer", "logistic", 8, 0.78),
        ("cancer", "logistic", 32, 0.90),
        ("diabetes", "linear", 8, 0.20),
        ("diabetes", "linear", 32, 0.40),
        ("housing", "linear", 8, 0.50),
        ("housing", "linear", 32, 0.58),
    ],
)
def test_bounded_tasks_reach_the_floor(dataset, model, epsilon, floor, mechanism) -> None:
    data = load(dataset)
    document = {
        "type": "bounded",
        "epsilon": epsilon,
        "featurizer": f"SELECT {', '.join(named(data))}, y FROM p.t",
        "bounds": bounds(data, default=True),
        "mechanism": mechanism,
    }

    def one_fold(train, test, seed):
        return thebes.simulate(document, columns(data, train), seed=seed).fit(model, output="y").predict(data.X[test])

    assert score(data, one_fold) >= floor


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dataset", "floor"), [("wine", 0.75), ("cancer", 0.75), ("diabetes", 0.15), ("housing", 0.35)]
)
def test_gradient_tasks_reach_the_floor(dataset, floor) -> None:
    torch = pytest.importorskip("torch")
    from thebes.torch import encode

    data = load(dataset)
    low, high = (np.array([data.bounds[i][end] for i in range(data.X.shape[1])]) for end in (0, 1))
    inputs = np.clip(2 * (data.X - low) / (high - low) - 1, -1, 1)  # by public constants, beforehand
    least, most = data.bounds.get("y", (0.0, 1.0))
    target = 2 * (data.y - least) / (most - least) - 1 if regression(data) else data.y
    torch.manual_seed(0)
    classes = 1 if regression(data) else len(set(data.y.tolist()))
    module = torch.nn.Linear(inputs.shape[1], classes)
    with torch.no_grad():
        module.weight.zero_()
        module.bias.zero_()
    model, loss = encode(module, torch.nn.MSELoss() if regression(data) else torch.nn.CrossEntropyLoss())
    document = json.loads(
        json.dumps(
            {
                "type": "gradient",
                "epsilon": 8,
                "featurizer": f"SELECT {', '.join(named(data))}, y FROM p.t",
                "inputs": named(data),
                "outputs": ["y"],
                "model": model,
                "loss": loss,
                "rounds": 16,
                "learning_rate": 1.0,
            }
        )
    )

    def one_fold(train, test, seed):
        table = {**{f"x{i}": inputs[train, i] for i in range(inputs.shape[1])}, "y": target[train]}
        guess = thebes.simulate(document, table, seed=seed).model.predict(inputs[test])
        return (guess + 1) / 2 * (most - least) + least if regression(data) else guess

    assert score(data, one_fold) >= floor
