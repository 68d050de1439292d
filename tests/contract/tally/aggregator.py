"""An aggregator's half: counts, and takes the lies out again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tally.coin import honest
from tally.kind import TallyDocument
from thebes.privacy.certificate import Certificate
from thebes.privacy.promise import Adjacency
from thebes.tasks.aggregation.people import Gathering
from thebes.tasks.contributions import Contributions, Layout, Slot
from thebes.tasks.protocols import Aggregator
from thebes.tasks.release import Release


class TallyAggregator(Gathering[TallyDocument]):
    yes = 0

    def layout(self, part: str, partition: int = 0) -> Layout:
        return {"yes": Slot("integer", 0, 1)}

    def hear(self, contributions: Contributions) -> None:
        self.yes += int(contributions.fields["yes"].sum())

    def conclude(self) -> Release:
        truth = float(honest(self.document.epsilon).probability)
        share = (self.yes / max(1, self.accepted) - (1 - truth)) / (2 * truth - 1)
        certificate = Certificate(
            unit=self.setting.unit,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=self.document.epsilon,
            delta=0.0,
            guarantee="pure",
            mechanism="randomised response",
            contributors=self.accepted,
            simulated=self.setting.simulated,
        )
        return Release(share * self.accepted, certificate)

    def memory(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {"yes": self.yes}, {}

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self.yes = facts["yes"]


AGGREGATOR: type[Aggregator] = TallyAggregator
