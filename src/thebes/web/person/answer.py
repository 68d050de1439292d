"""An answer made ready to be drawn. It is the coordinator's word: whatever does not fit is said to be unreadable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from thebes.privacy.faults import ThebesError
from thebes.privacy.measurement import Interval
from thebes.tasks import registry
from thebes.tasks.answer_view import Bars, Section, Spans
from thebes.tasks.document import Document
from thebes.tasks.release_reader import release_from_json
from thebes.web import drawings


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that can be read. `number` is the one number there is, if there is one, and `bar` its error bar;
    `nothing` says why there is no answer."""

    text: str  #: what its certificate promises
    sections: Sequence[tuple[Section, Markup | None]] = ()
    number: float | None = None
    bar: Interval | None = None
    nothing: str = ""


def shown(result: Mapping[str, Any], document: Document) -> Answer | None:
    """Read the answer to a document, and draw it; None where it cannot be read."""
    try:
        return _shown(result, document)
    except (ThebesError, ValueError, TypeError, KeyError, AttributeError, IndexError, AssertionError, OverflowError):
        return None


def _shown(result: Mapping[str, Any], document: Document) -> Answer:
    release = release_from_json(result)
    text = str(release.certificate.as_json()["text"])
    if not release.answered:
        return Answer(text, nothing=str(release.extra.get("explanation", "nothing could be released")))
    sections = [(each, _drawn(each.picture)) for each in registry.view(document.type).sections(release, document)]
    if not isinstance(release.value, (int, float)):
        return Answer(text, sections)
    bar = release.interval() if release.intervals else None
    if bar is not None and not (math.isfinite(float(bar.low)) and math.isfinite(float(bar.high))):
        bar = None
    return Answer(text, sections, _finite(release.value), bar)


def _drawn(chart: Bars | Spans | None) -> Markup | None:
    """Draw a chart all of whose numbers can be drawn, or raise ValueError."""
    if chart is None:
        return None
    named = (chart.values, chart.low or {}, chart.high or {}) if isinstance(chart, Bars) else ()
    told = [number for each in named for number in each.values()]
    told += [number for row in chart.rows for number in row[1:]] if isinstance(chart, Spans) else []
    for number in told:
        _finite(number)
    return drawings.chart(chart)


def _finite(number: Any) -> float:
    found = float(number)
    if not math.isfinite(found):
        raise ValueError
    return found
