"""An aggregator's half: counts, and takes the lies out again."""

from __future__ import annotations

from tally.coin import honest
from thebes.privacy.certificate import Certificate
from thebes.privacy.promise import Adjacency
from thebes.tasks.aggregation.people import Gathering
from thebes.tasks.contributions import Slot
from thebes.tasks.release import Release


class TallyAggregator(Gathering):
    yes = 0

    def layout(self, part, partition=0):
        return {"yes": Slot("integer", 0, 1)}

    def hear(self, contributions):
        self.yes += int(contributions.fields["yes"].sum())

    def conclude(self):
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

    def memory(self):
        return {"yes": self.yes}, {}

    def remember(self, facts, arrays):
        self.yes = facts["yes"]


AGGREGATOR = TallyAggregator
