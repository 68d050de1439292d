"""The models of the paper's table 1 on its two tasks, trained by the ready pipelines, beside the same without noise."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from papers.sage import clicks, rides
from papers.sage.frames import data_of
from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.ready import of
from thebes.learning.features import Features
from thebes.privacy.randomness import seeded_for_simulation

Floats = NDArray[np.float64]
DELTA = 1e-6
TAXI, CRITEO = "taxi", "criteo"
LINEAR, LOGISTIC, NETWORK = "linear regression", "logistic regression", "network"
_TOGETHER, _OFTEN = 2000, 0.05  #: rows that a network's step has about, if that is no larger a share of them
#: a network that is quick to train
QUICK: Mapping[str, Mapping[str, Any]] = {
    LINEAR: {},
    LOGISTIC: {"steps": 20},
    NETWORK: {"layers": [8], "steps": 30, "rate": 0.1, "learning_rate": 0.05},
}


@dataclass(frozen=True)
class Task:
    """A task of prediction: what is predicted from what, with rows to learn from in an order that says nothing, and
    others to test on."""

    name: str
    schema: dict[str, Any]
    document: dict[str, Any]
    train: pd.DataFrame
    test: pd.DataFrame
    told: str
    made_up: bool
    network: Mapping[str, Any]  #: what the document of a network says instead

    @property
    def output(self) -> str:
        return str(self.document["output"])

    def trained(self, model: str, rows: int, epsilon: float, seed: int, more: Mapping[str, Any] | None = None) -> Any:
        """A model of the ready pipeline of this name, learned from the first so many rows."""
        own = {**self.network, "rate": min(_OFTEN, _TOGETHER / rows)} if model == NETWORK else {}
        terms = {"model": _MODELS[model], "epsilon": epsilon, "delta": DELTA}
        pipeline = of({**self.document, **terms, **own, **(more or {})})
        data = data_of(self.schema, self.train.iloc[:rows], seeded_for_simulation(seed))
        return pipeline.train(data, Allowance(epsilon, DELTA))

    def losses(self, model: Any, table: pd.DataFrame) -> Floats:
        """For each row: its squared error, or whether its class was told."""
        said = np.asarray(model.predict(table[list(model.features.columns)].to_numpy(dtype=np.float64)))
        truth = table[self.output].to_numpy(dtype=np.float64)
        if self.name == TAXI:
            return np.asarray((said - truth) ** 2)
        return np.asarray((said > 0.5) == (truth > 0.5), dtype=np.float64)

    def score(self, model: Any) -> float:
        """The mean squared error, or the share of rows whose class is told, on rows that nothing was learned from."""
        return float(self.losses(model, self.test).mean())

    def naive(self) -> float:
        """Score somebody who knows only the mean, or only the usual class."""
        known, truth = self.train[self.output].to_numpy(np.float64), self.test[self.output].to_numpy(np.float64)
        if self.name == TAXI:
            return float(np.mean((truth - known.mean()) ** 2))
        return float(np.mean(truth == (known.mean() > 0.5)))

    def plain(self, rows: int) -> float:
        """The same kind of model without noise or clipping: least squares, or logistic regression on every value."""
        return _least_squares(self, rows) if self.name == TAXI else _one_hot(self, rows)


_MODELS = {LINEAR: "LinearRegression", LOGISTIC: "LogisticRegression", NETWORK: "NeuralNetwork"}


@cache
def taxi() -> Task:
    """Make the task of telling how long a ride takes: the 61 columns of 0 and 1 of the paper's task, from ten that say
    something."""
    held = rides.rides()
    table = held.shuffled()
    cut = max(len(table) - 50_000, len(table) // 2)
    inputs = ["distance", "hour", "weekday", "week", *rides.FLAGS]
    document = {
        "stream": TAXI,
        "inputs": inputs,
        "output": "duration",
        "bins": {"distance": list(rides.EDGES[1:-1])},
        "target": {"mse": 0.005},
    }
    network = {"inputs": [*inputs, "near"]}
    return Task(TAXI, rides.SCHEMA, document, table.iloc[:cut], table.iloc[cut:], str(held), held.made_up, network)


@cache
def criteo() -> Task:
    """Make the task of telling whether somebody clicks."""
    held = clicks.clicks()
    table = held.shuffled()
    cut = max(len(table) - 25_000, len(table) // 2)
    document = {
        "stream": CRITEO,
        "inputs": [*clicks.NUMBERS, *clicks.WORDS],
        "output": clicks.LABEL,
        "target": {"accuracy": 0.75},
    }
    network = {"inputs": list(clicks.BINS)}  # words would be 6,656 inputs more
    return Task(CRITEO, clicks.SCHEMA, document, table.iloc[:cut], table.iloc[cut:], str(held), held.made_up, network)


def _least_squares(task: Task, rows: int) -> float:
    features: Features = rides.features()
    columns = list(features.columns)
    sides = []
    for table in (task.train.iloc[:rows], task.test):
        made = features.of(table[columns].to_numpy(dtype=np.float64))
        sides.append((np.hstack([made, np.ones((len(made), 1))]), table[task.output].to_numpy(np.float64)))
    (inputs, truth), (others, wanted) = sides
    weights = np.linalg.lstsq(inputs, truth, rcond=None)[0]
    return float(np.mean((np.clip(others @ weights, 0, 1) - wanted) ** 2))


def _one_hot(task: Task, rows: int) -> float:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    columns = list(task.document["inputs"])
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(C=0.05, max_iter=60))
    model.fit(task.train[columns].iloc[:rows], task.train[task.output].iloc[:rows])
    return float(model.score(task.test[columns], task.test[task.output]))


def timed(task: Task, model: str, rows: int, epsilon: float, seeds: Any, more: Any = None) -> tuple[list[float], float]:
    """Scores of models trained with each seed, and the seconds that one training took."""
    started, scores = time.perf_counter(), []
    for seed in seeds:
        scores.append(task.score(task.trained(model, rows, epsilon, seed, more)))
    return scores, (time.perf_counter() - started) / max(1, len(scores))
