"""AnonML, figure 5: how well is predicted, by what one person pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from papers import datasets
from papers.anonml import PAPER, asking
from papers.datasets import People
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row

#: (subset size, peer partitions) of the two halves of the figure
HALVES = {"a: three features": (3, 5), "b: one feature": (1, 20)}


def find(quick: bool, seeds: Sequence[int]) -> Found:
    epsilons = (1.0, 4.0) if quick else (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    tables = [datasets.people(name) for name in ("adult", "oulad")]
    rows = []
    for people in tables:
        for half, (size, partitions) in HALVES.items():
            best = asking.without_noise(people, asking.vote(people, 8.0, size=size, partitions=partitions))
            best = asking.released(best, people, 0)
            ceilings = {LETTER: asking.as_printed(people, best), RATE: asking.auc(people, best.model)}
            for epsilon in epsilons:
                asked = asking.vote(people, epsilon, size=size, partitions=partitions)
                made = [asking.released(asked, people, seed) for seed in seeds]
                by_cut = {
                    LETTER: [asking.as_printed(people, one) for one in made],
                    RATE: [asking.auc(people, one.model) for one in made],
                }
                for series, scores in by_cut.items():
                    rows.append(_row(scores, people, half, series, epsilon, ceilings[series]))
        for series, asks in OURS.items():
            ceiling = asking.aucs({**asks(people, 8.0), "perturbation": "none"}, people, (0,))[0]
            for epsilon in epsilons:
                scores = asking.aucs(asks(people, epsilon), people, seeds)
                rows.append(_row(scores, people, "ours", series, epsilon, ceiling))
    notes = (
        asking.PERSON,
        "Cut at one half, as equation 2 has it, hardly anybody gets a rare label; so votes are cut at the base rate.",
        "Ours is log-odds on the same protocol: one report of each peer, with the whole of its epsilon.",
        asking.COURSES,
        "The figure shows curves without numbers, so none are printed here.",
    )
    data = "; ".join(map(asking.about, tables))
    return Found(rows=rows, data=data, made_up=any(t.made_up for t in tables), notes=notes)


LETTER, RATE = "vote, cut at one half", "vote, cut at the base rate"
OURS: dict[str, Any] = {"log-odds, joints by rule": asking.automatic, "log-odds, by hand": asking.joint}


def _row(scores: Sequence[float], people: People, panel: str, series: str, epsilon: float, ceiling: float) -> Row:
    where = {"panel": f"{people.name}, {panel}", "series": series, "at": epsilon}
    return Row.over(scores, **where, epsilon=epsilon, ceiling=ceiling)


EXPERIMENT = Experiment(
    name="anonml-5",
    paper=PAPER,
    place="figure 5",
    shows="What is predicted gets better with epsilon, quickly at first; small subsets need less of it.",
    measure="AUC on held-out people",
    across="epsilon",
    find=find,
    quick_seeds=1,
    better="more",
    headline=Headline(panels=("a: three", "ours"), at=(0.5, 1.0, 2.0, 4.0, 8.0), drawn=("*ours",), differs=1),
)
