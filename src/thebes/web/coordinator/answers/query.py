"""Answers that sites gave to a question: a number with its error bar, or one for each group or value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from thebes.tasks.release import Release
from thebes.web import drawings
from thebes.web.coordinator.answers import number
from thebes.web.coordinator.answers.pieces import MOST_DRAWN, Section, Table
from thebes.web.figures import figure

#: where an answer came from that did not simply come from the rows
SOURCES = {
    "cache": "it had released the same before",
    "synopsis": "follows from what it had released before, checked against its rows",
}
_COUNTED = ("count", "histogram")
table = number.table


def sections(release: Release, document: Any) -> list[Section]:
    if document.type == "algorithm":  # which asks like a query
        document = document.question
    return [*_answer(release, document), *_exactness(release)]


def _answer(release: Release, document: Any) -> list[Section]:
    if not isinstance(release.value, Mapping) or document.statistic in _COUNTED:
        return number.sections(release, document)
    head, rows = table(release)
    head = (" and ".join(document.by or ()) or "group", document.statistic, *head[2:])
    if not release.intervals:
        picture = drawings.bars(
            {row[0]: row[1] for row in rows[:MOST_DRAWN]}, title=f"{document.statistic} of each group"
        )
        return [Section("By group", "", picture, Table.of(head, rows), folded=True)]
    picture = drawings.spans(rows[:MOST_DRAWN], title=f"The {document.statistic} of each group, with its error bar")
    words = "The line reaches from end to end of each group's error bar."
    return [Section("By group", words, picture, Table.of(head, rows), folded=True)]


def _exactness(release: Release) -> Iterator[Section]:
    """Tell how exact an answer is, where that was asked."""
    exact = release.extra.get("accuracy")
    if exact is not None:
        asked = f"Asked for: within {figure(exact['alpha'])}, but for the odds {figure(exact['beta'])}."
        found = "not known" if exact["reached"] is None else f"within {figure(exact['reached'])}"
        yield Section("How exact it is", f"{asked} As it was answered: {found}.")
