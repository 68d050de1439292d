"""A release as its page shows it: sections of words, a drawing and a table, the same for every kind.

What must stay true: every number that is shown was released; an error bar is drawn where the release has one, and
where it has none the page says so.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from thebes.apps.pages import drawing
from thebes.apps.pages.frame import plural
from thebes.tasks.document import PeopleDocument, Range
from thebes.tasks.reading import release_from_json
from thebes.tasks.release import Release
from thebes.wire.refusals import NotFound

MOST_DRAWN = 40  #: keys, classes or columns in one drawing
MOST_ROWS = 200  #: of a table on the page; the download has all of them
FIRST_ROWS = 12  #: of perturbed rows


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under a head. Numbers are aligned as numbers."""

    head: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: int = 0  #: rows that only the download has

    def counts(self, place: int) -> bool:
        """Whether a column holds numbers."""
        return bool(self.rows) and all(_counts_as(row[place]) for row in self.rows)

    @classmethod
    def of(cls, head: Sequence[str], rows: Iterable[Sequence[Any]], most: int = MOST_ROWS) -> Table:
        every = [tuple(_plain(cell) for cell in row) for row in rows]
        return cls(tuple(head), tuple(every[:most]), max(0, len(every) - most))


@dataclass(frozen=True, slots=True)
class Section:
    """One piece of a result."""

    title: str
    words: str = ""
    picture: Markup | None = None
    table: Table | None = None
    folded: bool = False  #: the table is behind a summary


@dataclass(frozen=True, slots=True)
class Shown:
    """A whole result. `answer` is the one number there is, if there is one."""

    sections: tuple[Section, ...]
    certificate: Mapping[str, Any]
    facts: tuple[tuple[str, str], ...]
    answer: float | None = None
    around: str = ""  #: the answer's error bar in words
    nothing: str = ""  #: why there is no answer


def shown(document: PeopleDocument, body: str) -> Shown:
    """The stored JSON text of a release, read for its page."""
    release = release_from_json(json.loads(body))
    certificate = release.certificate.as_json()
    beside = tuple(_beside(release))
    if release.value is None:
        why = str(release.extra.get("explanation", "nothing could be released"))
        return Shown(beside, certificate, tuple(_facts(certificate, release)), nothing=why)
    draw = _FORMS.get(release.form, _unknown)
    answer, around = None, ""
    if release.form == "value" and not isinstance(release.value, Mapping):
        answer = float(release.value)
        bar = release.interval(0.95) if release.intervals else None
        if bar is not None:
            around = f"{_level(bar.level)} interval {_short(float(bar.low))} to {_short(float(bar.high))}"
    sections = (*draw(release, document), *beside)
    return Shown(sections, certificate, tuple(_facts(certificate, release)), answer, around)


def table_of(document: PeopleDocument, body: str) -> str:
    """The same as CSV: every number, key or row. A text cell that a spreadsheet would run gets an apostrophe."""
    release = release_from_json(json.loads(body))
    if release.value is None:
        raise NotFound("there is no answer to put into a table")
    head, rows = _TABLES.get(release.form, _no_table)(release)
    written = io.StringIO()
    writer = csv.writer(written, quoting=csv.QUOTE_NONNUMERIC)  # where ";" separates, it must not begin a cell either
    writer.writerow([_harmless(cell) for cell in head])
    writer.writerows([[_harmless(_plain(cell)) for cell in row] for row in rows])
    return written.getvalue()


# --- numbers and counts -------------------------------------------------------------------------------------


def _value(release: Release, document: PeopleDocument) -> list[Section]:
    if isinstance(release.value, Mapping):
        return _counts(release)
    value = float(release.value)
    bars = [(bar.level, float(bar.low), float(bar.high)) for bar in release.intervals.values()]
    if not bars:
        return [Section("Error bar", "No error bar is known for this mechanism.")]
    bound = (document.bounds or {}).get(document.gives[0]) if document.gives else None
    least, most = (bound.low, bound.high) if isinstance(bound, Range) and _inside(value, bound, bars) else (None, None)
    if getattr(document, "aggregator", "") in ("sum", "count", "variance"):
        least = most = None
    words = "Where the exact answer lies, so many times out of a hundred. It speaks of the noise, not of who took part."
    picture = drawing.spans(
        [(_level(level), value, low, high) for level, low, high in bars],
        title="The answer with its error bar at several levels",
        least=least,
        most=most,
    )
    table = Table.of(("Level", "From", "To"), [(_level(level), low, high) for level, low, high in bars])
    return [Section("Error bar", words, picture, table, folded=True)]


def _inside(value: float, bound: Range, bars: Sequence[tuple[float, float, float]]) -> bool:
    """Whether the declared range is near enough to the error bars to be worth drawing."""
    width = max(high - low for _, low, high in bars)
    return bound.low <= value <= bound.high and width > 0.02 * (bound.high - bound.low)


def _counts(release: Release) -> list[Section]:
    head, rows = _counts_table(release)
    if not rows:
        return [Section("Counts", "Nothing was common enough to be shown.")]
    barred = len(head) > 2
    drawn = rows if len(rows) <= MOST_DRAWN else sorted(rows, key=lambda row: -row[1])[:MOST_DRAWN]
    picture = drawing.bars(
        {row[0]: row[1] for row in drawn},
        title=f"{len(drawn)} bars, one for each value" + (", each with its error bar" if barred else ""),
        low={row[0]: row[2] for row in drawn} if barred else None,
        high={row[0]: row[3] for row in drawn} if barred else None,
    )
    words = "Noise can make a count negative; it is shown as it is." if any(row[1] < 0 for row in rows) else ""
    if len(drawn) < len(rows):
        words = f"The {len(drawn)} largest of {len(rows)} are drawn. {words}".strip()
    return [Section("Counts", words, picture, Table.of(head, rows), folded=True)]


def _counts_table(release: Release) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    if not isinstance(release.value, Mapping):
        rows = [
            (_level(b.level), float(release.value), float(b.low), float(b.high)) for b in release.intervals.values()
        ]
        return ("level", "value", "low", "high"), list(rows) or [("", float(release.value), "", "")]
    keys = [str(key) for key in release.value]
    values = [float(number) for number in release.value.values()]
    bar = release.interval(0.95) if release.intervals else None
    if bar is None:
        return ("value", "count"), list(zip(keys, values, strict=True))
    low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), len(keys)).tolist() for end in (bar.low, bar.high))
    return ("value", "count", "low", "high"), list(zip(keys, values, low, high, strict=True))


# --- models -------------------------------------------------------------------------------------------------


def _model(release: Release, document: PeopleDocument) -> list[Section]:
    model: Any = release.model  # type: ignore[attr-defined]
    kind = type(model).__name__
    if kind == "GaussianNB":
        return _classes(release, model)
    if hasattr(model, "features_"):
        return _forest(release, model)
    if hasattr(model, "coef_"):
        return _coefficients(release, model)
    return [Section("Model", f"A {kind}. Download it to use it.")]


def _classes(release: Release, model: Any) -> list[Section]:
    inputs, output = release.extra["inputs"], release.extra["output"]
    names = [f"{output} = {label}" for label in model.classes_.tolist()]
    sections = [
        Section(
            "How frequent each class is",
            picture=drawing.bars(
                dict(zip(names[:MOST_DRAWN], (100 * model.class_prior_).tolist(), strict=False)),
                title="Share of each class in per cent",
                unit=" %",
            ),
        )
    ]
    spread = np.sqrt(model.var_)
    for j, column in enumerate(inputs[:MOST_DRAWN]):
        rows = [(n, float(m), float(m - s), float(m + s)) for n, m, s in zip(names, model.theta_[:, j], spread[:, j])]  # noqa: B905
        sections.append(
            Section(
                column,
                "The mean in each class; the line reaches one standard deviation of people to either side. It is not "
                "an error bar: this model has none.",
                drawing.spans(rows[:MOST_DRAWN], title=f"Mean and spread of {column} in each class"),
            )
        )
    head, rows_ = _model_table(release)
    return [*sections, Section("All numbers", table=Table.of(head, rows_), folded=True)]


def _coefficients(release: Release, model: Any) -> list[Section]:
    output = release.extra["output"]
    head, rows = _model_table(release)
    sections = []
    weights = np.atleast_2d(model.coef_)
    labels = [None] if len(weights) == 1 else model.classes_.tolist()
    for label, line in zip(labels, weights, strict=False):
        of = "" if label is None else f" of {output} = {label}"
        drawn = dict(zip(release.extra["inputs"][:MOST_DRAWN], line.tolist(), strict=False))
        words = (
            f"How much {output} changes when an input grows by one of its own units. "
            if hasattr(model, "target_range_")
            else "How much the log-odds change when an input grows by one of its own units. "
        )
        picture = drawing.bars(drawn, title=f"Coefficients{of}")
        sections.append(Section(f"Coefficients{of}", f"{words}No error bar is known for them.", picture))
    return [*sections, Section("All numbers", table=Table.of(head, rows), folded=False)]


def _forest(release: Release, model: Any) -> list[Section]:
    trees, inner = model.features_.shape
    used = np.bincount(model.features_.ravel(), minlength=len(release.extra["inputs"]))
    share = dict(zip(release.extra["inputs"][:MOST_DRAWN], (100 * used / used.sum()).tolist(), strict=False))
    words = (
        f"{trees} trees of depth {int(math.log2(inner + 1))} with {trees * (inner + 1)} leaves. Where a tree splits "
        "was drawn without looking at anybody; only the leaves were learned. This says what was asked, not what counts."
    )
    head, rows = _model_table(release)
    picture = drawing.bars(share, title="How often each input is split on, in per cent", unit=" %")
    return [Section("Forest", words, picture), Section("Classes, over all leaves", table=Table.of(head, rows))]


def _model_table(release: Release) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    model: Any = release.model  # type: ignore[attr-defined]
    inputs = release.extra["inputs"]
    if type(model).__name__ == "GaussianNB":
        deviation = np.sqrt(model.var_)
        rows = [
            (str(label), float(model.class_prior_[k]), column, float(model.theta_[k, j]), float(deviation[k, j]))
            for k, label in enumerate(model.classes_.tolist())
            for j, column in enumerate(inputs)
        ]
        return ("class", "share", "input", "mean", "standard deviation"), rows
    if hasattr(model, "features_"):
        share = model.leaves_.mean(axis=(0, 1))
        return ("class", "mean share in a leaf"), [
            (str(label), float(s)) for label, s in zip(model.classes_.tolist(), share, strict=True)
        ]
    weights, intercepts = np.atleast_2d(model.coef_), np.atleast_1d(model.intercept_)
    labels = [""] if len(weights) == 1 else [str(label) for label in model.classes_.tolist()]
    lines: list[tuple[Any, ...]] = []
    for label, line, constant in zip(labels, weights, intercepts, strict=True):
        lines += [(label, name, float(w)) for name, w in zip(inputs, line, strict=True)]
        lines.append((label, "(constant)", float(constant)))
    if len(weights) == 1:
        return ("input", "coefficient"), [each[1:] for each in lines]
    return ("class", "input", "coefficient"), lines


def _ensemble(release: Release, document: PeopleDocument) -> list[Section]:
    head, rows = _ensemble_table(release)
    members = len(release.value["members"])
    votes = release.value["document"]["method"] == "vote"
    told = plural(members, "small model votes", "small models vote") if votes else plural(members, "small table")
    told += "" if votes else " of odds, added up"
    words = f"{told}. How frequent each label is among those who took part, with error bars."
    picture = drawing.bars(
        {row[0]: 100 * row[1] for row in rows[:MOST_DRAWN]},
        title="Share of each label in per cent, with its error bar",
        low={row[0]: 100 * row[2] for row in rows[:MOST_DRAWN]},
        high={row[0]: 100 * row[3] for row in rows[:MOST_DRAWN]},
        unit=" %",
    )
    sections = [Section("Classifier", words, picture, Table.of(head, rows), folded=True)]
    cuts = [(column, ", ".join(map(_short, places))) for column, places in release.extra["thresholds"].items()]
    if cuts:
        sections.append(Section("Where ranges were cut", table=Table.of(("column", "thresholds"), cuts)))
    return sections


def _ensemble_table(release: Release) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    told = release.extra["base_rate"]
    low, high = told["interval"]["low"], told["interval"]["high"]
    rows = [(str(label), float(share), low[label], high[label]) for label, share in told["value"].items()]
    return ("label", "share", "low", "high"), rows


# --- rows and networks --------------------------------------------------------------------------------------


def _rows(release: Release, document: PeopleDocument) -> list[Section]:
    told: Any = release
    sections = []
    for column, shares in list(told.frequencies.items())[:MOST_DRAWN]:
        names = {str(key): float(share) for key, share in list(shares.items())[:MOST_DRAWN]}
        bar = told.frequency_interval(column)
        low, high = (None, None) if bar is None else (_percents(names, bar.low), _percents(names, bar.high))
        title = f"Share of each value of {column} in per cent" + ("" if bar is None else ", with error bars")
        words = "How frequent each value is among those who took part, freed of the noise."
        percents = {name: 100 * share for name, share in names.items()}
        picture = drawing.bars(percents, title=title, low=low, high=high, unit=" %")
        sections.append(Section(column, words + ("" if bar is None else " With 95 % error bars."), picture))
    for column, bound in list((document.bounds or {}).items())[:MOST_DRAWN]:
        if isinstance(bound, Range):
            bars = [told.mean(column, level) for level in (0.5, 0.8, 0.95, 0.99)]
            picture = drawing.spans(
                [(_level(bar.level), value, float(bar.low), float(bar.high)) for value, bar in bars],
                title=f"Mean of {column} with its error bar at several levels",
            )
            mean, bar = bars[2]
            words = (
                f"The mean among those who took part, freed of the noise: {_short(mean)} "
                f"({_level(bar.level)} interval {_short(float(bar.low))} to {_short(float(bar.high))})."
            )
            sections.append(Section(column, words, picture))
    head, rows = _rows_table(release)
    words = f"{len(rows)} rows, each changed at random before it left. No single one can be believed."
    return [*sections, Section("Rows", words, table=Table.of(head, rows, FIRST_ROWS), folded=True)]


def _percents(names: Iterable[str], shares: Any) -> dict[str, float]:
    return dict(zip(names, (100 * np.asarray(shares)).tolist(), strict=False))


def _rows_table(release: Release) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    frame = release.rows  # type: ignore[attr-defined]
    return tuple(str(c) for c in frame.columns), list(frame.itertuples(index=False, name=None))


def _network(release: Release, document: PeopleDocument) -> list[Section]:
    head, rows = _network_table(release)
    count = sum(row[2] for row in rows)
    words = f"{count} weights over {', '.join(release.extra['inputs'])}, as data. Download the release to use them."
    return [Section("Network", words, table=Table.of(head, rows))]


def _network_table(release: Release) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    from thebes.learning.graph import read_model
    from thebes.learning.graph.weights import named

    graph = read_model(release.value["model"]).graph
    trained = named(graph, np.asarray(release.model.weights))  # type: ignore[attr-defined]
    last = named(graph, np.asarray(release.gradient, dtype=np.float32))  # type: ignore[attr-defined]
    head = ("layer", "shape", "weights", "length", "largest", "length of the last step's mean gradient")
    return head, [
        (
            name,
            " × ".join(map(str, array.shape)),
            array.size,
            float(np.linalg.norm(array)),
            float(np.abs(array).max(initial=0.0)),
            float(np.linalg.norm(last[name])),
        )
        for name, array in trained.items()
    ]


def _unknown(release: Release, document: PeopleDocument) -> list[Section]:
    return [Section("Answer", "This page has no drawing for it. Download it.")]


def _no_table(release: Release) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    return ("value",), []


_Draw = Callable[[Release, PeopleDocument], Sequence[Section]]
_FORMS: dict[str, _Draw] = {"value": _value, "model": _model, "rows": _rows, "network": _network, "ensemble": _ensemble}
_TABLES = {
    "value": _counts_table,
    "model": _model_table,
    "rows": _rows_table,
    "network": _network_table,
    "ensemble": _ensemble_table,
}


# --- what stands beside every answer ------------------------------------------------------------------------


def _beside(release: Release) -> Iterable[Section]:
    if "missing" in release.extra:
        told = release.extra["missing"]
        yield Section("Without a value", f"{_short(float(told['value']))} people, counted privately.")
    if "diagnostics" in release.extra:
        rows = list(release.extra["diagnostics"].items())
        yield Section("Machines on which the query fails", table=Table.of(("kind of error", "count"), rows))


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
        elif key == "trust" and value == "none":
            value = "nobody"
        yield name, f"{value:g}" if isinstance(value, float) else str(value)
    columns = {str(place): name for place, name in enumerate(release.extra.get("inputs", ()))}
    for group in ("bounds", "parameters"):
        for name, value in (certificate.get(group) or {}).items():
            yield (
                f"{group}: {columns.get(name, name) if group == 'bounds' else name}",
                value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
            )


def _level(level: float) -> str:
    return f"{100 * level:g} %"


def _short(value: float) -> str:
    return f"{value:.6g}"


def _counts_as(cell: Any) -> bool:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def _plain(cell: Any) -> Any:
    return cell.item() if isinstance(cell, np.generic) else cell


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
