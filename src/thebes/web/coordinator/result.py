"""A release as its page shows it: sections of words, a drawing and a table, the same for every kind.

What must stay true: every number that is shown was released; an error bar is drawn where the release has one, and
where it has none the page says so.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thebes.privacy.figures import spaced
from thebes.tasks import quality_view, registry
from thebes.tasks.answer_view import AnswerTable, Section, one_number, percent, plain, short
from thebes.tasks.document import Document
from thebes.tasks.kind_failure import KindFailed
from thebes.tasks.model_card import ModelCard
from thebes.tasks.release import Release
from thebes.tasks.release_reader import release_from_json
from thebes.wire.refusals import NotFound

#: where an answer came from that did not simply come from the rows
SOURCES = {
    "cache": "it had released the same before",
    "synopsis": "follows from what it had released before, checked against its rows",
}


@dataclass(frozen=True, slots=True)
class ShownResult:
    """A whole result. `answer` is the one number there is, if there is one."""

    sections: tuple[Section, ...]
    certificate: Mapping[str, Any]
    facts: tuple[tuple[str, str], ...]
    answer: float | None = None
    around: str = ""  #: the answer's error bar in words
    nothing: str = ""  #: why there is no answer
    card: ModelCard | None = None  #: of a model


def shown(document: Document, body: str) -> ShownResult:
    """The stored JSON text of a release, read for its page."""
    release = release_from_json(json.loads(body))
    certificate = release.certificate.as_json()
    beside = tuple(_beside(release))
    if not release.answered:
        why = str(release.extra.get("explanation", "nothing could be released"))
        return ShownResult(beside, certificate, tuple(_facts(certificate, release)), nothing=why)
    answer, bar = one_number(release) or (None, None)
    around = "" if bar is None else f"{percent(bar.level)} interval {short(float(bar.low))} to {short(float(bar.high))}"
    try:
        answered: Iterable[Section] = registry.view(document.type).sections(release, document)
    except KindFailed as failed:
        answered = [Section("The answer", str(failed))]
    sections = (*answered, *beside)
    card = None
    if type(release).model is not Release.model:
        card = release.card(document.as_json())
    return ShownResult(sections, certificate, tuple(_facts(certificate, release)), answer, around, card=card)


def table_of(document: Document, body: str) -> str:
    """The same as CSV: every number, key or row."""
    release = release_from_json(json.loads(body))
    if not release.answered:
        raise NotFound("there is no answer to put into a table")
    return csv_of(*registry.view(document.type).table(release))


def csv_of(head: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A table as CSV; a text cell that a spreadsheet would run gets an apostrophe."""
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_NONNUMERIC)  # where ";" separates, it must not begin a cell either
    writer.writerow([_harmless(cell) for cell in head])
    writer.writerows([[_harmless(plain(cell)) for cell in row] for row in lines])
    return written.getvalue()


# --- what stands beside every answer ------------------------------------------------------------------------


def _beside(release: Release) -> Iterable[Section]:
    yield from quality_view.sections(release)
    if "missing" in release.extra:
        told = release.extra["missing"]
        yield Section("Without a value", f"{short(float(told['value']))} people, counted privately.")
    if "coverage" in release.extra:
        yield _covered(release)
    if "diagnostics" in release.extra:
        rows = list(release.extra["diagnostics"].items())
        yield Section("Machines on which the query fails", table=AnswerTable.of(("kind of error", "count"), rows))


def _covered(release: Release) -> Section:
    """Tell who is in the answer, and who is not, for which reason."""
    covered, paid = release.extra["coverage"], release.extra.get("sites", {})
    everywhere = {"cost": release.extra.get("cost"), "source": release.extra.get("source")}
    rounds, missed = covered.get("rounds", {}), covered.get("missed", {})
    lines: list[tuple[str, str, str]] = []
    for site in covered["answered"]:
        told = f"in {rounds[site]} rounds" if site in rounds else _paid(**{**everywhere, **paid.get(site, {})})
        away = missed.get(site)
        lines.append((site, "in it", f"{told}; missed {away['rounds']}: {away['why']}" if away else told))
    lines += [(site, "missing", why) for site, why in covered["missing"].items()]
    words = (
        f"{len(covered['answered'])} of {len(lines)} sites are in it. It says nothing about the rows of the others."
        if covered["missing"]
        else "Every site that was asked is in it."
    )
    return Section(
        "Who is in it", words, table=AnswerTable.of(("site", "answer", "what it paid, or why it is missing"), lines)
    )


def _paid(*, cost: Mapping[str, float] | None, source: str | None) -> str:
    """Say what an answer cost, and where it came from if not simply from the rows."""
    price = "" if cost is None else f"epsilon {short(cost['epsilon'])}"
    price += f", delta {short(cost['delta'])}" if cost and cost["delta"] else ""
    came = SOURCES.get(source or "", "")
    return f"{price}: {came}" if came else price


_NAMES = {
    "unit": "protects one",
    "adjacency": "against changing",
    "epsilon": "epsilon",
    "delta": "delta",
    "guarantee": "guarantee",
    "mechanism": "mechanism",
    "contributors": "contributors",
    "trust": "must be trusted",
    "estimated": "estimated from the data",
    "simulated": "simulated",
}


def _facts(certificate: Mapping[str, Any], release: Release) -> Iterable[tuple[str, str]]:
    """The certificate as names and values."""
    for key, name in _NAMES.items():
        value = certificate[key]
        if value is None:
            value = "private"
        elif isinstance(value, bool):
            value = "yes" if value else "no"
        elif isinstance(value, list):
            value = ", ".join(map(str, value)) or "nothing"
        elif key == "trust":
            value = {"none": "nobody", "site": "each site, with its own rows"}.get(value, value)
        yield name, spaced(value) if isinstance(value, float) else str(value)
    columns = {str(place): name for place, name in enumerate(release.extra.get("inputs", ()))}
    for group in ("bounds", "parameters"):
        for name, value in (certificate.get(group) or {}).items():
            yield (
                f"{group}: {columns.get(name, name) if group == 'bounds' else name}",
                value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
            )


_RUNS = tuple("=+-@＝＋－＠")  # spreadsheets read the wide ones alike


def _harmless(cell: Any) -> Any:
    if isinstance(cell, str) and cell.lstrip()[:1] in _RUNS and not _is_number(cell):
        return "'" + cell
    return cell


def _is_number(words: str) -> bool:
    try:
        return math.isfinite(float(words))
    except ValueError:
        return False
