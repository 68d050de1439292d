"""One of the two tables that train models: a cell for each model and epsilon, and what the paper's epsilons came to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from papers.datasets import Dataset
from papers.outcome import Row
from papers.tiresias import learning
from papers.tiresias.learning import FOLDS, PERCEPTRON, SHALLOW, Scores

#: the paper's two, those that a person would agree to, and some between, to see where a print is reached
EPSILONS, QUICK_EPSILONS = (1.0, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0, 64.0), (8.0, 32.0)
PAPERS = (32.0, 64.0)

#: by series, what the paper prints at its two epsilons
Printed = Mapping[str, tuple[float, float]]
#: (table, series, epsilon) -> what we are after
Goals = Mapping[tuple[str, str, float], float]

_SMALLEST = "smallest epsilon with the print"

SPLIT = (
    "Epsilon is what one person pays in all. The paper's text gives every column of a bounded task the whole, but "
    "its numbers fit one that is split over the columns: the text is wrong, and the experiment was not. Here a bounded "
    "task sends the whole row as one report (PrivUnit), and what is learned is freed of the noise."
)
NETWORKS = (
    "The paper does not describe its perceptron; ours has one layer of 16 units, and a linear model stands beside it "
    "under the same print. Each person's gradient is heard once, in one of 16 rounds."
)
PLAIN = "Not private is scikit-learn on the same folds (of the first seed), with columns scaled where that matters."


@dataclass
class Filled:
    """The cells of one table of data, and the seconds of one training by series."""

    rows: list[Row]
    seconds: dict[str, float]


def filled(data: Dataset, printed: Printed, *, quick: bool, seeds: Sequence[int]) -> Filled:
    """Each model at each epsilon. A quick run learns from one fold of five, neither forests nor
    perceptrons."""
    folds, asked = (1 if quick else FOLDS), learning.series_of(data, quick=quick)
    best = learning.plain(data, asked, seeds[:1], folds=folds)
    rows: list[Row] = []
    last = Scores()
    for epsilon in QUICK_EPSILONS if quick else EPSILONS:
        last = learning.private(data, asked, epsilon, seeds, folds=folds)
        for series in asked:
            told = dict(zip(PAPERS, printed[_printed_as(series)], strict=True)).get(epsilon)
            ceiling = best.by_seed[series][0]
            where = {"panel": data.name, "series": series, "at": epsilon, "epsilon": epsilon}
            rows.append(Row.over(last.by_seed[series], **where, printed=told, ceiling=ceiling))
    rows.sort(key=lambda row: asked.index(row.series))
    return Filled(rows, {series: min(each) for series, each in last.seconds.items()})


def whole(
    tables: Sequence[Dataset], printed: Mapping[str, Printed], goals: Goals, *, quick: bool, seeds: Sequence[int]
) -> tuple[list[Row], list[str]]:
    """The rows of a table of the paper, and what its own cells say about it."""
    rows: list[Row] = []
    notes: list[str] = []
    for data in tables:
        found = filled(data, printed[data.name], quick=quick, seeds=seeds)
        rows += found.rows
        notes.append(took(data.name, found.seconds))
    if not quick:  # one fold of five is luck
        smallest, never = reached(rows)
        notes += [never, missed(rows, goals)]
        rows += smallest
    return rows, notes


def _printed_as(series: str) -> str:
    return PERCEPTRON if series == SHALLOW else series


def reached(rows: Sequence[Row]) -> tuple[list[Row], str]:
    """For every print, the smallest epsilon of those tried that reaches it; and a sentence on those that none does."""
    found: list[Row] = []
    never: list[str] = []
    for row in rows:
        if row.printed is None or row.epsilon is None:
            continue
        like = [one for one in rows if (one.panel, one.series) == (row.panel, row.series)]
        enough = [one.epsilon for one in like if one.epsilon is not None and one.ours >= row.printed]
        name = f"{row.panel}: {row.series}"
        if enough:
            least, panel = min(enough), f"{_SMALLEST} at {row.epsilon:g}"
            found.append(Row(panel=panel, series=name, ours=least, printed=row.epsilon, epsilon=least))
        else:
            most = max(one.ours for one in like)
            never.append(f"{name}, {row.printed:g} at {row.epsilon:g} (we reach {most:.3f})")
    found.sort(key=lambda row: row.panel)
    told = f"Not reached at any epsilon tried: {'; '.join(never)}." if never else "Every print is reached."
    return found, told


def missed(rows: Sequence[Row], goals: Goals) -> str:
    """A sentence on which of our own goals these cells miss."""
    cells = {(row.panel, row.series, row.epsilon): row.ours for row in rows}
    short = [
        f"{table}, {series}, epsilon {epsilon:g}: {cells[table, series, epsilon]:.3f} instead of {goal:g}"
        for (table, series, epsilon), goal in goals.items()
        if cells.get((table, series, epsilon), goal) < goal
    ]
    return f"Goals that are missed: {'; '.join(short)}." if short else "Every goal of ours is met."


def took(name: str, seconds: Mapping[str, float]) -> str:
    each = ", ".join(f"{series} {spent:.2g}" for series, spent in seconds.items())
    return f"Seconds of one training on {name}, all people's halves included: {each}."
