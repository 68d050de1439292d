"""AnonML, figure 2: with which chances a bit is kept, as the number of categories grows."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from papers.anonml import PAPER
from papers.experiment import Experiment, Headline
from papers.outcome import Found, Row
from thebes.privacy import randomness
from thebes.privacy.mechanisms.local.unary import AsymmetricUnaryEncoding, SymmetricUnaryEncoding, UnaryEncoding

EPSILON = 1.0
SIZES = (2, 4, 8, 16, 32, 64, 128)
MECHANISMS: dict[str, type[UnaryEncoding]] = {"(p, q)": AsymmetricUnaryEncoding, "RAPPOR": SymmetricUnaryEncoding}


def find(quick: bool, seeds: Sequence[int]) -> Found:
    rows = [
        row
        for name, mechanism in MECHANISMS.items()
        for size in SIZES
        for row in _rows(name, mechanism(size, EPSILON), 20_000 if quick else 200_000, seeds)
    ]
    notes = (
        "Printed is the paper's equation 5 (for RAPPOR, its section VII-C) worked out; the figure shows curves without "
        "numbers. Ours is how often the mechanism's own coins kept a bit, counted.",
    )
    return Found(rows=rows, data="none: bits of made-up categories", notes=notes)


def _rows(name: str, mechanism: UnaryEncoding, people: int, seeds: Sequence[int]) -> list[Row]:
    kept, strayed = [], []
    for seed in seeds:
        reports = mechanism.perturb(np.zeros(people, dtype=np.int64), randomness.seeded_for_simulation(seed))
        kept.append(float(reports[:, 0].mean()))
        strayed.append(float(reports[:, 1:].mean()))
    p = least_error(mechanism.size, EPSILON) if name == "(p, q)" else 1 / (1 + math.exp(-EPSILON / 2))
    q = p / (p + math.exp(EPSILON) * (1 - p))
    return [
        Row.over(kept, series=f"p of {name}", at=mechanism.size, printed=p, epsilon=EPSILON),
        Row.over(strayed, series=f"q of {name}", at=mechanism.size, printed=q, epsilon=EPSILON),
    ]


def least_error(size: int, epsilon: float) -> float:
    """Equation 5 as it is printed."""
    x, m = math.exp(epsilon), size
    inside = (m - 1) * (x**3 + x) + ((m - 1) ** 2 + 1) * x**2
    return (x**2 + m * x - x - math.sqrt(inside)) / (x**2 - 1)


EXPERIMENT = Experiment(
    name="anonml-2",
    paper=PAPER,
    place="figure 2",
    shows="The chance that makes the least error falls from RAPPOR's towards one half as categories become many.",
    measure="chance that a bit is sent as 1",
    across="categories",
    find=find,
    better="same",
    headline=Headline(series=("p of",), at=(2, 16, 128)),
)
