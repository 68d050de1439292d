"""Draw and Discard, section VI-A: a classifier of 387 weights for something rare; the paper's is for bad links."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from papers.draw_discard import PAPER
from papers.draw_discard.calls import DOCUMENT, FEATURIZER, WEIGHTS, Calls, calls
from papers.draw_discard.crowd import Crowd
from papers.draw_discard.judging import judged
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row
from thebes.data.rows import Rows
from thebes.tasks import registry
from thebes.tasks.draw_discard.features import DesignColumns, encoded

PASSES, QUICK_PASSES = 20, 2
QUICK_PEOPLE = 12_000
PRINTED = {
    "ROC AUC": 0.9702, "PR AUC": 0.7851, "accuracy": 0.9263, "precision": 0.1577, "recall": 0.8922, "F1": 0.2681,
}  # fmt: skip
LOG_32 = {"mechanism": "laplace", "epsilon_per_weight": math.log(32)}
PERSON = {"mechanism": "privunit", "epsilon": 8.0}
PAPERS, BEST = "log 32, rate .001", "no noise"
#: by name: (whether it takes every pass, what differs from the document)
RUNS: Mapping[str, tuple[bool, Mapping[str, Any]]] = {
    BEST: (True, {"mechanism": "none", "learning_rate": 1.0, "decay": 20_000.0, "epsilon": 100.0}),
    "no noise, rate .001": (True, {"mechanism": "none", "learning_rate": 0.001}),
    PAPERS: (True, {**LOG_32, "learning_rate": 0.001}),
    "log 32, one pass": (False, {**LOG_32, "learning_rate": 0.03}),
    "epsilon 8": (False, {**PERSON, "learning_rate": 0.03}),
    "epsilon 8, k = 3": (False, {**PERSON, "learning_rate": 0.01, "instances": 3}),
    "k = 3, no crosses": (False, {**PERSON, "learning_rate": 0.03, "instances": 3, "crosses": None}),
}


def find(quick: bool, seeds: Sequence[int]) -> Found:
    held = calls(QUICK_PEOPLE if quick else None)
    passes = QUICK_PASSES if quick else PASSES
    crowd = Crowd(FEATURIZER, held.train)
    ceiling, rows = _together(held), []
    for name, (every, asked) in RUNS.items():
        times = passes if every else 1
        document = {**DOCUMENT, **asked, "max_participations": times}
        if "epsilon_per_weight" in asked:
            document["epsilon_per_weight"] = times * asked["epsilon_per_weight"]
        made = [crowd.trained({k: v for k, v in document.items() if v is not None}, seed) for seed in seeds]
        scores = [_measured(held, run.models[-1].predict_proba(held.test)[:, 1]) for run in made]
        for what, best in ceiling.items():
            told = PRINTED[what] if name == PAPERS else None
            where = {"panel": what, "printed": told, "ceiling": best, "epsilon": made[0].epsilon}
            rows.append(Row.over([one[what] for one in scores], series=name, **where))
    rows.sort(key=lambda row: list(PRINTED).index(row.panel))
    data = str(held)
    notes = (
        "The paper's links are not public, so printed is of other data and only says what such a model can reach. A "
        "bank's calls stand in, of which one in nine ended with a deposit; crosses were chosen so that there are "
        f"{WEIGHTS} weights.",
        f"The paper heard 1,730,624,961 updates; these people made {passes} each at most. k instances share them, so "
        "with few people a small k learns more.",
        "Nobody knows at which score the paper said yes; here at the one that finds as many as the paper did.",
        "Log 32 is what one weight, seen alone, tells in one pass: the person pays it for every weight and pass. "
        "Epsilon 8 is the whole person's, by PrivUnit, in one pass; without the crosses there are 43 weights.",
        "Not private stands for a logistic regression on all calls together.",
    )
    return Found(rows=rows, data=data, made_up=held.made_up, notes=notes)


def _measured(held: Calls, score: Any) -> dict[str, float]:
    from sklearn.metrics import average_precision_score, roc_auc_score

    yes = held.yes
    least = float(np.quantile(score[yes], 1 - PRINTED["recall"]))
    cut = judged(score >= least, yes)
    f1 = 2 * cut["precision"] * cut["recall"] / (cut["precision"] + cut["recall"])
    areas = {"ROC AUC": float(roc_auc_score(yes, score)), "PR AUC": float(average_precision_score(yes, score))}
    return {**areas, **cut, "F1": f1}


def _together(held: Calls) -> dict[str, float]:
    """Measure somebody who sees all calls, with the same features."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    document: Any = registry.check({**DOCUMENT, "mechanism": "none"})
    features, sides = DesignColumns(document), []
    for table in (held.train, held.test):
        rows = Rows.one_each({column: table[column] for column in document.inputs})
        sides.append(features.design([encoded(document, rows, column) for column in document.inputs]))
    with threadpool_limits(1):
        model = LogisticRegression(C=10, max_iter=1000).fit(sides[0], held.train["y"] == "yes")
    return _measured(held, model.predict_proba(sides[1])[:, 1])


EXPERIMENT = Experiment(
    name="draw-discard-phishing",
    paper=PAPER,
    place="section VI-A",
    shows="A rare yes is found by many people's updates; hiding whole people wants few weights and few instances.",
    measure="score on held-out calls",
    across="",
    find=find,
    seeds=2,
    quick_seeds=1,
    better="more",
    headline=Headline(panels=("ROC AUC", "PR AUC")),
)
