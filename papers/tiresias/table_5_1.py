"""Tiresias, table 5.1: classes of wine and of tumours, learned in three ways."""

from __future__ import annotations

from collections.abc import Sequence

from papers import datasets
from papers.experiment import Experiment, Headline
from papers.outcome import Found
from papers.tiresias import PAPER
from papers.tiresias.learning import BAYES, FOREST, LOGISTIC, PERCEPTRON, REGRESSION, SHALLOW, VECTORS
from papers.tiresias.table import NETWORKS, PLAIN, SPLIT, Goals, Printed, whole

PRINTED: dict[str, Printed] = {
    "wine": {
        REGRESSION: (0.704, 0.931),
        FOREST: (0.583, 0.811),
        VECTORS: (0.670, 0.910),
        LOGISTIC: (0.901, 0.974),
        BAYES: (0.917, 0.926),
        PERCEPTRON: (0.498, 0.745),
    },
    "cancer": {
        REGRESSION: (0.633, 0.689),
        FOREST: (0.659, 0.689),
        VECTORS: (0.646, 0.704),
        LOGISTIC: (0.929, 0.952),
        BAYES: (0.874, 0.881),
        PERCEPTRON: (0.911, 0.934),
    },
}
GOALS: Goals = {
    ("wine", BAYES, 8.0): 0.90,
    ("wine", BAYES, 32.0): 0.95,
    ("wine", LOGISTIC, 4.0): 0.92,
    ("wine", LOGISTIC, 8.0): 0.95,
    ("wine", REGRESSION, 8.0): 0.86,
    ("wine", REGRESSION, 16.0): 0.95,
    ("wine", SHALLOW, 8.0): 0.90,
    ("cancer", BAYES, 1.0): 0.87,
    ("cancer", BAYES, 32.0): 0.93,
    ("cancer", LOGISTIC, 1.0): 0.92,
    ("cancer", LOGISTIC, 4.0): 0.955,
    ("cancer", REGRESSION, 8.0): 0.89,
    ("cancer", REGRESSION, 16.0): 0.935,
    ("cancer", SHALLOW, 8.0): 0.88,
}
NOTES = (
    SPLIT,
    NETWORKS,
    "The bounded prints on cancer at 32 tell nothing: .627 of the tumours are of the usual class.",
    "What gradients teach about tumours hardly gains from epsilon 16 to 64: 16 steps on columns scaled by their ranges "
    "hold it back, and not the noise.",
    PLAIN,
)


def find(quick: bool, seeds: Sequence[int]) -> Found:
    rows, notes = whole((datasets.wine(), datasets.cancer()), PRINTED, GOALS, quick=quick, seeds=seeds)
    data_told = "scikit-learn's wine (178 rows) and breast cancer (569 rows), every row a person"
    return Found(rows=rows, data=data_told, notes=[*NOTES, *notes])


EXPERIMENT = Experiment(
    name="tiresias-table-5-1",
    paper=PAPER,
    place="table 5.1",
    shows="What classes of wine and of tumours are learned from rows, models or gradients that are made private.",
    measure="accuracy on held-out rows, or what its panel says",
    across="epsilon",
    find=find,
    seeds=3,
    quick_seeds=1,
    better={"smallest epsilon": None, "": "more"},
    headline=Headline(panels=("wine", "cancer"), at=(1.0, 4.0, 8.0, 32.0, 64.0)),
)
