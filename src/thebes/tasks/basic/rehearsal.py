"""The rehearsal of one statistic: a count reads no value, so that it needs no bounds."""

from __future__ import annotations

from thebes.tasks.basic.kind import BasicDocument
from thebes.tasks.rehearsal import Rehearsal


class StatisticRehearsal(Rehearsal[BasicDocument]):
    def refused(self, document: BasicDocument) -> str:
        return "" if document.aggregator == "count" else super().refused(document)


REHEARSAL = StatisticRehearsal()
