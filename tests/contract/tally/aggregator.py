"""An aggregator's half: counts, and takes the lies out again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tally.kind import TallyDocument
from thebes.privacy.certificate import Certificate
from thebes.privacy.measurement import Interval
from thebes.privacy.promise import Adjacency
from thebes.tasks.aggregation.people import Gathering
from thebes.tasks.contributions import Contributions, Layout, Slot
from thebes.tasks.protocols import Aggregator
from thebes.tasks.release import LEVELS, Release


class TallyAggregator(Gathering[TallyDocument]):
    yes = 0

    def layout(self, part: str, partition: int = 0) -> Layout:
        return {"yes": Slot("integer", 0, 1)}

    def hear(self, contributions: Contributions) -> None:
        self.yes += int(contributions.fields["yes"].sum())

    def conclude(self) -> Release:
        mechanism, people = self.document.mechanism, self.accepted
        found = mechanism.estimate(np.repeat([0, 1], [people - self.yes, self.yes]))
        intervals = {
            level: Interval(level, *(float(np.asarray(end)[1]) * people for end in (bar.low, bar.high)))
            for level, bar in ((level, found.interval(level)) for level in LEVELS)
        }
        certificate = Certificate(
            unit=self.setting.unit,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=self.document.epsilon,
            delta=0.0,
            guarantee="pure",
            mechanism=mechanism.name,
            parameters=mechanism.parameters(),
            contributors=people,
            simulated=self.setting.simulated,
            notes=self.notes,
        )
        return Release(float(found.value[1]) * people, certificate, intervals)

    def memory(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return {"yes": self.yes}, {}

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self.yes = facts["yes"]


AGGREGATOR: type[Aggregator] = TallyAggregator
