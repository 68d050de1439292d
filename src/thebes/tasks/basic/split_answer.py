"""The answer of a basic task with two servers, from the sums that both have noised: the same in simulations, where one
process plays both, and at the coordinator, which is one of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.measurement import Measurement
from thebes.sharing import Elements, context_of
from thebes.tasks.aggregation.snapshots import Arrays
from thebes.tasks.aggregation.split_servers import totals
from thebes.tasks.basic.aggregator import BasicAggregator
from thebes.tasks.basic.kind import BasicDocument
from thebes.tasks.basic.split import influence, statistic
from thebes.tasks.basic.statistics import StatisticAnswer, made_of
from thebes.tasks.contributions import Layout
from thebes.tasks.missing_values import told
from thebes.tasks.protocols import Setting
from thebes.tasks.release import Release
from thebes.tasks.split_reports import layout_of


class SplitAnswer(BasicAggregator):
    """An aggregator of reports in shares. `noised` says what it adds up to at both servers."""

    def __init__(self, document: BasicDocument, setting: Setting) -> None:
        super().__init__(document, setting)
        self._asked = statistic(document, setting.randomness)
        self._context = context_of(bytes.fromhex(document.digest), self.part)
        self._prio = self._asked.make(self._context)

    @property
    @abstractmethod
    def servers(self) -> Sequence[str]:
        """Name the two servers, of which one must keep its word."""

    @property
    def of_servers(self) -> dict[str, Any]:
        """Say of the two, and of what a liar could do, what stands on the certificate."""
        return {"servers": list(self.servers), "influence": influence(self.document)}

    @abstractmethod
    def noised(self) -> Sequence[Elements]:
        """Return the sum of each server, with its noise."""

    def layout(self, part: str, partition: int = 0) -> Layout:
        return layout_of(self._prio)

    def conclude(self) -> Release:
        noises, people = self._asked.noises, self.accepted
        sums = totals(self.noised(), noises)
        first = noises[0].count
        found = self._answer(self._asked.conclude(sums[:first], people), people)
        if len(noises) > 1:
            found = replace(found, missing=told(self._asked.missing(float(sums[first]))))
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

    def memory(self) -> tuple[dict[str, Any], Arrays]:
        """Return nothing: there is one phase, and what was heard in it is heard again or ends with it."""
        return {}, {}

    def remember(self, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Remember nothing."""
