"""The aggregator of a basic task that one server is trusted with: many values in, one statistic with its error bar
out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from thebes.privacy.certificate import Certificate
from thebes.privacy.promise import Adjacency
from thebes.tasks.aggregation.columns import Keeping
from thebes.tasks.basic.kind import BasicDocument
from thebes.tasks.basic.statistics import StatisticAnswer, answer, count_of, histogram_of
from thebes.tasks.document import FAILURE
from thebes.tasks.missing_values import EpsilonShares, measured
from thebes.tasks.protocols import Setting
from thebes.tasks.release import Release


class BasicAggregator(Keeping[BasicDocument]):
    def conclude(self) -> Release:
        columns, document, source = self.columns(), self.document, self.setting.randomness
        epsilon = EpsilonShares.of(document).answer
        values = [columns[name] for name in document.gives]
        missing = np.logical_or.reduce([v == "" if v.dtype.kind == "U" else np.isnan(v.astype(float)) for v in values])
        if document.aggregator == "count":
            found = count_of(document, missing, epsilon, source)
        elif document.aggregator == "histogram":
            found = histogram_of(document, values[0], missing, epsilon, source)
        else:
            table = np.column_stack([v.astype(np.float64) for v in values])
            found = answer(document, table, missing, epsilon, source)
        return self.released(found, measured(document, missing, columns.get(FAILURE), source))

    def released(self, found: StatisticAnswer, beside: Mapping[str, Any], *, trust: str = "server") -> Release:
        """Return an answer as a release, with what was measured beside it."""
        extra = {**beside, **found.beside}
        if found.missing is not None:
            extra["missing"] = found.missing
        if found.explanation is not None:
            extra["explanation"] = found.explanation
        if found.note is not None:
            extra["interval_note"] = found.note
        return Release(found.value, self._certificate(found, trust), found.intervals, extra)

    def _certificate(self, found: StatisticAnswer, trust: str) -> Certificate:
        delta = found.delta
        return Certificate(
            unit=self.setting.unit,
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=self.document.epsilon,
            delta=delta,
            guarantee="approximate" if delta else "pure",
            mechanism=found.mechanism,
            parameters={**found.parameters, "noise_drawn_by": self.setting.randomness.drawn_by},
            bounds=found.bounds,
            contributors=self.accepted,
            trust=trust,
            estimated=found.estimated,
            notes=self.notes,
            simulated=self.setting.simulated or self.setting.randomness.simulated,
        )


def AGGREGATOR(document: BasicDocument, setting: Setting) -> BasicAggregator:
    """Make the aggregator of one server, of the first of two, or of the two that a simulation plays."""
    from thebes.tasks.basic.split_answer import BareStatistic, SplitAggregator, SplitLeader

    if document.server != "split":
        return BasicAggregator(document, setting)
    if not setting.simulated:
        return SplitLeader(document, setting)
    return (SplitAggregator if setting.proofs else BareStatistic)(document, setting)
