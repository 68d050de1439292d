"""The look of what sites answered to a question: a number with its error bar, or one for each group or value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from thebes.privacy.figures import spaced
from thebes.tasks import number_view
from thebes.tasks.answer_view import MOST_DRAWN, AnswerTable, Bars, Section, Spans
from thebes.tasks.query.kind import QueryDocument
from thebes.tasks.release import Release

_COUNTED = ("count", "histogram")
table = number_view.table


def sections(release: Release, document: QueryDocument) -> list[Section]:
    return [*_answer(release, document), *_exactness(release)]


def _answer(release: Release, document: QueryDocument) -> list[Section]:
    if document.statistics is not None:
        return [_several(release, document)]
    if not isinstance(release.value, Mapping) or document.statistic in _COUNTED:
        return number_view.sections(release, document)
    head, rows = table(release)
    head = (" and ".join(document.by or ()) or "group", document.asks, *head[2:])
    picture: Bars | Spans
    if not release.intervals:
        picture = Bars({row[0]: row[1] for row in rows[:MOST_DRAWN]}, title=f"{document.statistic} of each group")
        return [Section("By group", "", picture, AnswerTable.of(head, rows), folded=True)]
    picture = Spans(rows[:MOST_DRAWN], title=f"The {document.statistic} of each group, with its error bar")
    words = "The line reaches from end to end of each group's error bar."
    return [Section("By group", words, picture, AnswerTable.of(head, rows), folded=True)]


def _several(release: Release, document: QueryDocument) -> Section:
    """Show several statistics as a table alone: they are of unlike sizes."""
    head, rows = table(release)
    return Section("Answers", "", table=AnswerTable.of(("statistic", "value", *head[2:]), rows))


def _exactness(release: Release) -> Iterator[Section]:
    """Tell how exact an answer is, where that was asked."""
    exact = release.extra.get("accuracy")
    if exact is not None:
        asked = f"Asked for: within {spaced(exact['alpha'])}, but for the odds {spaced(exact['beta'])}."
        found = "not known" if exact["reached"] is None else f"within {spaced(exact['reached'])}"
        yield Section("How exact it is", f"{asked} As it was answered: {found}.")
