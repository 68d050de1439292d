"""Mechanisms broken on purpose, each the way real ones have been: an audit that misses one is worth nothing."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from evidence.audit import learning
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import seeded_for_simulation, system
from thebes.tasks.audit.case import Audited, Case, Draw, Enumerated, Floats

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE_ONE
FAST = system()


def cases() -> list[Case]:
    """Every one of these must be caught."""

    def control(name: str, adjacency: Adjacency, a: Draw, b: Draw, delta: float = 0.0, draws: int = 20_000) -> Case:
        return Audited(name, 1.0, delta, adjacency, a, b, positive_control=True, draws=draws)

    return [
        control("noise of half the scale", ADD, _laplace(0, 0.5), _laplace(1, 0.5)),
        control("sensitivity of adding under replacing", REPLACE, _laplace(-1, 1.0), _laplace(1, 1.0)),
        control(
            "Gaussian noise of half the scale", ADD, _gaussian(0, 1.2), _gaussian(1, 1.2), delta=1e-3, draws=1_000_000
        ),
        control("the same noise on two answers", ADD, _reused(0, 0), _reused(1, 0)),
        control("a generator that is seeded anew for each release", ADD, _reseeded(0), _reseeded(1)),
        control("Laplace noise in floating point", ADD, _careless(0.0), _careless(1.0)),
        control("bounds taken from the data", ADD, _clamped([1, 1, 1, 1]), _clamped([1, 1, 1, 1, 100])),
        control("no threshold on unknown keys", ADD, _keys(0), _keys(1), delta=1e-3),
        Enumerated(
            "odds that forget how many lies there are", 1.0, 0.0, REPLACE, _odds(0), _odds(1), positive_control=True
        ),
        replace(learning.attacked(learning.taken_classes(), 1.0), positive_control=True),
        *_forgotten(),
    ]


def _laplace(total: int, scale: float) -> Draw:
    return lambda n: FAST.laplace(np.full(n, total, dtype=np.int64), scale=scale)


def _gaussian(total: int, scale: float) -> Draw:
    return lambda n: FAST.gaussian(np.full(n, total * 1000, dtype=np.int64), scale=scale * 1000)


def _reused(first: int, second: int) -> Draw:
    def draw(n: int) -> np.ndarray:
        noise = FAST.laplace(np.zeros(n, dtype=np.int64), scale=2.0)
        return np.stack([first + noise, second + noise]).T

    return draw


def _reseeded(total: int) -> Draw:
    def draw(n: int) -> np.ndarray:
        once = seeded_for_simulation(7).laplace(np.array([total], dtype=np.int64), scale=1.0)
        return np.full(n, once[0])

    return draw


def _careless(total: float) -> Draw:
    # The right scale, but sums of floats have gaps that depend on what the noise was added to (Mironov 2012).
    def draw(n: int) -> Floats:
        uniform = (FAST.words(n) >> np.uint64(11)).astype(np.float64) / 2.0**53 - 0.5
        noise = -np.sign(uniform) * np.log1p(-2 * np.abs(uniform) + 2.0**-53)
        return np.asarray(total + noise, dtype=np.float64)

    return draw


def _clamped(rows: list[int]) -> Draw:
    return lambda n: FAST.laplace(np.full(n, sum(rows), dtype=np.int64), scale=float(max(rows)))


def _keys(rare: int) -> Draw:
    def draw(n: int) -> Floats:
        counts = FAST.laplace(np.full(n, rare, dtype=np.int64), scale=1.0).astype(np.float64)
        return counts if rare else np.full(n, -99.0)  # a key that nobody has is not in the table at all

    return draw


def _odds(own: int) -> dict[object, Fraction]:
    growth = Fraction(2718281828, 10**9)  # p from e^1 = p / (1-p), but each of the three lies has (1-p) / 3 only
    keep = growth / (1 + growth)
    return {answer: keep if answer == own else (1 - keep) / 3 for answer in range(4)}


def _forgotten() -> list[Case]:
    """Estimators that hardly add any noise: the kind of error that the few fits of this audit can see. They claim so
    little that an unlucky choice of what to look at still finds them out. A network that is fitted takes so long that
    there are too few fits even for that; its noise has a test of its own (tests/statistical). A class that one row
    alone has is kept back by the threshold, whatever the noise: what forgets that takes its classes from the data."""
    unseen = ("bounds", "network", "classes bought")
    return [
        replace(case, name=f"{case.name}, noise forgotten", epsilon=0.4, positive_control=True)
        for case in learning.cases(epsilon=200.0)
        if case.adjacency is ADD and not case.name.startswith(unseen)
    ]
