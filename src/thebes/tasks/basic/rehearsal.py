"""The rehearsal of one statistic. A count reads no value and an open histogram finds its own: they need no bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.tasks.basic.kind import ADDED_UP, BasicDocument
from thebes.tasks.document import Range, Values
from thebes.tasks.rehearsal import FOUND, Quantities, Rehearsal


class StatisticRehearsal(Rehearsal[BasicDocument]):
    def refused(self, document: BasicDocument) -> str:
        return "" if document.aggregator == "count" or self.finds(document) else super().refused(document)

    def finds(self, document: BasicDocument) -> tuple[str, ...]:
        return document.gives if document.aggregator == "histogram" and not document.bounds else ()

    def guess(self, document: BasicDocument, people: int) -> float | None:
        """Return the statistic of values that are spread evenly over the bounds; of a count that half have one."""
        name, bound = document.aggregator, (document.bounds or {}).get(document.column)
        if name == "count":
            return people / 2
        if name == "histogram":
            keys = len(bound.values) if isinstance(bound, Values) else document.bins
            return None if keys is None else people / keys
        if not isinstance(bound, Range):
            return None
        width = bound.high - bound.low
        spread: dict[str, float] = {
            "mean": bound.middle,
            "median": bound.middle,
            "sum": people * bound.middle,
            "quantile": bound.low + (document.quantile or 0.5) * width,
            "variance": width**2 / 12,
            "std": width / 12**0.5,
            "iqr": width / 2,
        }
        return spread.get(name)

    def grows(self, document: BasicDocument) -> bool:
        return document.aggregator in ADDED_UP

    def of_noise_alone(self, document: BasicDocument) -> bool:
        plain = document.aggregator in ADDED_UP and not self.finds(document)
        return plain and not self.refused(document)

    def quantities(self, release: Any) -> Quantities | None:
        """Take a value that an open histogram leaves unsaid for a count of 0."""
        if isinstance(release.value, Mapping) and set(release.value) <= FOUND.keys():
            return {"each count": [float(release.value.get(name, 0.0)) for name in FOUND]}
        return super().quantities(release)


REHEARSAL = StatisticRehearsal()
