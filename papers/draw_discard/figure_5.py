"""Draw and Discard, figure 5 and section V-C: a model whose true weights are known."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from papers.draw_discard import PAPER
from papers.draw_discard.crowd import Crowd, Trained
from papers.draw_discard.judging import judged
from papers.draw_discard.known_weights import DOCUMENT, FEATURIZER, TRUE, chances, people, unscaled
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row

UPDATES, QUICK_UPDATES = 1_000_000, 100_000
PRINTED = {"accuracy": 0.80, "precision": 0.79, "recall": 0.72}
CORRELATION = "correlation of the weights"
PAPERS, STEADY, FALLING = "rate .005 (paper)", "rate .05", "rate falling from 1"
BY_WEIGHT, BY_PERSON = "rate .005, log 32", "rate .01, epsilon 8"
#: by name: what differs from the document
RUNS: Mapping[str, Mapping[str, Any]] = {
    PAPERS: {"learning_rate": 0.005},
    STEADY: {"learning_rate": 0.05},
    FALLING: {"learning_rate": 1.0, "decay": 30_000.0, "epsilon": 100.0},
    BY_WEIGHT: {"learning_rate": 0.005, "mechanism": "laplace", "epsilon_per_weight": math.log(32)},
    BY_PERSON: {"learning_rate": 0.01, "mechanism": "privunit", "epsilon": 8.0},
}
DRAWN = (PAPERS, STEADY, FALLING, BY_PERSON)  #: whose weights are shown


def find(quick: bool, seeds: Sequence[int]) -> Found:
    updates = QUICK_UPDATES if quick else UPDATES
    test = people(20_000 if quick else 200_000, seed=10**6)
    best = judged(chances(test) >= 0.5, test["o"] == 1)
    crowds = [Crowd(FEATURIZER, people(updates, seed=1 + seed)) for seed in seeds]
    runs = {
        name: [crowd.trained({**DOCUMENT, **asked}, seed) for crowd, seed in zip(crowds, seeds, strict=True)]
        for name, asked in RUNS.items()
    }
    rows = [row for name in DRAWN for row in _weights(name, runs[name])]
    for name, made in runs.items():
        found = [judged(run.models[-1].predict(test) == 1, test["o"] == 1) for run in made]
        for what, printed in PRINTED.items():
            where = {"panel": what, "ceiling": best[what], "epsilon": made[0].epsilon}
            same = name == PAPERS  # what the paper did, with a thousandth of its updates
            rows.append(Row.over([one[what] for one in found], series=name, printed=printed if same else None, **where))
        near = [correlation(run) for run in made]
        rows.append(Row.over(near, series=name, panel=CORRELATION, ceiling=1.0, epsilon=made[0].epsilon))
    rows.sort(key=lambda row: [f"weights, {name}" for name in DRAWN].index(row.panel) if row.at is not None else 99)
    notes = (
        f"The paper heard 983,068,969 updates, without noise, at a rate of .005; here {updates:,} for each line. At "
        "its rate these are too few for the weights; at a larger one, and best at one that falls, they are enough.",
        "The formula is printed with the products of B and E2 twice; the second time it must be D and E2, else there "
        "are not 33 weights. How the features are distributed is not printed; here so that 46 % of outcomes are 1.",
        "The paper's accuracy, precision and recall do not fit each other at 46 %: its precision and recall make an "
        "accuracy of .78.",
        "Not private stands for the true weights: nobody can be right more often.",
        "Log 32 is what one weight, seen alone, tells; the person pays 33 times that. Epsilon 8 is the whole person's, "
        "by PrivUnit.",
    )
    return Found(
        rows=rows, data="made-up owners of one row, whose outcomes follow from the printed weights", notes=notes
    )


def _weights(name: str, made: Sequence[Trained]) -> Iterator[Row]:
    """True weights along the axis (and as printed), estimated ones as ours."""
    found = [unscaled(run.models[-1].weights) for run in made]
    for weight, true in TRUE.items():
        scores = [one[weight] for one in found]
        yield Row.over(scores, series=weight, panel=f"weights, {name}", at=true, printed=true, epsilon=made[0].epsilon)


def correlation(run: Trained) -> float:
    """Of true and estimated weights."""
    found = unscaled(run.models[-1].weights)
    return float(np.corrcoef(list(TRUE.values()), [found[name] for name in TRUE])[0, 1])


EXPERIMENT = Experiment(
    name="draw-discard-5",
    paper=PAPER,
    place="figure 5",
    shows="A model with known weights is found again by people who never show a row; noise moves weights more than "
    "predictions.",
    measure="found",
    across="true weight",
    find=find,
    seeds=3,
    quick_seeds=1,
    picture="points",
    better={"weights, ": None, "": "more"},
    headline=Headline(panels=("accuracy", "precision", "recall", "correlation"), drawn=("*falling*", "*epsilon 8")),
)
