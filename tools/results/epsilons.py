"""The table of what is learned at which epsilon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase as fnmatch

from papers.experiment import ends
from tools.results.cells import NEARLY, PARTLY, Kept, figure, one, percent, row_of

EPSILONS = (0.05, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  #: that the summary has a column for


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


#: what the summary tells, by the trust that it takes
IN_SHORT = (
    *(replace(NOBODY[number], words=f"nobody trusted: {NOBODY[number].words}") for number in (1, 3, 7)),
    *(replace(SOMEBODY[number], words=f"somebody trusted: {SOMEBODY[number].words}") for number in (1, 3, 5)),
)


def matrix(kept: Kept, lines: Sequence[Line], epsilons: Sequence[float] = EPSILONS) -> Iterator[str]:
    """A line for each thing that is learned, a column for each epsilon."""
    found = {line: cells for line in lines if (cells := _cells(kept, line))}
    across = sorted({epsilon for cells in found.values() for epsilon in cells} & set(epsilons))
    yield row_of(["epsilon", "people", *(f"{epsilon:g}" for epsilon in across), "not private"])
    yield row_of(["---", "---:", *("---:" for _ in across), "---:"])
    for line, cells in found.items():
        best = next(iter(cells.values()))[1]
        quick = ", *quick*" if kept[line.name].quick else ""
        row = [f"[{line.words}](#{line.name}){quick}", "" if quick or not line.people else f"{line.people:,}"]
        yield row_of([*row, *(_told(*cells[e], line.naive) if e in cells else "" for e in across), figure(best)])


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
