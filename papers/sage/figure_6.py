"""Sage, figure 6: with how many rows a model is accepted, by its target, as each way of validating has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row
from papers.sage import PAPER, training
from papers.sage.table_2 import METHODS, Floats, told
from papers.sage.training import LINEAR, LOGISTIC, Task
from thebes.privacy.randomness import seeded_for_simulation

EPSILON, ETA = 1.0, 0.05
#: squared errors; accuracies
TARGETS = {
    training.TAXI: (0.0027, 0.0028, 0.003, 0.0033, 0.0036, 0.004, 0.005, 0.007),
    training.CRITEO: (0.73, 0.735, 0.74, 0.745, 0.75, 0.755, 0.76),
}
_BOUNDS = {training.TAXI: "chernoff", training.CRITEO: "binomial"}
FIRST, QUICK_FIRST = 5_000, 2_500
NOTES = (
    "An attempt learns from nine tenths of its rows and is tested on the others; the next one has twice as many, while "
    "the sample has them, and the last one has all of it. Drawn are the rows of the first attempt that accepts. "
    "A target that is not accepted for every seed has no point.",
    "Both models are trained with epsilon 1 and tested with epsilon 1, at eta .05, which Sage (as built here) splits "
    "over its attempts; No SLA, NP and UC test each with all of it. What each of them is, table 2 says, and how often "
    "it is wrong.",
    "The paper's networks are left out, and its curves, over a hundred times as many rows, have no printed numbers but "
    "these: No SLA accepts rides' linear regression down to 0.0025, Sage down to 0.0027.",
)


def find(quick: bool, seeds: Sequence[int]) -> Found:
    rows: list[Row] = []
    taxi, criteo = training.taxi(), training.criteo()
    for task, model in ((taxi, LINEAR), (criteo, LOGISTIC)):
        rows += _panel(task, model, quick, seeds)
    return Found(rows=rows, data=f"{taxi.told}; {criteo.told}", made_up=taxi.made_up or criteo.made_up, notes=NOTES)


def _panel(task: Task, model: str, quick: bool, seeds: Sequence[int]) -> list[Row]:
    held = min(len(task.train), 20_000) if quick else len(task.train)
    sizes = sizes_up_to(held, QUICK_FIRST if quick else FIRST)
    needed = [_needed(task, model, sizes, quick, seed) for seed in seeds]
    rows = []
    for place, series in enumerate(METHODS):
        for target in TARGETS[task.name]:
            found = [each[place].get(target) for each in needed]
            accepted = [size for size in found if size is not None]
            if len(accepted) == len(found):
                panel = f"{task.name}, {model}: {'squared error' if task.name == training.TAXI else 'accuracy'}"
                rows.append(Row.over(accepted, panel=panel, series=series, at=target, epsilon=EPSILON))
    return rows


def sizes_up_to(rows: int, first: int) -> list[int]:
    """Twice as many each time; the last has all."""
    found = [first]
    while found[-1] * 2 < rows:
        found.append(found[-1] * 2)
    return [*found, rows]


def _needed(task: Task, model: str, sizes: Sequence[int], quick: bool, seed: int) -> list[dict[float, int]]:
    """By method: the rows of the first attempt that accepts each target."""
    exact = np.array([_tested(task, model, size, quick, seed) for size in sizes])
    return firsts(task.name, sizes, told(exact, EPSILON, ETA, _BOUNDS[task.name], seeded_for_simulation(seed)))


def firsts(task: str, sizes: Sequence[int], ends: Floats) -> list[dict[float, int]]:
    """The same of how far each attempt's loss may reach (a line for each attempt, a column for each method)."""
    found: list[dict[float, int]] = [{} for _ in METHODS]
    for target in TARGETS[task]:
        most = target if task == training.TAXI else 1 - target
        accepted = ends <= most
        for place in np.flatnonzero(accepted.any(axis=0)):
            found[place][target] = sizes[int(accepted[:, place].argmax())]
    return found


def _tested(task: Task, model: str, size: int, quick: bool, seed: int) -> tuple[float, float]:
    """Measure what the last tenth of so many rows keeps and loses with a model of the others."""
    learned = size * 9 // 10
    made = task.trained(model, learned, EPSILON, seed, training.QUICK[model] if quick else None)
    losses = task.losses(made, task.train.iloc[learned:size])
    lost = float(np.clip(losses, 0, 1).sum() if task.name == training.TAXI else (1 - losses).sum())
    return size - learned - lost, lost


EXPERIMENT = Experiment(
    name="sage-6",
    paper=PAPER,
    place="figure 6",
    shows="What it costs to be sure: statistics ask for many times the rows, noise and further attempts for more yet.",
    measure="rows until accepted",
    across="target",
    find=find,
    unit="row",
    seeds=3,
    quick_seeds=1,
    better="less",
    blind=1.0,  # attempts double
    headline=Headline(series=("no SLA", "Sage"), drawn=("*",), differs=2),
)
