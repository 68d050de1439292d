"""The rehearsal of a query: each statistic's numbers by themselves, which are of unlike sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.tasks.query.kind import BY_ACCURACY, QueryDocument
from thebes.tasks.rehearsal import Quantities, Rehearsal


class QueryRehearsal(Rehearsal[QueryDocument]):
    def refused(self, document: QueryDocument) -> str:
        return "it adds no noise, so there is nothing to rehearse" if document.privacy == "none" else ""

    def of_noise_alone(self, document: QueryDocument) -> bool:
        return document.statistic in BY_ACCURACY

    def quantities(self, release: Any) -> Quantities | None:
        names = release.certificate.parameters.get("statistics")
        if not isinstance(release.value, Mapping):
            return super().quantities(release)
        if not isinstance(names, Mapping):
            return {"each answer": [float(number) for number in release.value.values()]}
        found: Quantities = {}
        for key, number in release.value.items():
            found.setdefault(str(key).rpartition(", ")[2], []).append(float(number))
        return found


REHEARSAL = QueryRehearsal()
