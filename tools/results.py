"""The page of results, written from the outcomes that are kept: docs/results.md, and its pictures in docs/results/.

    python tools/results.py

Only the words between the numbers were typed. A line whose outcome is not kept is left out.
"""

from __future__ import annotations

import argparse
import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase as fnmatch
from itertools import groupby
from pathlib import Path

from thebes.apps.pages.experiments import pictures
from thebes.experiments.experiment import Experiment, Headline, ends
from thebes.experiments.outcome import Outcome, Row
from thebes.experiments.registry import experiments
from thebes.experiments.results import Results, published
from thebes.experiments.tiresias.table_people import CHANCE, MEAN, SHARE, TRUSTED, UNTRUSTED

Kept = Mapping[str, Outcome]

EPSILONS = (0.05, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  #: that the summary has a column for
NEARLY, PARTLY = 0.9, 0.6  #: of what there is to learn

BEGIN = """\
# Results

What works at which epsilon, with how many people; what does not, and why; then every table and figure of the papers,
run again through the code that people run. `tools/results.py` writes this page from the outcomes that lie beside it,
and a test says that it is.

Epsilon is what one person pays in all: at 1, what one person says makes no result more than e = 2.72 times likelier, at
.1 no more than 1.11 times (where there is a delta, but for odds of about that).
"""

READING = """
## How to read what follows

| | |
|---|---|
| **ours** | what came out here: the mean over the seeds, ± how far they lie apart (standard deviation) |
| **printed** | what the paper prints; a curve without numbers prints none |
| **not private** | what the same questions reach without noise, or with all the data in one place |
| **epsilon** | what one person pays in all; of a site's table one row of it, where the text says so |

Any of it can be run again with `thebes experiment run NAME`, and `thebes experiment check NAME` says whether it fell
behind this page ([Experiments](experiments.md)). {made}
"""

SHORT = f"""\
## What works at which epsilon

Each cell says what came out, and how much of what there is to learn that is: nothing (0 %) is what somebody reaches
who knows no row, everything (100 %) what the same data give without privacy. **Bold** is at least {100 * NEARLY:.0f} %
of it; what is in (brackets) is less than {100 * PARTLY:.0f} %. *quick*: a quick run, of few seeds and settings, is all
that is kept so far. *People*, or rows, are what was learned from.
"""

STYLE = (
    "text{fill:#1d2426;font:13px system-ui,sans-serif}.axis{stroke:#5a6669}.grid{stroke:#dcdad3}"
    ".curve{fill:none;stroke:var(--line);stroke-width:2}.dot{fill:var(--line)}.bar{fill:#0d5c63}"
    ".spread{stroke:var(--line);stroke-width:1.5;opacity:.6}.error{stroke:#b4540a;stroke-width:2.5}"
    ".kind0{--line:#0d5c63}.kind1{--line:#b4540a}.kind2{--line:#6a3d9a}.kind3{--line:#1d6b3a}.kind4{--line:#a4262c}"
    ".kind5{--line:#5a6669}.curve.kind1{stroke-dasharray:7 3}.curve.kind2{stroke-dasharray:2 3}"
    ".curve.kind3{stroke-dasharray:9 3 2 3}.curve.kind5{stroke-dasharray:4 4}"
    "@media(prefers-color-scheme:dark){text{fill:#e6eaea}.axis{stroke:#a3b0b2}.grid{stroke:#384347}.bar{fill:#4ba6ad}"
    ".error{stroke:#f0a35e}.kind0{--line:#7fd0d6}.kind1{--line:#f0a35e}.kind2{--line:#c7a6f0}.kind3{--line:#7ccf98}"
    ".kind4{--line:#ff8f8f}.kind5{--line:#a3b0b2}}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the summary: rows of an outcome by their epsilon. `naive` is what is reached without any row; `best`
    (experiment, panel, series) is what is reached without privacy, where the rows themselves do not say it; `people`
    (or rows) are learned from in a whole run."""

    words: str
    name: str
    panel: str = ""
    series: tuple[str, ...]
    at: float | str | None = None
    naive: float
    best: tuple[str, str, str] | None = None
    people: int = 0  #: or rows, learned from in a whole run


ADULT = ("anonml-4", "adult, numbers as they are", "logistic regression")
OULAD = ("anonml-4", "oulad, numbers as they are", "logistic regression")
ROW = "bounded, regression"
PULLS = "AUC, other people's requests"
NOBODY = (
    *(
        Line(words=f"{words} (Tiresias, {measure})", name=f"tiresias-table-5-{number}", panel=panel, series=(series,),
             naive=naive, people=people)
        for words, measure, number, panel, series, naive, people in (
            ("a wine's grower, by one report", "accuracy", 1, "wine", ROW, 0.399, 142),
            ("malignant or not, by one report", "accuracy", 1, "cancer", ROW, 0.627, 455),
            ("diabetes after a year, by one report", "R2", 2, "diabetes", ROW, 0.0, 353),
            ("worth of houses, by one report", "R2", 2, "housing", ROW, 0.0, 16_512),
            ("malignant or not, by one gradient", "accuracy", 1, "cancer", "gradient, linear", 0.627, 455),
            ("worth of houses, by one gradient", "R2", 2, "housing", "gradient, linear", 0.0, 16_512),
        )
    ),
    Line(words="pull requests merged, by one gradient (Tiresias, AUC)", name="tiresias-table-5-3",
         panel=PULLS, series=("gradient, person-level",), naive=0.5, people=100),
    Line(words="income in the census, log-odds (AnonML, AUC)", name="anonml-5", panel="adult, ours",
         series=("log-odds, joints by rule",), naive=0.5, best=ADULT, people=32_561),
    Line(words="students who withdraw, log-odds (AnonML, AUC)", name="anonml-5", panel="oulad, ours",
         series=("log-odds, joints by rule",), naive=0.5, best=OULAD, people=18_917),
    Line(words="income, the paper's vote cut at the base rate", name="anonml-5", panel="adult, a: three features",
         series=("vote, cut at the base rate",), naive=0.5, best=ADULT, people=32_561),
    Line(words="income, the paper's vote to the letter", name="anonml-5", panel="adult, a: three features",
         series=("vote, cut at one half",), naive=0.5, best=ADULT, people=32_561),
    Line(words="students, the paper's vote to the letter", name="anonml-5", panel="oulad, a: three features",
         series=("vote, cut at one half",), naive=0.5, best=OULAD, people=18_917),
    Line(words="a bank's calls, 387 weights (Draw and Discard, AUC)", name="draw-discard-phishing",
         panel="ROC AUC", series=("epsilon 8, k = 3",), naive=0.5, people=31_648),
    Line(words="the same with 43 weights", name="draw-discard-phishing", panel="ROC AUC",
         series=("k = 3, no crosses",), naive=0.5, people=31_648),
)  # fmt: skip
SOMEBODY = (
    *(
        Line(words=f"{words} (Tiresias, {measure})", name=f"tiresias-table-5-{number}", panel=panel,
             series=(f"integrated, {series} regression",), naive=naive, people=people)
        for words, measure, number, panel, series, naive, people in (
            ("a wine's grower", "accuracy", 1, "wine", "logistic", 0.399, 142),
            ("malignant or not", "accuracy", 1, "cancer", "logistic", 0.627, 455),
            ("diabetes after a year", "R2", 2, "diabetes", "linear", 0.0, 353),
            ("worth of houses", "R2", 2, "housing", "linear", 0.0, 16_512),
        )
    ),
    Line(words="pull requests merged, whole people hidden (Tiresias, AUC)", name="tiresias-table-5-3",
         panel=PULLS, series=("integrated, person-level",), naive=0.5, people=100),
    Line(words="how long a ride takes, linear (Sage; squared error)", name="sage-table-1", panel="mean squared error",
         series=("epsilon *",), at="taxi, linear regression", naive=0.00858, people=300_000),
    Line(words="how long a ride takes, network", name="sage-table-1", panel="mean squared error",
         series=("epsilon *",), at="taxi, network", naive=0.00858, people=300_000),
    Line(words="who clicks, logistic (Sage; accuracy)", name="sage-table-1", panel="accuracy",
         series=("epsilon *",), at="criteo, logistic regression", naive=0.742, people=112_139),
    Line(words="ten kinds of pictures at 15 sites (LEAP; accuracy)", name="leap-5-4",
         series=("15 sites, epsilon 8",), naive=0.1, best=("leap-5-4", "", "all pictures in one place"), people=7_995),
)  # fmt: skip


# --- the summary ----------------------------------------------------------------------------------------------


def summary(kept: Kept) -> Iterator[str]:
    yield from expected(kept)
    yield from failures(kept)
    yield SHORT
    yield "### Nobody is trusted: noise is added before anything leaves a person\n"
    yield from matrix(kept, NOBODY)
    yield "\n### Somebody is trusted with rows: a site, or whoever collects them\n"
    yield from matrix(kept, SOMEBODY)
    yield from questions(kept)
    yield READING.format(made=made(kept))


#: what is asked of more and more people, in words, and who is trusted
PEOPLE = "tiresias-people"
WANTED = {
    SHARE: "a share: percentage points off",
    MEAN: "a mean age, 17 to 90: years off",
    CHANCE: "a forecast: AUC (.5 is a coin)",
}
TRUSTS = {TRUSTED: "somebody", UNTRUSTED: "nobody"}


def expected(kept: Kept) -> Iterator[str]:
    """What somebody may expect who is about to ask: by how many people, for an epsilon of 1 and of .1."""
    if PEOPLE not in kept:
        return
    outcome = kept[PEOPLE]
    sizes = _places(outcome.rows)
    quick = " A quick run." if outcome.quick else ""
    yield "\n## What to expect, by how many people answer\n"
    yield f"Who earns over 50,000, how old people are, and who will: asked of a census.{quick} [More](#{PEOPLE})\n"
    yield _row(["wanted", "trusted", "epsilon", *(f"{size:,.0f} people" for size in sizes), "not private"])
    yield _row(["---", "---", *("---:" for _ in sizes), "---:", "---:"])
    before = ""
    for panel, words in WANTED.items():
        for trust, who in TRUSTS.items():
            for epsilon in (1.0, 0.1):
                rows = [one(outcome, panel, f"{trust}, epsilon {epsilon:g}", size) for size in sizes]
                cells = ["" if row is None else _told_of(panel, row) for row in rows]
                best = next((row.ceiling for row in reversed(rows) if row is not None), None)
                shown = [words if words != before else "", who, f"{epsilon:g}", *cells, figure(best)]
                yield _row(shown)
                before = words
    yield from _so(outcome, sizes)


def made(kept: Kept) -> str:
    """With what, and on which days."""
    days: dict[str, set[str]] = {}
    for outcome in kept.values():
        if outcome.made is not None:
            days.setdefault(str(outcome.made).removesuffix(f", {outcome.made.day}"), set()).add(outcome.made.day)
    return " ".join(f"Made with {what}, {min(on)} to {max(on)}." for what, on in sorted(days.items()))


def _told_of(panel: str, row: Row) -> str:
    """An error as it is; a score with how much of what there is to learn that is."""
    if panel != CHANCE or row.ceiling is None:
        return f"{row.ours:.2g}"
    share = (row.ours - 0.5) / (row.ceiling - 0.5)
    told = f"{row.ours:.2f}"
    return f"**{told}**" if share >= NEARLY else told if share >= PARTLY else f"({told})"


def _so(outcome: Outcome, sizes: Sequence[float]) -> Iterator[str]:
    """The two laws behind the errors, by the numbers that show them."""
    few, more, many = (
        one(outcome, SHARE, f"{trust}, epsilon {epsilon:g}", size)
        for trust, epsilon, size in ((TRUSTED, 1.0, 1000.0), (UNTRUSTED, 1.0, 1000.0), (UNTRUSTED, 0.1, max(sizes)))
    )
    yield (
        f"\n**Bold** is a forecast with at least {100 * NEARLY:.0f} % of what as many people teach without noise, in "
        f"(brackets) one with less than {100 * PARTLY:.0f} %; errors are means over many draws."
    )
    if few is not None and more is not None and many is not None:
        yield (
            f"A thousand people at epsilon 1 tell a share to {few.ours:.2g} points where somebody adds the noise "
            f"for all of them, and to {more.ours:.2g} where everybody adds their own. A tenth of epsilon makes "
            "errors ten times as large: as good takes ten times as many people in the one case, a hundred times in the "
            f"other. At .1, where nobody is trusted, {many.at:,.0f} people are still {many.ours:.2g} points off."
        )


def matrix(kept: Kept, lines: Sequence[Line]) -> Iterator[str]:
    """A line for each thing that is learned, a column for each epsilon."""
    found = {line: cells for line in lines if (cells := _cells(kept, line))}
    across = sorted({epsilon for cells in found.values() for epsilon in cells} & set(EPSILONS))
    yield _row(["epsilon", "people", *(f"{epsilon:g}" for epsilon in across), "not private"])
    yield _row(["---", "---:", *("---:" for _ in across), "---:"])
    for line, cells in found.items():
        best = next(iter(cells.values()))[1]
        quick = ", *quick*" if kept[line.name].quick else ""
        row = [f"[{line.words}](#{line.name}){quick}", "" if quick or not line.people else f"{line.people:,}"]
        yield _row([*row, *(_told(*cells[e], line.naive) if e in cells else "" for e in across), figure(best)])


def _cells(kept: Kept, line: Line) -> dict[float, tuple[float, float]]:
    """By epsilon: (ours, not private)."""
    if line.name not in kept:
        return {}
    rows = [row for row in kept[line.name].rows if row.panel == line.panel]
    best: float | None = None
    if line.best is not None:
        name, panel, series = line.best
        found = one(kept[name], panel, series, None) if name in kept else None
        best = None if found is None else found.ours
    cells: dict[float, tuple[float, float]] = {}
    for row in rows if line.name != "leap-5-4" else ends(rows):  # a curve over rounds: where it ends
        ceiling = best if line.best is not None else row.ceiling
        if not any(fnmatch(row.series, word) for word in line.series) or (line.at is not None and row.at != line.at):
            continue
        if row.epsilon is not None and ceiling is not None:
            cells[row.epsilon] = (row.ours, ceiling)
    return cells


def _told(ours: float, best: float, naive: float) -> str:
    share = (ours - naive) / (best - naive) if best != naive else 0.0
    told = percent(max(0.0, share))
    told = f"**{told}**" if share >= NEARLY else told if share >= PARTLY else f"({told})"
    return f"{figure(ours)}<br>{told}"


def questions(kept: Kept) -> Iterator[str]:
    """What many questions to one table cost, by how answers are used again."""
    names = {"smartcache-figure-10-1": "avocado prices", "smartcache-figure-10-2": "a bank's calls"}
    ways = {
        "none": "each answered anew",
        "exact": "the same question answered once (`--cache exact`)",
        "exact + Gaussian": "the same, Gaussian noise added up in rho",
        "smart": "answers out of made-up rows where a check finds them right (`--cache smart`)",
        "pmw": "answers out of a histogram that learns (`--cache pmw`)",
    }
    costs = {name: _costs(kept[name]) for name in names if name in kept}
    if not costs:
        return
    asked = {at for _, at in costs.values()}
    yield f"\n### What {_listed(sorted(f'{at:,.0f}' for at in asked))} questions to one table cost\n"
    quick = " A quick run." if any(kept[name].quick for name in costs) else ""
    yield f"Epsilon of one row, and how much less than without memory; each answer within 5 % of the rows.{quick}\n"
    yield _row(["", *(f"[{names[name]}](#{name})" for name in costs)])
    yield _row(["---", *("---:" for _ in costs)])
    for way, words in ways.items():
        cells = []
        for paid, _ in costs.values():
            less = "" if way == "none" else f"<br>{percent(paid[way] / paid['none'] - 1)}"
            cells.append(f"{figure(paid[way])}{less}")
        yield _row([words, *cells])


def _costs(outcome: Outcome) -> tuple[dict[str, float], float]:
    paid = [row for row in ends(outcome.rows) if row.panel == next(r.panel for r in outcome.rows)]
    return {row.series: row.ours for row in paid}, float(max(row.at for row in paid if isinstance(row.at, float | int)))


#: what does not work, and why: words with places for rows of an outcome (panel, series; the last place along the axis)
FAILURES: tuple[tuple[str, str, dict[str, tuple[str, str, float | str | None]]], ...] = (
    (
        "**A small epsilon, few people and nobody to trust teach nothing.** A forecast by a thousand people at epsilon "
        ".1 has an AUC of {a.ours:.2f}, by 32,000 of {b.ours:.2f} (.5 is a coin; {b.ceiling:.2f} without noise). Each "
        "drowns their own answer in noise; a collector who is trusted adds one noise for all ({c.ours:.2f}).",
        "tiresias-people",
        {"a": (CHANCE, f"{UNTRUSTED}, epsilon 0.1", 1000.0), "b": (CHANCE, f"{UNTRUSTED}, epsilon 0.1", 32_000.0),
         "c": (CHANCE, f"{TRUSTED}, epsilon 0.1", 32_000.0)},
    ),
    (
        "**A report about thirty columns needs an epsilon of several.** Tumours are told by one report of each patient "
        "with an accuracy of {a.ours:.2f} at epsilon 1 (always the usual one: 0.63) and of {b.ours:.2f} at 8; where "
        "somebody is trusted with the rows, of {c.ours:.2f} at 1.",
        "tiresias-table-5-1",
        {"a": ("cancer", ROW, 1.0), "b": ("cancer", ROW, 8.0), "c": ("cancer", "integrated, logistic regression", 1.0)},
    ),
    (
        "**Hearing everybody in every round leaves little for each.** With epsilon 8 for all rounds together, a "
        "hundred people teach which pull requests are merged to an AUC of {a.ours:.2f}; each heard in one round, to "
        "{b.ours:.2f}.",
        "tiresias-table-5-3",
        {"a": (PULLS, "gradient, person-level, each in all rounds", 8.0), "b": (PULLS, "gradient, person-level", 8.0)},
    ),
    (
        "**A vote cut at one half never finds a rare answer.** At epsilon {a.epsilon:g} the paper's ensemble, to the "
        "letter, tells students who withdraw from others with an AUC of {a.ours:.2f} ({a.ceiling:.2f} without any "
        "noise; .5 is a coin): hardly anybody gets the rare label. Log-odds on the same protocol reach {b.ours:.2f}.",
        "anonml-5",
        {"a": ("oulad, a: three features", "vote, cut at one half", 4.0),
         "b": ("oulad, ours", "log-odds, joints by rule", 4.0)},
    ),
    (
        "**An epsilon for each weight is no epsilon for a person.** Log 16 by weight and pass, at which digits are "
        "learned to {a.ours:.2f} ({a.ceiling:.2f} without noise), adds up to {a.epsilon:,.0f} for the person: no "
        "protection at all. What protects whole people is one update, hidden as a whole, with few weights.",
        "draw-discard-2",
        {"a": ("epsilon, gradients summed", "log 16 by weight and pass", None)},
    ),
    (
        "**Hiding a person among 50,000 weights leaves nothing to learn.** Items ranked with noise by weight score "
        "{a.ours:.2f} (NDCG; by chance {b.ours:.2f}, by an item's tag alone {c.ours:.2f}).",
        "draw-discard-ranking",
        {"a": ("NDCG", "log 32 by weight", None), "b": ("NDCG", "by chance", None),
         "c": ("NDCG", "by an item's tag", None)},
    ),
    (
        "**A cache that guesses needs thousands of questions.** After a hundred overlapping counts it has cost "
        "{a.ours:.2g}, reusing exact answers {b.ours:.2g}; after 20,000 it is {c.ours:.2g} against {d.ours:.2g}. Where "
        "the budget counts in rho, Gaussian noise with exact reuse is cheaper than either ({e.ours:.2g}).",
        "smartcache-long",
        {"a": ("avocado", "smart", 100.0), "b": ("avocado", "exact", 100.0), "c": ("avocado", "smart", 20_000.0),
         "d": ("avocado", "exact", 20_000.0), "e": ("avocado", "exact + Gaussian", 20_000.0)},
    ),
    (
        "**Made-up rows alone are wrong without saying so.** {a_percent} of the answers about avocado prices and "
        "{b_percent} of those about a bank's calls lie farther off than they may; with noise {c_percent} do.",
        "smartcache-table-10-1",
        {"a": ("share off by more than allowed", "synthetic only", "avocado"),
         "b": ("share off by more than allowed", "synthetic only", "bank"),
         "c": ("share off by more than allowed", "exact", "avocado")},
    ),
    (
        "**Validation that ignores the noise lets bad models pass.** At the worst target, {a_percent} of the models "
        "without statistics and {b_percent} with statistics but without the correction for noise pass and miss "
        "(rides, epsilon .05, eta .05); as built {c_percent}.",
        "sage-table-2",
        {"a": ("taxi, epsilon 0.05: of all trials, at the worst target", "no SLA", 0.05),
         "b": ("taxi, epsilon 0.05: of all trials, at the worst target", "UC DP SLA", 0.05),
         "c": ("taxi, epsilon 0.05: of all trials, at the worst target", "Sage SLA", 0.05)},
    ),
)  # fmt: skip


def failures(kept: Kept) -> Iterator[str]:
    told = []
    for words, name, places in FAILURES:
        if name in kept:
            rows = {key: one(kept[name], *place) for key, place in places.items()}
            percents = {f"{key}_percent": f"{100 * row.ours:.3g} %" for key, row in rows.items() if row is not None}
            if None not in rows.values():
                quick = " (a quick run)" if kept[name].quick else ""
                told.append(f"- {words.format(**rows, **percents)} [More](#{name}){quick}")
    if told:
        yield "\n## What does not, and why\n"
        yield from told
        yield ""


def one(outcome: Outcome, panel: str, series: str, at: float | str | None) -> Row | None:
    curve = [row for row in outcome.rows if (row.panel, row.series) == (panel, series)]
    rows = ends(curve) if at is None else [row for row in curve if row.at == at]
    return rows[0] if rows else None


# --- paper by paper -------------------------------------------------------------------------------------------


def papers(kept: Kept, known: Mapping[str, Experiment]) -> Iterator[str]:
    ordered = [(known[name], kept[name]) for name in known if name in kept]
    for paper, of_it in groupby(ordered, key=lambda pair: pair[0].paper):
        yield f"\n## {paper}\n"
        for _, alike in groupby(of_it, key=lambda pair: (pair[1].shows, pair[1].across, pair[1].notes)):
            yield from section(list(alike))


def section(alike: Sequence[tuple[Experiment, Outcome]]) -> Iterator[str]:
    """One heading for figures that show the same of several tables."""
    first, told = alike[0]
    places = [outcome.place for _, outcome in alike]
    place = places[0] if len(alike) == 1 else f"figures {places[0].split()[-1]} to {places[-1].split()[-1]}"
    yield "\n" + "".join(f'<a id="{one.name}"></a>' for one, _ in alike) + "\n"
    yield f"### {place[0].upper()}{place[1:]}\n\n{told.shows}\n"
    if any(outcome.quick for _, outcome in alike):
        yield "A quick run: fewer seeds and settings than the whole one.\n"
    for experiment, outcome in alike:
        if len(alike) > 1:
            yield f"**{outcome.place[0].upper()}{outcome.place[1:]}**\n"
        for number, (panel, _) in enumerate(drawn(experiment, outcome), 1):
            words = _plain(outcome.of(panel))
            yield f"![{words}]({file(outcome, number)})\n\n*{words}*\n"
        yield from table(outcome, experiment.told(outcome))
        yield "\n" + run_of(outcome) + "\n"
    yield from differences(told, 0 if first.headline is None else first.headline.differs)


def drawn(experiment: Experiment, outcome: Outcome) -> list[tuple[str, str]]:
    """(panel, picture) of the panels that the headline draws."""
    words = (experiment.headline or Headline()).drawn
    return [(panel, standing(picture)) for panel, picture in pictures(outcome) if any(fnmatch(panel, w) for w in words)]


def table(outcome: Outcome, rows: Sequence[Row]) -> Iterator[str]:
    """One table, or one for each panel where these lie along axes of their own."""
    panels = {row.panel: [one for one in rows if one.panel == row.panel] for row in rows}
    if len({tuple(_places(of_it)) for of_it in panels.values()}) == 1:
        yield from _table(outcome, [row for of_it in panels.values() for row in of_it])
        return
    for number, (panel, of_it) in enumerate(panels.items()):
        yield f"{'' if not number else chr(10)}*{panel}*\n"
        yield from _table(outcome, [replace(row, panel="") for row in of_it])


def _table(outcome: Outcome, rows: Sequence[Row]) -> Iterator[str]:
    """A column for each place along the axis where that is all that differs; else a line for each row."""
    series = {(row.panel, row.series): [one for one in rows if _curve(one) == _curve(row)] for row in rows}
    places = _places(rows)
    pivots = len(places) > 1 and all(_pivots(outcome, curve) for curve in series.values())
    every = _pivoted(series, places) if pivots else _listing(outcome, rows)
    shown = {name: cells for name, cells in every.items() if any(cells)}
    heads = ["" if name in ("panel", "series") else name for name in shown]
    if pivots and "series" in shown:
        heads[list(shown).index("series")] = f"{outcome.across}:"
    yield _row(heads)
    yield _row(["---" if name in ("panel", "series") else "---:" for name in shown])
    before = ""
    for cells in zip(*shown.values(), strict=True):
        told = dict(zip(shown, cells, strict=True))
        panel = told.get("panel", "")
        yield _row(["" if name == "panel" and panel == before else cell for name, cell in told.items()])
        before = panel


def _places(rows: Sequence[Row]) -> list[float]:
    return sorted({row.at for row in rows if isinstance(row.at, float | int)})


def _curve(row: Row) -> tuple[str, str]:
    return row.panel, row.series


def _pivots(outcome: Outcome, curve: Sequence[Row]) -> bool:
    """Nothing but its place and what was found differs along a curve."""
    same = len({row.ceiling for row in curve}) == 1
    paid = all(row.epsilon in (None, row.at, row.ours) for row in curve) or len({row.epsilon for row in curve}) == 1
    return same and paid and all(row.printed is None and isinstance(row.at, float | int) for row in curve)


def _pivoted(series: Mapping[tuple[str, str], Sequence[Row]], places: Sequence[float]) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {"panel": [panel for panel, _ in series], "series": [name for _, name in series]}
    for place in places:
        at = [next((row for row in curve if row.at == place), None) for curve in series.values()]
        columns[figure(place)] = ["" if row is None else _ours(row) for row in at]
    firsts = [curve[0] for curve in series.values()]
    columns["not private"] = [figure(row.ceiling) for row in firsts]
    if not all(row.epsilon in (None, row.at, row.ours) for curve in series.values() for row in curve):
        columns["epsilon"] = [figure(row.epsilon) for row in firsts]
    return columns


def _listing(outcome: Outcome, rows: Sequence[Row]) -> dict[str, list[str]]:
    columns = {
        "panel": [row.panel for row in rows],
        "series": [row.series for row in rows],
        outcome.across or " ": [row.at if isinstance(row.at, str) else figure(row.at) for row in rows],
        "printed": [figure(row.printed) for row in rows],
        "ours": [_ours(row) for row in rows],
        "not private": [figure(row.ceiling) for row in rows],
    }
    if outcome.across != "epsilon" and any(row.epsilon not in (None, row.ours) for row in rows):
        columns["epsilon"] = [figure(row.epsilon) for row in rows]
    return columns


def _ours(row: Row) -> str:
    apart = row.spread or 0.0
    return figure(row.ours) + (f" ± {_spread(apart)}" if apart > 1e-9 * abs(row.ours) else "")


def run_of(outcome: Outcome) -> str:
    seeds = "1 seed" if len(outcome.seeds) == 1 else f"{len(outcome.seeds)} seeds"
    took = f"{outcome.seconds:.1f} s" if outcome.seconds < 100 else f"{outcome.seconds / 60:.0f} min"
    pays = any(row.epsilon is not None for row in outcome.rows)
    who = f" Epsilon is what one {outcome.unit} pays in all." if pays else " Nothing here is private."
    measure = f"{outcome.measure[0].upper()}{outcome.measure[1:]}".replace("its panel says", "the first column says")
    every = f"[all {len(outcome.rows)} rows](results/{outcome.name}{'.quick' if outcome.quick else ''}.json)"
    return f"{measure}; {every}.{who} Data: {outcome.data}. `{outcome.name}`: {seeds}, {took}."


def differences(outcome: Outcome, first: int) -> Iterator[str]:
    """The sentence where we differ; the others folded away."""
    notes = list(outcome.notes)
    if not notes:
        return
    yield f"Where we differ: {notes.pop(min(first, len(notes) - 1))}\n"
    if notes:
        told = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
        yield f"<details><summary>More about how it was run</summary><ul>{told}</ul></details>\n"


# --- pieces ---------------------------------------------------------------------------------------------------


def standing(picture: str) -> str:
    """A picture that stands alone, with its colours in it."""
    opened = str(picture).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return opened.replace("</title>", f"</title><style>{STYLE}</style>", 1) + "\n"


def _spread(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.1g}"


def file(outcome: Outcome, number: int) -> str:
    return f"results/{outcome.name}-{number}.svg"


def figure(number: float | None) -> str:
    if number is None:
        return ""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def percent(share: float) -> str:
    return f"{100 * share:.0f}\u00a0%".replace("-", "−")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_plain(cell) for cell in cells)} |"


def _plain(words: str) -> str:
    return words.replace("|", "\\|")


def _listed(words: Sequence[str]) -> str:
    return " or ".join(words)


# --- files ----------------------------------------------------------------------------------------------------


def page(kept: Kept) -> dict[str, str]:
    """By name below docs/: the page and its pictures."""
    known = experiments()
    lines = [BEGIN, *summary(kept), *papers(kept, known)]
    files = {"results.md": "\n".join(lines).rstrip("\n") + "\n"}
    for name in (name for name in known if name in kept):
        for number, (_, picture) in enumerate(drawn(known[name], kept[name]), 1):
            files[file(kept[name], number)] = picture
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--home", type=Path, default=published(), help="where the outcomes are, and the page goes")
    home: Path = parser.parse_args().home
    files = page(Results(home).kept())
    for old in (home / "results").glob("*.svg"):
        if f"results/{old.name}" not in files:
            old.unlink()
    for name, content in files.items():
        (home / name).write_text(content, encoding="utf-8")
    print(f"{home / 'results.md'} and {len(files) - 1} pictures")


if __name__ == "__main__":
    main()
