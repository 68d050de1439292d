"""Perturbed rows: what they say together, and the first of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from thebes.tasks.answer_view import MOST_DRAWN, AnswerTable, Bars, Cells, Section, Spans, percent, short, telling
from thebes.tasks.bounded.kind import PRESENT
from thebes.tasks.document import PeopleDocument, Range
from thebes.tasks.release import Release

FIRST_ROWS = 12  #: on the page


def sections(release: Release, document: PeopleDocument) -> list[Section]:
    told: Any = release
    there = [column for column in told.frequencies if column.endswith(PRESENT)]
    rest = [column for column in told.frequencies if column not in there]
    head, rows = table(release)
    words = f"{len(rows)} rows, each changed at random before it left. No single one can be believed."
    return [
        *_means(told, document),
        *(_shares(told, column, column) for column in rest[:MOST_DRAWN]),
        *(_shares(told, each, f"Who has a value for {each.removesuffix(PRESENT)}") for each in there[:MOST_DRAWN]),
        Section("Rows", words, table=AnswerTable.of(head, rows, FIRST_ROWS), folded=True),
    ]


def _means(told: Any, document: PeopleDocument) -> list[Section]:
    """Say the mean of each range, with its error bar at several levels."""
    sections: list[Section] = []
    for column, bound in list((document.bounds or {}).items())[:MOST_DRAWN]:
        if not isinstance(bound, Range):
            continue
        mean, bar = told.mean(column)
        words = f"The mean among those who took part, freed of the noise: {short(mean)}"
        if bar is None:
            sections.append(Section(column, f"{words}. Long rows were shortened, so it has no error bar."))
            continue
        bars = [told.mean(column, level) for level in (0.5, 0.8, 0.95, 0.99)]
        picture = Spans(
            [(percent(bar.level), value, float(bar.low), float(bar.high)) for value, bar in bars],
            title=f"Mean of {column} with its error bar at several levels",
        )
        words += f" ({percent(bar.level)} interval {short(float(bar.low))} to {short(float(bar.high))})."
        words += telling([(float(bar.low), float(bar.high))], (bound.low, bound.high))
        sections.append(Section(column, words, picture))
    return sections


def _shares(told: Any, column: str, called: str) -> Section:
    """Say how frequent each value of a column is; noise may put a share where none can be, and then that is said."""
    shares, there = list(told.frequencies[column].items())[:MOST_DRAWN], column.endswith(PRESENT)
    names = {(("yes" if key else "no") if there else str(key)): float(share) for key, share in shares}
    bar = told.frequency_interval(column)
    low, high = (None, None) if bar is None else (_percents(names, bar.low), _percents(names, bar.high))
    subject = called if there else f"Share of each value of {column}"
    title = f"{subject} in per cent" + ("" if bar is None else ", with error bars")
    words = "How frequent each value is among those who took part, freed of the noise."
    percents = {name: 100 * share for name, share in names.items()}
    picture = Bars(percents, title=title, low=low, high=high, unit=" %")
    words += "" if bar is None else " With 95 % error bars."
    if any(not 0 <= share <= 100 for share in percents.values()):
        words += " Noise can put a share below 0 or above 100 %; it is shown as it is."
    words += telling([(low[name], high[name]) for name in names] if low and high else (), (0, 100))
    return Section(called, words, picture)


def _percents(names: Iterable[str], shares: Any) -> dict[str, float]:
    return dict(zip(names, (100 * np.asarray(shares)).tolist(), strict=False))


def table(release: Release) -> Cells:
    columns = release.as_columns()  # not its frame: a person's machine has no pandas
    return tuple(columns), list(zip(*columns.values(), strict=True))
