"""AnonML, figure 6: how many features a packet should hold, by what one person pays."""

from __future__ import annotations

from collections.abc import Sequence

from papers import datasets
from papers.anonml import PAPER, asking
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row


def find(quick: bool, seeds: Sequence[int]) -> Found:
    people = datasets.people("adult")
    epsilons = (1.0, 8.0) if quick else (0.5, 1.0, 2.0, 4.0, 8.0)
    sizes = (1, 3) if quick else (1, 2, 3, 4)
    rows = []
    for partitions in (5, 20):
        for size in sizes:
            best = asking.without_noise(people, asking.vote(people, 8.0, size=size, partitions=partitions))
            ceiling = asking.aucs(best, people, seeds[:1])[0]
            for epsilon in epsilons:
                scores = asking.aucs(asking.vote(people, epsilon, size=size, partitions=partitions), people, seeds)
                views = (
                    ("by epsilon", f"{size} in a subset", epsilon),
                    ("by features in a subset", f"epsilon {epsilon:g}", size),
                )
                for view, series, at in views:
                    panel = f"{partitions} partitions, {view}"
                    rows.append(Row.over(scores, panel=panel, series=series, at=at, epsilon=epsilon, ceiling=ceiling))
    rows.sort(key=lambda row: (row.panel, row.series))
    notes = (
        asking.PERSON,
        "Labels are cut at the base rate, not at one half (figure 5 shows both).",
        "Features of a subset are drawn anew for every document, so settings differ by luck, too.",
        "The figure shows curves without numbers, so none are printed here.",
    )
    return Found(rows=rows, data=asking.about(people), made_up=people.made_up, notes=notes)


EXPERIMENT = Experiment(
    name="anonml-6",
    paper=PAPER,
    place="figure 6",
    shows="One feature in a packet is best for a small epsilon; more come near it only with little noise.",
    measure="AUC on held-out people",
    across="epsilon or features",
    find=find,
    quick_seeds=1,
    better="more",
    headline=Headline(panels=("by epsilon",), at=(1.0, 2.0, 4.0, 8.0)),
)
