"""Ways to learn whether a pull request will be merged, each through a kind that people or sites could be asked.

What is protected is one request (row-level), or everything of a person (person-level).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from papers.tiresias.pulls import MERGED, RANGES, WHO, schema
from thebes.simulation.tables import PERSON
from thebes.simulation.world import simulate

DELTA = 1e-5  #: of integrated tasks and of Gaussian noise; the others are pure
ROUNDS = 5  #: of gradients: a person is heard in one of them
MANY_ROUNDS = 16  #: where every request is heard by itself
ALL_ROUNDS = 20  #: of which every person is heard in each

Numbers = NDArray[np.float64]
Chance = Callable[[pd.DataFrame], Numbers]  #: how likely each request is to be merged
Way = Callable[[pd.DataFrame, Sequence[str], float, int], Chance]  #: requests, inputs, epsilon, seed


def integrated_by_row(own: pd.DataFrame, inputs: Sequence[str], epsilon: float, seed: int) -> Chance:
    """Every request as if it were a person of its own, at a server that is trusted."""
    asked = {
        **_reading("integrated", inputs, epsilon),
        "quality": False,  # scored on rows of the experiment's own
        "delta": DELTA,
        "model": "LogisticRegression",
        "inputs": list(inputs),
        "output": MERGED,
        "bounds": _bounds(inputs),
    }
    model = _simulated(asked, _alone(own, inputs), seed).model
    return lambda rows: np.asarray(model.predict_proba(rows[list(inputs)].to_numpy())[:, 1])


def integrated_by_person(own: pd.DataFrame, inputs: Sequence[str], epsilon: float, seed: int) -> Chance:
    """All requests of a person together, as one gradient a round; the trusted server is the one site of a training."""
    asked = {
        "type": "train",
        "sites": ["server"],
        "dataset": "pulls",
        "model": "LogisticRegression",
        "inputs": list(inputs),
        "output": MERGED,
        "epsilon": epsilon,
        "delta": DELTA,
        "rounds": 20,
        "learning_rate": 0.5,
        "momentum": 0.8,
        "clip": 0.5,
    }
    model = _simulated(asked, {"server": own}, seed, schema=schema()).model
    return lambda rows: np.asarray(model.predict_proba(rows)[:, 1])


def bounded_by_row(own: pd.DataFrame, inputs: Sequence[str], epsilon: float, seed: int) -> Chance:
    """Every request leaves by itself, changed as a whole."""
    return _bounded(_alone(own, inputs), inputs, epsilon, seed)


def bounded_by_person(own: pd.DataFrame, inputs: Sequence[str], epsilon: float, seed: int) -> Chance:
    """One request of each person leaves, changed as a whole."""
    return _bounded(_together(own, inputs), inputs, epsilon, seed)


def gradient_by_row(own: pd.DataFrame, inputs: Sequence[str], epsilon: float, seed: int) -> Chance:
    """Every request as if it were a person of its own, who changes a gradient in one of the rounds."""
    more = {"rounds": MANY_ROUNDS, "learning_rate": 2.0, "clip": 1.0}
    return _descended(_alone(own, inputs), inputs, epsilon, seed, **more)


def gradient_by_person(own: pd.DataFrame, inputs: Sequence[str], epsilon: float, seed: int) -> Chance:
    """Each person changes the mean gradient of all own requests, in one of the rounds."""
    return _descended(_together(own, inputs), inputs, epsilon, seed, rounds=ROUNDS, clip=0.5)


def gradient_in_all_rounds(own: pd.DataFrame, inputs: Sequence[str], epsilon: float, seed: int) -> Chance:
    """The same with Gaussian noise and every person in every round, as the paper trains: epsilon is for all of them."""
    more = {"rounds": ALL_ROUNDS, "rounds_per_owner": ALL_ROUNDS, "learning_rate": 0.1, "clip": 0.5}
    return _descended(_together(own, inputs), inputs, epsilon, seed, mechanism="gaussian", delta=DELTA, **more)


WAYS: Mapping[str, Way] = {
    "integrated, row-level": integrated_by_row,
    "integrated, person-level": integrated_by_person,
    "bounded, row-level": bounded_by_row,
    "bounded, person-level": bounded_by_person,
    "gradient, row-level": gradient_by_row,
    "gradient, person-level": gradient_by_person,
    "gradient, person-level, each in all rounds": gradient_in_all_rounds,
}


def together(own: pd.DataFrame, inputs: Sequence[str]) -> Chance:
    """Learn as somebody who sees everything and hides nothing."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        model = LogisticRegression(max_iter=1000).fit(_scaled(own, inputs), own[MERGED])
    return lambda rows: np.asarray(model.predict_proba(_scaled(rows, inputs))[:, 1])


def _bounded(shown: Any, inputs: Sequence[str], epsilon: float, seed: int) -> Chance:
    bounds = _bounds(inputs, default=True)
    asked = {**_reading("bounded", inputs, epsilon), "bounds": bounds, "mechanism": "privunit-short"}
    model = _simulated(asked, shown, seed).fit("logistic", output=MERGED)
    return lambda rows: np.asarray(model.predict_proba(rows)[:, 1])


def _descended(shown: Any, inputs: Sequence[str], epsilon: float, seed: int, **more: Any) -> Chance:
    model, loss = _line(len(inputs))
    asked = {
        **_reading("gradient", inputs, epsilon),
        "inputs": list(inputs),
        "outputs": [MERGED],
        "model": model,
        "loss": loss,
        **more,
    }
    # The network is fed shares of the ranges, which people's SQL would make.
    seen = {**shown, **dict(zip(inputs, _scaled(shown, inputs).T, strict=True))}
    made = _simulated(asked, seen, seed).model
    return lambda rows: np.asarray(1 / (1 + np.exp(-made.outputs(_scaled(rows, inputs))[:, 0])))


@cache
def _line(inputs: int) -> tuple[str, str]:
    """A logistic regression that starts at nothing."""
    import torch

    from thebes.torch import encode

    line = torch.nn.Linear(inputs, 1)
    with torch.no_grad():
        for weights in line.parameters():
            weights.zero_()
    return encode(line, torch.nn.BCEWithLogitsLoss())


def _simulated(asked: Mapping[str, Any], shown: Any, seed: int, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fewer people in a round than a coordinator would ask for
        return simulate(asked, shown, seed, **more)


def _reading(kind: str, inputs: Sequence[str], epsilon: float) -> dict[str, Any]:
    columns = ", ".join((*inputs, MERGED))
    return {"type": kind, "epsilon": epsilon, "featurizer": f"SELECT {columns} FROM github.pull"}  # noqa: S608


def _alone(own: pd.DataFrame, inputs: Sequence[str]) -> dict[str, Any]:
    return {name: own[name].to_numpy() for name in (*inputs, MERGED)}


def _together(own: pd.DataFrame, inputs: Sequence[str]) -> dict[str, Any]:
    return {PERSON: own[WHO].to_numpy(), **_alone(own, inputs)}


def _bounds(inputs: Sequence[str], *, default: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in inputs:
        low, high = RANGES[name]
        found[name] = {"type": "range", "low": float(low), "high": float(high)}
        if default:
            found[name]["default"] = (low + high) / 2
    return {**found, MERGED: {"type": "set", "values": [0, 1], **({"default": 1} if default else {})}}


def _scaled(rows: Any, inputs: Sequence[str]) -> Numbers:
    """Shares of the ranges, from -1 to 1."""
    low, high = np.array([RANGES[name] for name in inputs], dtype=np.float64).T
    table = np.column_stack([np.asarray(rows[name], dtype=np.float64) for name in inputs])
    return np.asarray(np.clip((table - low) / (high - low) * 2 - 1, -1, 1))
