"""A standard deviation and an interquartile range err at most half as much as they did over subsets, and their bars
hold."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from scipy.stats import binom

import thebes
from thebes.privacy.randomness import seeded_for_simulation
from thebes.tasks import registry
from thebes.tasks.basic.statistics import answer

RARE = 1e-6
LAWS = {
    "normal": (lambda r, n: r.normal(50, 15, n), 100.0),
    "lognormal": (lambda r, n: r.lognormal(3, 1, n), 1000.0),
    "uniform": (lambda r, n: r.uniform(0, 100, n), 100.0),
}
TRUE = {
    "std": np.std,
    "iqr": lambda rows: np.subtract(*np.quantile(rows, [0.75, 0.25], method="inverted_cdf")),
}
#: the root of the mean squared error at epsilon 1 of the median over as many subsets as the root of n
OVER_SUBSETS = {
    ("std", "normal"): {400: 15.3, 2000: 10.1, 20_000: 0.15},
    ("std", "lognormal"): {400: 236, 2000: 125, 20_000: 3.7},
    ("std", "uniform"): {400: 11, 2000: 7.3, 20_000: 0.19},
    ("iqr", "normal"): {400: 35, 2000: 22.9, 20_000: 0.25},
    ("iqr", "lognormal"): {400: 503, 2000: 369, 20_000: 0.49},
    ("iqr", "uniform"): {400: 20, 2000: 9.7, 20_000: 0.9},
}


def answers(aggregator: str, law: str, n: int, epsilon: float, draws: int, *, everybody: bool) -> tuple[float, int]:
    """(the root of the mean squared error, how many bars held)."""
    make, high = LAWS[law]
    rows = np.clip(make(np.random.default_rng(0), n), 0, high)
    bounds = {"x": {"type": "range", "low": 0.0, "high": high}}
    body = {"type": "basic", "epsilon": epsilon, "featurizer": "SELECT x FROM p.t", "bounds": bounds}
    missing = "refuse" if everybody else "count"
    document, source = registry.check({**body, "aggregator": aggregator, "missing": missing}), seeded_for_simulation(0)
    true, squares, held = float(TRUE[aggregator](rows)), 0.0, 0
    for _ in range(draws):
        found = answer(document, rows[:, None], np.zeros(n, dtype=bool), Decimal(str(epsilon)), source)
        bar = found.intervals[0.95]
        squares += (found.value - true) ** 2
        held += bar.low <= true <= bar.high
    return float(np.sqrt(squares / draws)), held


@pytest.mark.few(1, slow=5)
@pytest.mark.parametrize("n", [400, 2000, 20_000])
@pytest.mark.parametrize(("aggregator", "law"), OVER_SUBSETS)
def test_a_spread_errs_at_most_half_as_much_as_over_subsets(aggregator, law, n) -> None:
    draws = 60
    error, held = answers(aggregator, law, n, 1, draws, everybody=True)
    assert error <= OVER_SUBSETS[aggregator, law][n] / 2
    assert binom.cdf(held, draws, 0.95) > RARE


@pytest.mark.few(0, slow=10)
@pytest.mark.parametrize("draws", [400, pytest.param(1000, marks=pytest.mark.heavy)])
@pytest.mark.parametrize("everybody", [True, False])
@pytest.mark.parametrize("epsilon", [0.1, 1, 8])
@pytest.mark.parametrize("n", [400, 2000])
@pytest.mark.parametrize(("aggregator", "law"), OVER_SUBSETS)
def test_the_bar_of_a_spread_holds_as_often_as_it_says(aggregator, law, n, epsilon, everybody, draws) -> None:
    error, held = answers(aggregator, law, n, epsilon, draws, everybody=everybody)
    assert binom.cdf(held, draws, 0.95) > RARE
    assert error <= OVER_SUBSETS[aggregator, law][n] / 2 or epsilon != 1 or not everybody


def test_rounding_is_little_of_the_bar_of_many_people() -> None:
    rows = np.clip(np.random.default_rng(1).normal(50, 15, 100_000), 0, 100)
    document = {"type": "basic", "epsilon": 8, "min_count": 11, "featurizer": "SELECT x FROM p.t"}
    document |= {"aggregator": "variance", "bounds": {"x": {"type": "range", "low": 0, "high": 100}}}
    bar = thebes.simulate(document, {"x": rows}, seed=1).interval(0.95)
    assert bar.low <= rows.var() <= bar.high
    assert (bar.high - bar.low) / 2 < 0.025  # .08 where the range had 2^20 steps
