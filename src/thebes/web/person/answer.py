"""An answer made ready to be drawn. It is the coordinator's word: whatever does not fit is said to be unreadable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from thebes.privacy.faults import ThebesError
from thebes.privacy.measurement import Interval
from thebes.tasks import drawings, quality_view, registry
from thebes.tasks.answer_view import Bars, Section, Spans, one_number
from thebes.tasks.document import Document
from thebes.tasks.release_reader import release_from_json


@dataclass(frozen=True, slots=True)
class ReadableAnswer:
    """An answer that can be read. `number` is the one number there is, if there is one, and `bar` its error bar;
    `nothing` says why there is no answer."""

    text: str  #: what its certificate promises
    sections: Sequence[tuple[Section, Markup | None]] = ()
    number: float | None = None
    bar: Interval | None = None
    nothing: str = ""


def shown(result: Mapping[str, Any], document: Document) -> ReadableAnswer | None:
    """Read the answer to a document, and draw it; None where it cannot be read."""
    try:
        return _shown(result, document)
    except (ThebesError, ValueError, TypeError, KeyError, AttributeError, IndexError, AssertionError, OverflowError):
        return None


def _shown(result: Mapping[str, Any], document: Document) -> ReadableAnswer:
    release = release_from_json(result)
    text = str(release.certificate.as_json()["text"])
    if not release.answered:
        return ReadableAnswer(text, nothing=str(release.extra.get("explanation", "nothing could be released")))
    said = (*registry.view(document.type).sections(release, document), *quality_view.sections(release))
    sections = [(each, _drawn(each.picture)) for each in said]
    if release.form == "rows":  # their frame is made only when it is asked for: a person's machine has no pandas
        return ReadableAnswer(text, sections)
    number, bar = one_number(release) or (None, None)
    if number is None and isinstance(release.value, (int, float)):
        raise ValueError("a number that is not finite")
    return ReadableAnswer(text, sections, number, bar)


def _drawn(chart: Bars | Spans | None) -> Markup | None:
    """Draw a chart all of whose numbers can be drawn, or raise ValueError."""
    if chart is None:
        return None
    named = (chart.values, chart.low or {}, chart.high or {}) if isinstance(chart, Bars) else ()
    told = [number for each in named for number in each.values()]
    told += [number for row in chart.rows for number in row[1:]] if isinstance(chart, Spans) else []
    if not all(math.isfinite(float(number)) for number in told):
        raise ValueError("a number that is not finite")
    return drawings.chart(chart)
