"""The answer of a basic task with two servers, from the sums that both have noised: the same in simulations, where one
process plays both, and at the coordinator, which is one of them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from thebes.privacy.measurement import Measurement
from thebes.tasks.aggregation.both_servers import BareSums, BothServers
from thebes.tasks.aggregation.leading_server import LeadingServer
from thebes.tasks.aggregation.split_gathering import SplitGathering
from thebes.tasks.basic.aggregator import BasicAggregator
from thebes.tasks.basic.kind import BasicDocument
from thebes.tasks.basic.split import SplitStatistic, statistic
from thebes.tasks.basic.statistics import StatisticAnswer, made_of
from thebes.tasks.missing_values import told
from thebes.tasks.release import Release


class SplitAnswer(SplitGathering[BasicDocument], BasicAggregator):
    """An aggregator of reports in shares."""

    @cached_property
    def splitting(self) -> SplitStatistic:
        return statistic(self.document, self.setting.randomness)

    def conclude(self) -> Release:
        noises, people = self.splitting.noises, self.accepted
        sums = self.opened()
        first = noises[0].count
        found = self._answer(self.splitting.conclude(sums[:first], people), people)
        if len(noises) > 1:
            found = replace(found, missing=told(self.splitting.missing(float(sums[first]))))
        parameters = {**found.parameters, **self.of_servers}
        return self.released(replace(found, parameters=parameters), {}, trust="split")

    def _answer(self, measured: Measurement, people: int) -> StatisticAnswer:
        document, size = self.document, self.document.cells
        declared = (document.bounds or {}).get(document.column)
        bounds = None if declared is None else {document.column: declared.model_dump(mode="json", exclude_none=True)}
        if document.aggregator == "count":
            without = replace(measured, value=people - measured.value)
            return replace(made_of(document, measured, None), missing=told(without))
        if document.aggregator != "histogram" or document.missing != "count":
            return made_of(document, measured, bounds)
        missing = replace(measured, value=float(measured.value[size]))
        found = made_of(document, replace(measured, value=measured.value[:size]), bounds)
        return replace(found, missing=told(missing))


class SplitAggregator(BothServers[BasicDocument], SplitAnswer):
    """Both servers of a basic task that is simulated."""


class BareStatistic(BareSums[BasicDocument], SplitAnswer):
    """Both servers of a basic task that is simulated without shares and proofs."""


class SplitLeader(LeadingServer[BasicDocument], SplitAnswer):
    """The first of the two servers of a basic task."""
