"""The look of a number with its error bars, or of one for each key: that of every kind which has none of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from thebes.tasks.answer_view import MOST_DRAWN, AnswerTable, Bars, Cells, Section, Spans, percent, telling
from thebes.tasks.document import Document, PeopleDocument, Range
from thebes.tasks.release import LEVEL, Release


def sections(release: Release, document: Document) -> list[Section]:
    if isinstance(release.value, Mapping):
        return _counts(release, document)
    if not isinstance(release.value, (int, float)):
        return [Section("Answer", "There is no drawing of it. Download it.")]
    value = float(release.value)
    bars = [(bar.level, float(bar.low), float(bar.high)) for bar in release.intervals.values()]
    bars = [bar for bar in bars if math.isfinite(bar[1]) and math.isfinite(bar[2])]
    note = str(release.extra.get("interval_note", ""))
    if not bars:
        return [Section("Error bar", release.interval_note)]
    # what sites are asked for has no bounds of the document's own
    bound = (document.bounds or {}).get(document.gives[0]) if isinstance(document, PeopleDocument) else None
    least, most = (bound.low, bound.high) if isinstance(bound, Range) and _inside(value, bound, bars) else (None, None)
    if getattr(document, "aggregator", "") in ("sum", "count", "variance"):
        least = most = None
    words = "Where the exact answer lies, so many times out of a hundred. It speaks of the noise, not of who took part."
    words = f"{words} {note}".rstrip() + _telling(release, document, [bar[1:] for bar in bars if bar[0] == LEVEL])
    picture = Spans(
        [(percent(level), value, low, high) for level, low, high in bars],
        title="The answer with its error bar at several levels",
        least=least,
        most=most,
    )
    table = AnswerTable.of(("Level", "From", "To"), [(percent(level), low, high) for level, low, high in bars])
    return [Section("Error bar", words, picture, table, folded=True)]


def _telling(release: Release, document: Document, bars: Iterable[tuple[float, float]]) -> str:
    """Say that it tells nothing, of what people answered: what is possible at sites their data sets declare."""
    if not isinstance(document, PeopleDocument):
        return ""
    return telling(bars, document.possible(release.certificate.contributors))


def _inside(value: float, bound: Range, bars: Sequence[tuple[float, float, float]]) -> bool:
    """Return whether the declared range is near enough to the error bars to be worth drawing."""
    width = max(high - low for _, low, high in bars)
    return bound.low <= value <= bound.high and width > 0.02 * (bound.high - bound.low)


def _counts(release: Release, document: Document) -> list[Section]:
    head, rows = table(release)
    if not rows:
        return [Section("Counts", "No value was given by enough people to be shown.")]
    barred = len(head) > 2
    drawn = rows if len(rows) <= MOST_DRAWN else sorted(rows, key=lambda row: -row[1])[:MOST_DRAWN]
    picture = Bars(
        {row[0]: row[1] for row in drawn},
        title=f"{len(drawn)} bars, one for each value" + (", each with its error bar" if barred else ""),
        low={row[0]: row[2] for row in drawn} if barred else None,
        high={row[0]: row[3] for row in drawn} if barred else None,
    )
    words = "Noise can make a count negative; it is shown as it is." if any(row[1] < 0 for row in rows) else ""
    if len(drawn) < len(rows):
        words = f"The {len(drawn)} largest of {len(rows)} are drawn. {words}".strip()
    words = (words + _telling(release, document, [row[2:4] for row in rows] if barred else ())).strip()
    return [Section("Counts", words, picture, AnswerTable.of(head, rows), folded=True)]


def table(release: Release) -> Cells:
    if not isinstance(release.value, (int, float, Mapping)):
        return ("value",), []
    if not isinstance(release.value, Mapping):
        rows = [
            (percent(b.level), float(release.value), float(b.low), float(b.high)) for b in release.intervals.values()
        ]
        return ("level", "value", "low", "high"), list(rows) or [("", float(release.value), "", "")]
    keys = [str(key) for key in release.value]
    values = [float(number) for number in release.value.values()]
    bar = release.interval(0.95) if release.intervals else None
    if bar is None:
        return ("value", "count"), list(zip(keys, values, strict=True))
    low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), len(keys)).tolist() for end in (bar.low, bar.high))
    return ("value", "count", "low", "high"), list(zip(keys, values, low, high, strict=True))
