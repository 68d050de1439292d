"""The aggregator of a gradient task: it hears gradients that were noised at home, or, with a helper, shares of them.

It keeps sums only: its memory does not grow with the number of contributors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.certificate import Certificate
from thebes.privacy.mechanisms.local.privunit import PrivUnit
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.document import FAILURE
from thebes.tasks.gradient.descent import GradientDescending
from thebes.tasks.gradient.kind import GradientDocument
from thebes.tasks.gradient.network import REPORT
from thebes.tasks.gradient.release import NetworkRelease
from thebes.tasks.missing_values import WORKED
from thebes.tasks.protocols import Setting

_AT_ONCE = 2**22


class GradientAggregator(GradientDescending):
    """The mean of gradients of which each was noised at home."""

    def __init__(self, document: GradientDocument, setting: Setting) -> None:
        super().__init__(document, setting)
        self._sum = np.zeros_like(self._weights)
        self._failures: list[NDArray[np.generic]] = []

    def layout(self, part: str, partition: int = 0) -> Layout:
        return self._network.layout()

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
        made = self.stepped(self._sum)
        self._sum = np.zeros_like(self._sum)
        return made

    def beside(self) -> dict[str, Any]:
        if self._network.failures is None:
            return {}
        from thebes.data.rows import FAILURES

        told = self._network.failures.estimate(np.concatenate(self._failures).astype(np.int64))
        counts = np.asarray(told.value) * told.contributors
        return {"diagnostics": dict(zip((WORKED, *FAILURES), counts.tolist(), strict=True))}

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

    def promise(self) -> Certificate:
        mechanism = self._network.mechanism
        delta = 0.0 if isinstance(mechanism, PrivUnit) else self.document.delta
        named = f"{mechanism.name} on each owner's clipped gradient"
        return self.certificate(delta=delta, mechanism=named, parameters={}, trust="none")


def AGGREGATOR(document: GradientDocument, setting: Setting) -> GradientDescending:
    """Make the aggregator of one server, of the first of two, or of the two that a simulation plays."""
    from thebes.tasks.gradient.split_answer import BareGradients, GradientLeader, SimulatedGradientServers

    if document.server != "split":
        return GradientAggregator(document, setting)
    if not setting.simulated:
        return GradientLeader(document, setting)
    return (SimulatedGradientServers if setting.proofs else BareGradients)(document, setting)
