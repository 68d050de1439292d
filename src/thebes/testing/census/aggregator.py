"""Adding up: what every site sent in every phase, and the sum so far goes out with the next ask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.certificate import Certificate
from thebes.privacy.promise import Adjacency
from thebes.tasks.aggregation.sites import Convening
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.contributions import Contributions, Layout, Slot
from thebes.tasks.protocols import Setting
from thebes.tasks.release import Release
from thebes.testing.census.kind import CensusDocument


class CensusAggregator(Convening[CensusDocument]):
    def __init__(self, document: CensusDocument, setting: Setting) -> None:
        super().__init__(document, setting)
        self.total = np.zeros(document.size)

    def layout(self, part: str, partition: int = 0) -> Layout:
        kind = "number" if self.document.packed else "integer"
        slot = Slot(kind, 0, self.document.most, length=self.document.size, packed=self.document.packed)  # type: ignore[arg-type]
        return {"numbers": slot}

    def payload(self, site: str) -> dict[str, Any]:
        return {"so_far": self.total.copy()} if self.phase else {}

    def hear(self, site: str, contributions: Contributions) -> None:
        self.total += np.asarray(contributions.fields["numbers"][0], dtype=np.float64)

    def conclude(self) -> Release:
        promise = Certificate(
            unit=self.unit,
            adjacency=Adjacency.ADD_REMOVE_ONE,
            epsilon=self.document.epsilon,
            delta=0.0,
            guarantee="none",
            mechanism="none",
            trust=self.trust,
            notes=self.notes,
        )
        return Release(float(self.total.sum()), promise, extra=self.coverage)

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        return {}, {"total": self.total}

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self.total = np.asarray(arrays["total"], dtype=np.float64)


AGGREGATOR = CensusAggregator
