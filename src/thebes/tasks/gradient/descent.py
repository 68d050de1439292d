"""Descent: one mean of gradients a round, one step, the next weights; whoever noised them, and where."""

from __future__ import annotations

import base64
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from thebes.learning.graph.weights import pack_flat
from thebes.privacy.certificate import Certificate
from thebes.privacy.promise import Adjacency
from thebes.tasks.aggregation.people import Gathering
from thebes.tasks.document import bounds_as_json
from thebes.tasks.gradient.kind import GradientDocument
from thebes.tasks.gradient.network import Floats, facts, network
from thebes.tasks.gradient.release import NetworkRelease
from thebes.tasks.protocols import Setting

_UNCHECKED = "nobody is asked to check a network, whose gradients name no guess to compare it with"


class GradientDescending(Gathering[GradientDocument]):
    """Knows the weights of each round. A kind says how noised gradients are heard, and ends a round by `stepped`."""

    def __init__(self, document: GradientDocument, setting: Setting) -> None:
        super().__init__(document, setting)
        self._network = network(document)
        graph, values = self._network.model.graph, self._network.model.values
        self._weights = np.concatenate([np.asarray(values[w.name], dtype=np.float64).ravel() for w in graph.trained])
        self._velocity = np.zeros_like(self._weights)
        self._tail = np.zeros_like(self._weights)  #: sum of the weights after the rounds of the second half
        self._contributors = 0

    def payload(self, packet: int = 0, partition: int = 0) -> dict[str, Any]:
        return {"round": self.phase, "weights": self._packed(self._weights)}

    def stepped(self, total: Floats) -> NetworkRelease | None:
        """Take one step down the mean gradient; the release after the last one. n is what this round accepted:
        public."""
        gradient = total / max(1, self.accepted)
        self._velocity = self.document.momentum * self._velocity + gradient
        self._weights = self._weights - self.document.learning_rate * self._velocity
        self._contributors += self.accepted
        last, first_of_tail = self.document.rounds - 1, self.document.rounds // 2
        if self.phase >= first_of_tail:
            self._tail += self._weights
        if self.phase < last:
            return None
        averaged = self._tail / (self.document.rounds - first_of_tail)
        released = self._weights if self.document.average == "last" else averaged
        value = {"weights": self._packed(released), "model": self.document.model, "loss": self.document.loss}
        if self.document.backbone is not None:
            value["backbone"] = self.document.backbone
        extra: dict[str, Any] = {"inputs": list(self.document.inputs), "gradient": gradient.tolist()}
        extra |= {"quality": None, "quality_note": _UNCHECKED}
        return NetworkRelease(value, self.promise(), {}, extra | self.beside())

    def beside(self) -> dict[str, Any]:
        """Return what else was learned, for the release."""
        return {}

    @abstractmethod
    def promise(self) -> Certificate:
        """Return what the release promises."""

    def _packed(self, weights: Floats) -> str:
        bounded = np.clip(np.nan_to_num(weights), -3e38, 3e38)
        return base64.b64encode(pack_flat(self._network.model.graph, bounded)).decode("ascii")

    def certificate(self, *, delta: float, mechanism: str, parameters: Mapping[str, Any], trust: str) -> Certificate:
        """Return what the answer promises, with what is said of its noise."""
        document = self.document
        return Certificate(
            unit=self.setting.unit,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=document.epsilon,
            delta=delta,
            guarantee="approximate" if delta else "pure",
            mechanism=mechanism,
            parameters={**facts(document), **parameters},
            bounds=None if document.bounds is None else bounds_as_json(document.bounds),
            contributors=self._contributors,
            trust=trust,
            notes=self.notes,
            simulated=self.setting.simulated,
        )
