"""AnonML, section VIII-D: trees or logistic regressions, by how finely numbers are cut and by what one person pays."""

from __future__ import annotations

from collections.abc import Sequence

from papers import datasets
from papers.anonml import PAPER, asking
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row

SIZE, PARTITIONS = 3, 5


def find(quick: bool, seeds: Sequence[int]) -> Found:
    people = datasets.people("adult")
    rows = []
    for epsilon in (None, 2.0) if quick else (None, 8.0, 2.0, 1.0):
        for bins in (2, 8) if quick else (2, 3, 5, 8):
            for classifier in ("logistic", "tree"):
                shape = {"size": SIZE, "partitions": PARTITIONS, "classifier": classifier, "votes": "probability"}
                asked = asking.vote(people, epsilon or 8.0, **shape, bins=bins)  # type: ignore[arg-type]
                best = asking.without_noise(people, asked, pieces=bins)
                ceiling = asking.aucs(best, people, seeds[:1])[0]
                scores = [ceiling] if epsilon is None else asking.aucs(asked, people, seeds)
                series = "without noise" if epsilon is None else f"epsilon {epsilon:g}"
                rows.append(
                    Row.over(scores, panel=classifier, series=series, at=bins, epsilon=epsilon, ceiling=ceiling)
                )
    notes = (
        asking.PERSON,
        "The paper says in words that trees do well with many values and little noise, logistic regressions with few "
        "values or much noise; it prints no numbers.",
        "Numbers are cut into bins of equal size, found privately; members vote by probability.",
    )
    return Found(rows=rows, data=asking.about(people), made_up=people.made_up, notes=notes)


EXPERIMENT = Experiment(
    name="anonml-classifiers",
    paper=PAPER,
    place="section VIII-D",
    shows="Trees gain from finer bins as long as there is little noise; logistic regressions stand noise better.",
    measure="AUC on held-out people",
    across="bins of a number",
    find=find,
    quick_seeds=1,
    better="more",
    headline=Headline(panels=("",), differs=1),
)
