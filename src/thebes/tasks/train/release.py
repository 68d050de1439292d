"""The release of a train task: the trained model as plain data, which predicts from the sites' own columns."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.schema import Column
from thebes.learning.graph.weights import pack_flat, unpack_flat
from thebes.learning.inputs import NamedInputs
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.tasks.release import OF_MODEL, Release
from thebes.tasks.train.encoder import Encoding, Floats
from thebes.tasks.train.plan import FARTHEST, TrainingPlan, network

MOST_NAMED = 1000  #: weights that are written one by one
INTERCEPT = "intercept"


class TrainedRelease(Release):
    """`value` holds the weights: by name, or packed where there are many, or of a network, beside it. `model` predicts;
    `rounds` says of every round how far it moved the weights."""

    form = "train"
    no_interval = OF_MODEL

    @cached_property
    def model(self) -> TrainedModel:
        """The trained model, with `predict` and, for classes, `predict_proba`."""
        return TrainedModel(self.value, self.extra)

    @property
    def rounds(self) -> list[dict[str, Any]]:
        return list(self.extra["rounds"])

    def _lines(self) -> list[str]:
        rounds, sites = self.rounds, self.extra["coverage"]
        told = [f"{_kind(self.value)}, trained in {len(rounds)} rounds at {', '.join(sites['answered'])}"]
        if rounds and "loss" in rounds[-1]:
            told.append(f"mean loss of the last round: {figure(rounds[-1]['loss'], 4)}")
        told += [f"without {site}: {why}" for site, why in sites["missing"].items()]
        told += [
            f"{site} missed {missed['rounds']} of them (last: {missed['why']})"
            for site, missed in sites["missed"].items()
        ]
        weights = self.value["weights"]
        return told + (
            [f"{name}: {figure(w, 4)}" for name, w in weights.items()] if isinstance(weights, Mapping) else []
        )


def _kind(value: Mapping[str, Any]) -> str:
    return "a network" if "loss" in value else f"a {value['model']} model"


def value_of(plan: TrainingPlan, weights: Floats) -> dict[str, Any]:
    """A release's value: a model as data."""
    descent = plan.descent
    bounded = np.clip(weights, -FARTHEST, FARTHEST)
    if descent.family is None:
        graph = network(descent.model, str(descent.loss))[0].graph
        packed = base64.b64encode(pack_flat(graph, bounded)).decode("ascii")
        return {"weights": packed, "model": descent.model, "loss": descent.loss}
    if plan.weights > MOST_NAMED:
        return {
            "model": descent.family,
            "weights": base64.b64encode(np.ascontiguousarray(bounded, dtype="<f8").tobytes()).decode("ascii"),
        }
    return {"model": descent.family, "weights": dict(zip(_names(plan.encoding), bounded.tolist(), strict=True))}


def columns_of(plan: TrainingPlan) -> dict[str, Any]:
    """The declared columns, so that whoever has the release alone can predict."""
    encoding = plan.encoding
    return {
        "inputs": {name: _declared(column) for name, column in encoding.inputs.items()},
        "output": {encoding.name: _declared(encoding.output)},
    }


def _declared(column: Column) -> dict[str, Any]:
    return column.model_dump(mode="json", exclude_none=True, exclude={"key", "description"})


def _names(encoding: Encoding) -> list[str]:
    """Weight by weight; of more than two classes one for each, as `age, dx=nv`."""
    own, classes = [*encoding.names, INTERCEPT], encoding.classes
    if classes is None or len(classes) == 2:
        return own
    return [f"{name}, {encoding.name}={value}" for name in own for value in classes]


class TrainedModel(NamedInputs):
    """Predicts from a table with the task's inputs as columns, in the data set's own units."""

    def __init__(self, value: Mapping[str, Any], extra: Mapping[str, Any]) -> None:
        inputs = {name: Column.model_validate(column) for name, column in extra["inputs"].items()}
        ((name, output),) = extra["output"].items()
        self.inputs = tuple(inputs)
        self.encoding = Encoding(inputs, name, Column.model_validate(output))
        self._network = network(value["model"], value["loss"]) if "loss" in value else None
        given = value["weights"]
        if self._network is not None:
            graph = self._network[0].graph
            self.weights = unpack_flat(graph, base64.b64decode(given)).astype(np.float64)
        elif isinstance(given, str):
            self.weights = np.frombuffer(base64.b64decode(given, validate=True), dtype="<f8").astype(np.float64)
        else:
            self.weights = np.asarray([given[name] for name in _names(self.encoding)], dtype=np.float64)

    @property
    def named(self) -> dict[str, float]:
        """The weights of a linear or logistic model by name: of inputs scaled to [-1, 1]."""
        if self._network is not None:
            raise Mistake("model", "is a network; its weights are `weights`, in the order of its graph")
        return dict(zip(_names(self.encoding), self.weights.tolist(), strict=True))

    @property
    def classes(self) -> tuple[Any, ...] | None:
        return self.encoding.classes

    def scores(self, rows: Any) -> Floats:
        """Return what the model says, one line for each row.

        It is a number, one score for each class, or, where there are two classes, the second's score.
        """
        design = self.encoding.of_table(rows)
        if self._network is None:
            columns = self.weights.reshape(design.shape[1] + 1, -1)
            return np.asarray(design @ columns[:-1] + columns[-1])
        from thebes.learning.graph.interpret import outputs_of

        said = outputs_of(self._network[0], self.weights.astype(np.float32), design)
        return np.asarray(said, dtype=np.float64).reshape(len(design), -1)

    def predict(self, rows: Any) -> NDArray[Any]:
        """The likeliest value of the output, or the expected number in its own units."""
        classes = self.classes
        if classes is None:
            return self.encoding.unscaled(self.scores(rows)[:, 0])
        return np.asarray(np.array(classes)[self.predict_proba(rows).argmax(axis=1)])

    def predict_proba(self, rows: Any) -> Floats:
        """One column for each value of the output, in their declared order."""
        if self.classes is None:
            raise Mistake("model", "has no classes: the output is a number")
        said = self.scores(rows)
        if said.shape[1] == 1:
            said = np.hstack([np.zeros_like(said), said])
        odds = np.exp(said - said.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))
