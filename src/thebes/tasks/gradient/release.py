"""The release of a gradient task: the trained weights, as data that loads into the consented graph."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from thebes.data.rows import Rows
from thebes.learning.graph import GraphLoss, Model, read_loss, read_model
from thebes.learning.graph.backbones import Catalogue
from thebes.learning.graph.document import BACKBONE
from thebes.learning.graph.weights import unpack_flat
from thebes.learning.inputs import NamedInputs, columns_of, is_named
from thebes.privacy.faults import Mistake
from thebes.tasks.document import Bounds
from thebes.tasks.gradient.network import catalogue_folder, taken
from thebes.tasks.release import OF_MODEL, Release

Floats = NDArray[np.float64]


class NetworkRelease(Release):
    """`value` is {"weights": base64 safetensors, ...}; `model` predicts; `gradient` is the last round's mean."""

    form = "network"
    no_interval = OF_MODEL
    drawn = ("length",)

    @cached_property
    def model(self) -> TrainedNetwork:
        """The trained network, with `predict` and, for classes, `predict_proba`."""
        bounds = TypeAdapter(Bounds).validate_python(self.certificate.bounds or {})
        return TrainedNetwork(self.value, self.extra["inputs"], bounds)

    @property
    def gradient(self) -> Floats:
        """The mean perturbed gradient of the last round, flat, in the order of the graph's trained weights."""
        return np.asarray(self.extra["gradient"], dtype=np.float64)

    def _lines(self) -> list[str]:
        return [f"a network of {len(self.extra['gradient'])} weights over {', '.join(self.extra['inputs'])}"]


class TrainedNetwork(NamedInputs):
    """Predicts from tables with the document's `inputs` as columns, whose sets it spreads and whose ranges it keeps to
    as was done for training; or from arrays of the numbers that the network takes."""

    def __init__(self, value: Mapping[str, Any], inputs: Sequence[str], bounds: Bounds) -> None:
        self._model = read_model(value["model"])
        self._loss = read_loss(value["loss"], self._model)
        self.weights = unpack_flat(self._model.graph, base64.b64decode(value["weights"]))
        self.inputs, self._bounds = tuple(inputs), bounds
        self._backbone: Model | None = None
        if value.get("backbone") is not None:
            text = Catalogue(catalogue_folder()).text(value["backbone"])
            self._backbone = read_model(text, argument="backbone", limits=BACKBONE)

    def outputs(self, rows: Any) -> Floats:
        """Return what the network says, one line for each row."""
        from thebes.learning.graph.interpret import outputs_of

        table = self._taken(rows)
        if self._backbone is not None:
            features = outputs_of(self._backbone, self._backbone.initial, table)
            table = features.reshape(len(table), -1).astype(np.float64)
        said = outputs_of(self._model, self.weights, table)
        return np.asarray(said, dtype=np.float64).reshape(len(table), -1)

    def _taken(self, rows: Any) -> Floats:
        if not is_named(rows):
            return np.asarray(rows, dtype=np.float64)
        return taken(self.inputs, self._bounds, Rows.one_each(columns_of(rows, self.inputs)))

    @property
    def loss(self) -> GraphLoss:
        """The loss that it was trained to make small."""
        return self._loss

    @property
    def classifies(self) -> bool:
        return self._loss.targets.kind == "class"

    def predict(self, rows: Any) -> NDArray[Any]:
        """The likeliest class's index, or the numbers the network gives."""
        said = self.outputs(rows)
        if self.classifies:
            return np.asarray(said.argmax(axis=1))
        return np.asarray(said[:, 0] if said.shape[1] == 1 else said)

    def predict_proba(self, rows: Any) -> Floats:
        """Softmax of what the network says, for classes."""
        if not self.classifies:
            raise Mistake("model", "gives numbers, not classes")
        said = self.outputs(rows)
        odds = np.exp(said - said.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True))
