"""The paper's model of 33 weights (section V-C), and made-up owners whose outcomes follow from it.

The printed formula has the block "-.51 B E21 -.68 B E22 + 1.65 B E23" where the products of D and E2 belong: only so
there are 33 weights. The distribution of the features is not printed; ours is fixed so that 46 % of the outcomes are 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Table = dict[str, NDArray[Any]]

#: by the name of the weight, for D as it is; the document scales D to [0, 1]
TRUE: Mapping[str, float] = {
    "intercept": 0.34, "b=1": -1.18, "e1=A": 1.05, "e1=B": 1.6, "e2=a": -1.51, "e2=b": 0.72, "e2=c": 1.36,
    "d": -1.41, "i": -1.67, "b=1 x e1=A": -1.14, "b=1 x e1=B": 1.3, "b=1 x e2=a": 1.72, "b=1 x e2=b": 0.18,
    "b=1 x e2=c": -1.52, "b=1 x d": 1.72, "b=1 x i": -1.17, "e1=A x e2=a": -0.12, "e1=A x e2=b": -0.53,
    "e1=A x e2=c": 1.0, "e1=B x e2=a": -0.42, "e1=B x e2=b": -1.64, "e1=B x e2=c": -1.53, "e1=A x d": 0.64,
    "e1=B x d": 0.48, "e1=A x i": -0.17, "e1=B x i": 0.44, "e2=a x d": -0.51, "e2=b x d": -0.68, "e2=c x d": 1.65,
    "e2=a x i": 0.51, "e2=b x i": -1.64, "e2=c x i": 0.57, "d x i": -0.8,
}  # fmt: skip
HIGHEST_D = 2.0
SCALED = {name: weight * (HIGHEST_D if "d" in name.split(" x ") else 1.0) for name, weight in TRUE.items()}

FEATURIZER = "SELECT b, e1, e2, d, i, o FROM app.event"
DOCUMENT: Mapping[str, Any] = {
    "type": "draw-discard",
    "min_count": 100,
    "featurizer": FEATURIZER,
    "family": "logistic",
    "inputs": ["b", "e1", "e2", "d", "i"],
    "crosses": "pairwise",
    "output": "o",
    "bounds": {
        "b": {"type": "set", "values": [1, 0]},
        "e1": {"type": "set", "values": ["A", "B", "C"]},
        "e2": {"type": "set", "values": ["a", "b", "c", "d"]},
        "d": {"type": "range", "low": 0.0, "high": HIGHEST_D},
        "i": {"type": "range", "low": 0.0, "high": 1.0},
        "o": {"type": "set", "values": [0, 1]},
    },
    "instances": 30,
    "mechanism": "none",
}


def people(count: int, *, rows: int = 1, seed: int = 0) -> Table:
    """Made-up owners with so many rows each."""
    draw, n = np.random.default_rng(seed), count * rows  # made-up people, not noise
    b, e1, e2 = draw.random(n) < 0.3, draw.choice(3, n, p=[0.3, 0.5, 0.2]), draw.choice(4, n, p=[0.2, 0.3, 0.3, 0.2])
    d, i = draw.uniform(0, HIGHEST_D, n), draw.binomial(4, 0.35, n) / 4
    table: Table = {"b": b.astype(int), "d": d, "i": i}
    table |= {"e1": np.array(list("ABC"))[e1], "e2": np.array(list("abcd"))[e2]}
    seen = draw.random(n) < chances(table)
    return {**table, "o": seen.astype(int), "person_id": np.repeat(np.arange(count), rows)}


def chances(table: Table) -> Floats:
    """The true chance of the outcome 1 in each row."""
    own: dict[str, Any] = {"intercept": 1.0, "b=1": table["b"], "d": table["d"], "i": table["i"]}
    own |= {f"{column}={v}": table[column] == v for column, values in (("e1", "AB"), ("e2", "abc")) for v in values}
    linear = np.zeros(len(table["d"]))
    for name, weight in TRUE.items():
        linear += weight * np.prod([own[factor] * np.ones(len(linear)) for factor in name.split(" x ")], axis=0)
    return np.asarray(1 / (1 + np.exp(-linear)))


def unscaled(weights: Mapping[str, float]) -> dict[str, float]:
    """Weights that were learned, as the paper counts them: for D as it is."""
    return {name: weights[name] * TRUE[name] / SCALED[name] for name in TRUE}
