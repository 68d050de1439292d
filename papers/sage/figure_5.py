"""Sage, figure 5: how good models are by how many rows they learned from, without privacy and with two budgets."""

from __future__ import annotations

from collections.abc import Sequence

from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row
from papers.sage import PAPER, training
from papers.sage.training import LINEAR, LOGISTIC, NETWORK, Task

#: (panel, task, model, epsilons, rows to learn from)
_SIZES = {training.TAXI: (5_000, 20_000, 50_000, 100_000, 300_000), training.CRITEO: (5_000, 20_000, 50_000, 112_000)}
_QUICK = (4_000, 12_000)
NOTES = (
    "The paper has 37 million rides and 45 million advertisements; here are a sample of each, so curves end where the "
    "paper's begin. Its curves have no printed numbers.",
    "Of the ride's duration two hours are 1. The rides are of other years, and the paper does not say what its ten "
    "features are, so errors compare with the naive ones (panels say them), not with the paper's.",
    "Logistic regression is not the paper's DP-SGD: private histograms by class, then a descent on these.",
    "Networks have two layers of 32 and 16 units (the paper: 5,000 and 100, or 1,024 and 32), which a sample of this "
    "size can train; without privacy stands for epsilon 1,000 with the same clipping. That of rides is told the way as "
    "a number too, that of advertisements the 13 numbers only.",
)


def find(quick: bool, seeds: Sequence[int]) -> Found:
    plans: list[tuple[Task, str, tuple[float, ...]]] = [
        (training.taxi(), LINEAR, (1.0, 0.05)),
        (training.criteo(), LOGISTIC, (1.0, 0.25)),
        (training.taxi(), NETWORK, (1.0, 0.5)),
        (training.criteo(), NETWORK, (1.0, 0.25)),
    ]
    rows: list[Row] = []
    for task, model, epsilons in plans:
        rows += _panel(task, model, epsilons, quick, seeds)
    told = f"{training.taxi().told}; {training.criteo().told}"
    return Found(rows=rows, data=told, made_up=training.taxi().made_up or training.criteo().made_up, notes=NOTES)


def _panel(task: Task, model: str, epsilons: tuple[float, ...], quick: bool, seeds: Sequence[int]) -> list[Row]:
    measure = "mean squared error" if task.name == training.TAXI else "accuracy"
    panel = f"{task.name}, {model}: {measure} (naive {task.naive():.4f})"
    network = model == NETWORK
    sizes = _QUICK[:1] if quick and network else _QUICK if quick else _SIZES[task.name]
    more = training.QUICK[model] if quick else {}
    few = seeds[:1] if network else seeds
    rows = []
    for size in sizes:
        ceiling = training.timed(task, model, size, 1000.0, few, more)[0][0] if network else task.plain(size)
        rows.append(Row(panel=panel, series="not private", at=size, ours=ceiling))
        for epsilon in epsilons:
            scores, _ = training.timed(task, model, size, epsilon, few, more)
            series = f"epsilon {epsilon:g}"
            rows.append(Row.over(scores, panel=panel, series=series, at=size, ceiling=ceiling, epsilon=epsilon))
    return rows


EXPERIMENT = Experiment(
    name="sage-5",
    paper=PAPER,
    place="figure 5",
    shows="What privacy costs a model, by how many rows it learns from.",
    measure="error or accuracy on rows that nothing was learned from",
    across="rows",
    find=find,
    unit="row",
    seeds=3,
    quick_seeds=1,
    better={"squared error": "less", "accuracy": "more"},
    headline=Headline(drawn=("*",)),
)
