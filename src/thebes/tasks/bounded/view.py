"""Perturbed rows: what they say together, and the first of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from thebes.tasks.answer_view import MOST_DRAWN, AnswerTable, Bars, Cells, Section, Spans, percent, short, telling
from thebes.tasks.document import PeopleDocument, Range
from thebes.tasks.release import Release

FIRST_ROWS = 12  #: on the page


def sections(release: Release, document: PeopleDocument) -> list[Section]:
    told: Any = release
    sections: list[Section] = []
    picture: Bars | Spans
    for column, shares in list(told.frequencies.items())[:MOST_DRAWN]:
        names = {str(key): float(share) for key, share in list(shares.items())[:MOST_DRAWN]}
        bar = told.frequency_interval(column)
        low, high = (None, None) if bar is None else (_percents(names, bar.low), _percents(names, bar.high))
        title = f"Share of each value of {column} in per cent" + ("" if bar is None else ", with error bars")
        words = "How frequent each value is among those who took part, freed of the noise."
        percents = {name: 100 * share for name, share in names.items()}
        picture = Bars(percents, title=title, low=low, high=high, unit=" %")
        words += "" if bar is None else " With 95 % error bars."
        words += telling([(low[name], high[name]) for name in names] if low and high else (), (0, 100))
        sections.append(Section(column, words, picture))
    for column, bound in list((document.bounds or {}).items())[:MOST_DRAWN]:
        if isinstance(bound, Range):
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
    head, rows = table(release)
    words = f"{len(rows)} rows, each changed at random before it left. No single one can be believed."
    return [*sections, Section("Rows", words, table=AnswerTable.of(head, rows, FIRST_ROWS), folded=True)]


def _percents(names: Iterable[str], shares: Any) -> dict[str, float]:
    return dict(zip(names, (100 * np.asarray(shares)).tolist(), strict=False))


def table(release: Release) -> Cells:
    frame = release.rows  # type: ignore[attr-defined]
    return tuple(str(c) for c in frame.columns), list(frame.itertuples(index=False, name=None))
