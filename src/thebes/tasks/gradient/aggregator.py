"""The aggregator of a gradient task: one mean of perturbed gradients a round, one step, the next weights.

It keeps sums only: its memory does not grow with the number of contributors.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.learning.graph.weights import pack_flat
from thebes.privacy.certificate import Certificate
from thebes.privacy.mechanisms.local.privunit import PrivUnit
from thebes.privacy.promise import Adjacency
from thebes.tasks.aggregation.people import Gathering
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.document import FAILURE
from thebes.tasks.gradient.kind import GradientDocument
from thebes.tasks.gradient.network import REPORT, facts, network
from thebes.tasks.gradient.release import NetworkRelease
from thebes.tasks.missing_values import WORKED
from thebes.tasks.protocols import Setting

_AT_ONCE = 2**22
_UNCHECKED = "nobody is asked to check a network, whose gradients name no guess to compare it with"


class GradientAggregator(Gathering[GradientDocument]):
    def __init__(self, document: GradientDocument, setting: Setting) -> None:
        super().__init__(document, setting)
        self._network = network(document)
        graph, values = self._network.model.graph, self._network.model.values
        self._weights = np.concatenate([np.asarray(values[w.name], dtype=np.float64).ravel() for w in graph.trained])
        self._velocity = np.zeros_like(self._weights)
        self._tail = np.zeros_like(self._weights)  #: sum of the weights after the rounds of the second half
        self._sum = np.zeros_like(self._weights)
        self._failures: list[NDArray[np.generic]] = []
        self._contributors = 0

    def layout(self, part: str, partition: int = 0) -> Layout:
        return self._network.layout()

    def payload(self, packet: int = 0, partition: int = 0) -> dict[str, Any]:
        return {"round": self.phase, "weights": self._packed(self._weights)}

    def examine(self, contributions: Contributions) -> Contributions:
        examined, mechanism = super().examine(contributions), self._network.mechanism
        if isinstance(mechanism, PrivUnit) and examined.count:
            mechanism.check(np.asarray(examined.fields[REPORT]).astype(np.int64))
        return examined

    def hear(self, contributions: Contributions) -> None:
        reports = contributions.fields[REPORT]
        mechanism = self._network.mechanism
        size = max(1, _AT_ONCE // self._weights.size)
        sums = []
        for start in range(0, len(reports), size):
            block = reports[start : start + size]
            if isinstance(mechanism, PrivUnit):
                sums.append(mechanism.decode(np.asarray(block).astype(np.int64)).sum(axis=0))
            else:
                sums.append(mechanism.decode(block).sum(axis=0))
        self._sum += np.sum(sums, axis=0) if sums else 0.0
        if FAILURE in contributions.fields:
            self._failures.append(contributions.fields[FAILURE])

    def conclude(self) -> NetworkRelease | None:
        """One step down the mean gradient; the release after the last one. n is what this round accepted: public."""
        gradient = self._sum / max(1, self.accepted)
        self._velocity = self.document.momentum * self._velocity + gradient
        self._weights = self._weights - self.document.learning_rate * self._velocity
        self._contributors += self.accepted
        self._sum = np.zeros_like(self._sum)
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
        if self._network.failures is not None:
            from thebes.data.rows import FAILURES

            told = self._network.failures.estimate(np.concatenate(self._failures).astype(np.int64))
            counts = np.asarray(told.value) * told.contributors
            extra["diagnostics"] = dict(zip((WORKED, *FAILURES), counts.tolist(), strict=True))
        return NetworkRelease(value, self._certificate(), {}, extra)

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        arrays: Arrays = {
            "weights": self._weights,
            "velocity": self._velocity,
            "tail": self._tail,
            "sum": self._sum,
        }
        if self._failures:
            arrays["failures"] = np.concatenate(self._failures)
        return {"contributors": self._contributors}, arrays

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self._contributors = int(facts["contributors"])
        for name in ("weights", "velocity", "tail", "sum"):
            setattr(self, f"_{name}", np.asarray(arrays[name], dtype=np.float64))
        self._failures = [arrays["failures"]] if "failures" in arrays else []

    def _packed(self, weights: NDArray[np.float64]) -> str:
        bounded = np.clip(np.nan_to_num(weights), -3e38, 3e38)
        return base64.b64encode(pack_flat(self._network.model.graph, bounded)).decode("ascii")

    def _certificate(self) -> Certificate:
        document, mechanism = self.document, self._network.mechanism
        delta = 0.0 if isinstance(mechanism, PrivUnit) else document.delta
        return Certificate(
            unit=self.setting.unit,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=document.epsilon,
            delta=delta,
            guarantee="approximate" if delta else "pure",
            mechanism=f"{mechanism.name} on each owner's clipped gradient",
            parameters=facts(document),
            bounds=None
            if document.bounds is None
            else {c: b.model_dump(mode="json", exclude_none=True) for c, b in document.bounds.items()},
            contributors=self._contributors,
            trust="none",
            notes=self.notes,
            simulated=self.setting.simulated,
        )


AGGREGATOR = GradientAggregator
