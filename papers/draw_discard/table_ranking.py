"""Draw and Discard, section VI-B: items ranked by what somebody typed, with 50,000 weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from papers.draw_discard import PAPER
from papers.draw_discard.crowd import Crowd
from papers.draw_discard.searches import (
    DOCUMENT,
    FEATURIZER,
    GRAMS,
    SHOWN,
    TAGS,
    WEIGHTS,
    Floats,
    Searches,
    ranked,
    searches,
)
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row

PEOPLE, QUICK_PEOPLE = 8000, 400
TEST, QUICK_TEST = 1500, 400
#: by name: what differs from the document
RUNS: Mapping[str, Mapping[str, Any]] = {
    "no noise": {"mechanism": "none", "learning_rate": 1.0, "epsilon": 1000.0},
    "no noise, k = 3": {"mechanism": "none", "learning_rate": 1.0, "epsilon": 1000.0, "instances": 3},
    "log 32 by weight": {"mechanism": "laplace", "epsilon_per_weight": math.log(32), "learning_rate": 0.3},
    "epsilon 8": {"mechanism": "laplace-l1", "epsilon": 8.0, "learning_rate": 0.3},
}
QUICK_RUNS = ("no noise, k = 3", "log 32 by weight")


def find(quick: bool, seeds: Sequence[int]) -> Found:
    people = QUICK_PEOPLE if quick else PEOPLE
    told, test = searches(people, 1), searches(QUICK_TEST if quick else TEST, 2)
    crowd, ceiling = Crowd(FEATURIZER, told.table), ranked(test, _together(told, test))
    scored: dict[str, tuple[list[Floats], float | None]] = {
        "by chance": ([np.random.default_rng(seed).random(len(test.best)) for seed in seeds], None),
        "by an item's tag": ([_popularity(told)[test.table["tag"]]], None),
    }
    for name in QUICK_RUNS if quick else RUNS:
        made = [crowd.trained({**DOCUMENT, **RUNS[name]}, seed) for seed in seeds]
        scored[name] = [run.models[-1].expected(test.table)[:, 0] for run in made], made[0].epsilon
    scored["as they are made up"] = [test.best], None
    rows = [
        Row.over([ranked(test, s)[what] for s in scores], series=name, panel=what, ceiling=best, epsilon=epsilon)
        for what, best in ceiling.items()
        for name, (scores, epsilon) in scored.items()
    ]
    notes = (
        "The paper prints no score of its ranking, and its searches are not public: these are made up.",
        f"Words, pairs and the triple of a search are hashed ({len(GRAMS)} inputs of 105 buckets) and crossed with the "
        f"{TAGS} tags of items: {WEIGHTS:,} weights in one document, trained by {people:,} people with one search and "
        f"{SHOWN} items each. A model is {8 * WEIGHTS / 1000:,.0f} kB on its way to a person, and as much back.",
        "Not private stands for a logistic regression on the same features of all searches together.",
        "Log 32 is what one weight, seen alone, tells; the person pays it for every weight, which protects nobody. "
        "Epsilon 8 is the whole person's, by Laplace noise on the gradient: among so many weights little is left.",
    )
    return Found(rows=rows, data="made-up searches", notes=notes)


def _popularity(told: Searches) -> Floats:
    """Count how often items of each tag are taken when they are shown."""
    tag, taken = told.table["tag"], told.table["taken"]
    return np.asarray(np.bincount(tag, taken, TAGS) / np.maximum(np.bincount(tag, minlength=TAGS), 1))


def _together(told: Searches, test: Searches) -> Floats:
    """The scores of whoever sees all searches."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import OneHotEncoder
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    def crossed(some: Searches) -> Any:
        tag = some.table["tag"]
        return np.column_stack([tag, *(some.table[gram] * TAGS + tag for gram in GRAMS)])

    encoder = OneHotEncoder(handle_unknown="ignore").fit(crossed(told))
    with threadpool_limits(1):
        model = LogisticRegression(max_iter=300).fit(encoder.transform(crossed(told)), told.table["taken"])
    return np.asarray(model.decision_function(encoder.transform(crossed(test))))


EXPERIMENT = Experiment(
    name="draw-discard-ranking",
    paper=PAPER,
    place="section VI-B",
    shows="A model of 50,000 weights is trained one person at a time by the same kind as a small one, and ranks items.",
    measure="rank of the item that was taken",
    across="",
    find=find,
    seeds=1,
    quick_seeds=1,
    better={"by chance": None, "made up": None, "": "more"},
    headline=Headline(panels=("",)),
)
