"""The rehearsal of a query: each statistic's numbers by themselves, which are of unlike sizes. Of groups that are found
one that stays unsaid counts 0; it has no mean."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from thebes.tasks.query.kind import BY_ACCURACY, QueryDocument
from thebes.tasks.rehearsal import FOUND, Quantities, Rehearsal


class QueryRehearsal(Rehearsal[QueryDocument]):
    def refused(self, document: QueryDocument) -> str:
        return "it adds no noise, so there is nothing to rehearse" if document.privacy == "none" else ""

    def finds(self, document: QueryDocument) -> tuple[str, ...]:
        return () if document.max_groups_per_person is None else document.by or ()

    def of_noise_alone(self, document: QueryDocument) -> bool:
        return document.statistic in BY_ACCURACY and not self.finds(document)

    def quantities(self, release: Any) -> Quantities | None:
        names = release.certificate.parameters.get("statistics")
        if not isinstance(release.value, Mapping):
            return super().quantities(release)
        numbers = _with_unsaid(release) if release.extra.get("found") else release.value
        found: Quantities = {}
        for key, number in numbers.items():
            name = str(key).rpartition(", ")[2] if isinstance(names, Mapping) else "each answer"
            found.setdefault(name, []).append(float(number))
        return found


def _with_unsaid(release: Any) -> dict[str, float]:
    """Return the numbers of all made-up groups, in one order whichever were found."""
    parts = [str(key).split(", ") for key in release.value]
    place = next((place for place, part in enumerate(parts[0]) if part in FOUND), None) if parts else None
    if place is None:
        return dict(release.value)
    shapes = dict.fromkeys((tuple(each[:place]), tuple(each[place + 1 :])) for each in parts)
    numbers = {}
    for before, after in shapes:
        nothing = 0.0 if _adds_up(release.certificate.parameters, after) else math.nan
        for name in FOUND:
            key = ", ".join((*before, name, *after))
            numbers[key] = release.value.get(key, nothing)
    return numbers


def _adds_up(parameters: Mapping[str, Any], after: tuple[str, ...]) -> bool:
    """Return whether nobody in a group makes its number 0."""
    several = parameters.get("statistics")
    statistic = several.get(after[-1]) if isinstance(several, Mapping) and after else parameters.get("statistic")
    return (statistic.get("statistic") if isinstance(statistic, Mapping) else statistic) in BY_ACCURACY


REHEARSAL = QueryRehearsal()
