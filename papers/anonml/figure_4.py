"""AnonML, figure 4: what splitting data into small histograms costs when nothing is perturbed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from papers import datasets
from papers.anonml import PAPER, asking
from papers.datasets import People
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row

EPSILON = 8.0  #: written in the documents, which add no noise
SIZE, PARTITIONS = 3, 5
FEW = 10_000
RAW, BINARY = "numbers as they are", "numbers cut at the median"
CLASSIFIERS = {"AnonML, logistic": "logistic", "AnonML, trees": "tree"}


def find(quick: bool, seeds: Sequence[int]) -> Found:
    tables = [datasets.people(name) for name in ("adult", "oulad")]
    rows = []
    for people in tables:
        for name, classifier in CLASSIFIERS.items():
            for panel, pieces in ((RAW, 8), (BINARY, 2)):
                asked = asking.without_noise(people, _asked(people, classifier), pieces=pieces)
                scores = asking.aucs(asked, people, seeds)
                rows.append(Row.over(scores, series=name, panel=f"{people.name}, {panel}"))
        for panel, cut in ((RAW, False), (BINARY, True)):
            columns = _columns(people, cut=cut)
            for name, make in _together().items():
                scores = [_score(people, make(seed, quick), columns, most=FEW if quick else None) for seed in seeds]
                rows.append(Row.over(scores, series=name, panel=f"{people.name}, {panel}"))
    notes: tuple[str, ...] = (
        "Nothing is perturbed and nothing is private: what is compared is what can be learned from histograms of three "
        "features, and what from all the data together.",
        "For AnonML, numbers as they are means in eight bins of equal size: a histogram has to be small.",
        asking.COURSES,
        "The figure shows bars without numbers, so none are printed here.",
    )
    if quick:
        notes += (f"Quick: those who see the data together learn from {FEW:,} people only.",)
    data = "; ".join(map(asking.about, tables))
    return Found(rows=rows, data=data, made_up=any(t.made_up for t in tables), notes=notes)


def _asked(people: People, classifier: str) -> dict[str, Any]:
    more = {"subsets": len(people.features) // SIZE, "classifier": classifier, "votes": "probability"}
    return asking.vote(people, EPSILON, size=SIZE, partitions=PARTITIONS, **more)


def _together() -> dict[str, Callable[[int, bool], Any]]:
    from sklearn.ensemble import BaggingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    return {
        "random forest": lambda seed, quick: RandomForestClassifier(20 if quick else 200, random_state=seed),
        "gradient boosting": lambda seed, quick: HistGradientBoostingClassifier(random_state=seed),
        "bagging": lambda seed, quick: BaggingClassifier(n_estimators=10 if quick else 100, random_state=seed),
        "logistic regression": lambda seed, quick: LogisticRegression(max_iter=2000),
    }


def _columns(people: People, *, cut: bool) -> tuple[Any, Any]:
    """Train and test as indicators of categories, and numbers on a scale of 1 or cut at their medians."""
    cuts = asking.quantiles(people, 2)
    sides: list[list[Any]] = [[], []]
    for column in people.features:
        bound = people.bounds[column]
        for side, table in zip(sides, (people.train, people.test), strict=True):
            values = table[column]
            if bound["type"] == "set":
                side += [values == value for value in bound["values"]]
            elif cut:
                side.append(np.searchsorted(cuts[column], values.astype(np.float64), side="right"))
            else:
                side.append((values.astype(np.float64) - bound["low"]) / (bound["high"] - bound["low"]))
    return np.column_stack(sides[0]).astype(np.float64), np.column_stack(sides[1]).astype(np.float64)


def _score(people: People, model: Any, columns: tuple[Any, Any], *, most: int | None) -> float:
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    train, test = columns
    yes = people.bounds[people.label]["values"][1]
    with threadpool_limits(1):  # threads that wait for each other on a busy machine take ten times as long
        model.fit(train[:most], people.train[people.label][:most] == yes)
    return asking.auc_of(people, model.predict_proba(test)[:, 1])


EXPERIMENT = Experiment(
    name="anonml-4",
    paper=PAPER,
    place="figure 4",
    shows="Without noise, an ensemble over small histograms does as well as forests, and less well than boosting.",
    measure="AUC on held-out people, nothing private",
    across="",
    find=find,
    seeds=3,
    quick_seeds=1,
    better="more",
    headline=Headline(panels=("as they are",), differs=2),
)
