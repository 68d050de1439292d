"""Documents that ask a table in the paper's three ways, each of which people could be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.datasets import Dataset

Predict = Callable[[NDArray[np.float64]], NDArray[Any]]

DELTA = 1e-5  #: of integrated tasks; the other two are pure
ROUNDS, HIDDEN = 16, 16
#: of the server's steps; where a round hears a thousand people instead of ten, larger steps pay
MOMENTUM = {"housing": 0.7}
SAMPLE, TARGET = "p.t", "y"


def is_number(data: Dataset) -> bool:
    """Return whether the target is a number, and not a class."""
    return TARGET in data.bounds


def names(data: Dataset) -> list[str]:
    """Columns as SQL can name them."""
    return [f"x{place}" for place in range(data.X.shape[1])]


def integrated(data: Dataset, epsilon: float, model: str) -> dict[str, Any]:
    return {
        **_reading("integrated", data, epsilon),
        "quality": False,  # scored on rows of the experiment's own
        "delta": DELTA,
        "model": model,
        "inputs": names(data),
        "output": TARGET,
        "bounds": _bounds(data),
    }


def bounded(data: Dataset, epsilon: float) -> dict[str, Any]:
    """Every row as one report, long ones shortened, with the middle of a range or the first label where a value is
    missing."""
    bounds = _bounds(data, default=True)
    return {**_reading("bounded", data, epsilon), "bounds": bounds, "mechanism": "privunit-short"}


def gradient(data: Dataset, epsilon: float, *, hidden: bool) -> dict[str, Any]:
    """Each person in one round of sixteen. The network sees columns and target between -1 and 1 (`Ends`)."""
    classes = 1 if is_number(data) else len(set(data.y.tolist()))
    model, loss = _network(data.X.shape[1], classes, hidden=hidden)
    learning = {"rounds": ROUNDS, "learning_rate": 1.0, "momentum": MOMENTUM.get(data.name, 0.0)}
    network = {"inputs": names(data), "outputs": [TARGET], "model": model, "loss": loss}
    return {**_reading("gradient", data, epsilon), **network, **learning}


class Ends:
    """Columns and target between -1 and 1 by their public bounds, which people's SQL would do, and back."""

    def __init__(self, data: Dataset) -> None:
        self._low, self._high = np.array([data.bounds[place] for place in range(data.X.shape[1])]).T
        self._least, self._most = data.bounds.get(TARGET, (-1.0, 1.0))

    def inputs(self, inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.clip(2 * (inputs - self._low) / (self._high - self._low) - 1, -1, 1))

    def target(self, target: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(2 * (target - self._least) / (self._most - self._least) - 1)

    def back(self, guess: NDArray[Any]) -> NDArray[Any]:
        return (guess + 1) / 2 * (self._most - self._least) + self._least


def table(data: Dataset, inputs: NDArray[np.float64], target: NDArray[Any]) -> Mapping[str, NDArray[Any]]:
    return {**dict(zip(names(data), inputs.T, strict=True)), TARGET: target}


def _reading(kind: str, data: Dataset, epsilon: float) -> dict[str, Any]:
    columns = ", ".join((*names(data), TARGET))
    return {"type": kind, "epsilon": epsilon, "featurizer": f"SELECT {columns} FROM {SAMPLE}"}  # noqa: S608


def _bounds(data: Dataset, *, default: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for place, name in enumerate(names(data)):
        found[name] = _range(*data.bounds[place], default=default)
    if is_number(data):
        return {**found, TARGET: _range(*data.bounds[TARGET], default=default)}
    labels = sorted(set(data.y.tolist()))
    return {**found, TARGET: {"type": "set", "values": labels} | ({"default": labels[0]} if default else {})}


def _range(low: float, high: float, *, default: bool) -> dict[str, Any]:
    return {"type": "range", "low": low, "high": high} | ({"default": (low + high) / 2} if default else {})


@cache
def _network(columns: int, outputs: int, *, hidden: bool) -> tuple[str, str]:
    """A linear model that starts at nothing, or a perceptron with one layer of tanh; and its loss."""
    import torch

    from thebes.torch import encode

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        if hidden:
            layers = torch.nn.Linear(columns, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, outputs)
            module: torch.nn.Module = torch.nn.Sequential(*layers)
        else:
            module = torch.nn.Linear(columns, outputs)
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.zero_()
    return encode(module, torch.nn.MSELoss() if outputs == 1 else torch.nn.CrossEntropyLoss())
