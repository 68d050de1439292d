"""An error bar over a range that nobody declared holds the statistic of the values as they are, or is not there.

Where it rests on an assumption the release says so; the laws here with a finite variance keep it.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

from thebes.privacy.randomness import seeded_for_simulation
from thebes.tasks import registry
from thebes.tasks.basic.statistics import answer

DRAWS = 60
#: with bars that hold in 95 % of draws, more wrong ones come once in a million times
MOST_WRONG = int(binom.isf(1e-6, DRAWS, 0.05))
TRUE = {
    "sum": np.sum,
    "mean": np.mean,
    "variance": np.var,
    "std": np.std,
    "median": np.median,
    "quantile": lambda values: np.quantile(values, 0.9, method="inverted_cdf"),
}


def lognormal(source: np.random.Generator, people: int) -> np.ndarray:
    return source.lognormal(3, 1, people)


def uniform(source: np.random.Generator, people: int) -> np.ndarray:
    return source.uniform(0, 100, people)


def mostly_far(source: np.random.Generator, people: int) -> np.ndarray:
    """A few alike, the others spread so thin over all sizes that no size of theirs is seen."""
    return np.where(source.random(people) < 0.3, 1.5, 2.0 ** source.uniform(5, 300, people))


def asked(aggregator: str, **more: str | float) -> object:
    more |= {"quantile": 0.9} if aggregator == "quantile" else {}
    document = {"type": "basic", "epsilon": 1.0, "min_count": 11, "featurizer": "SELECT age FROM p.t", **more}
    return registry.check({**document, "aggregator": aggregator})


def answered(document, values: np.ndarray, seed: int):
    nobody = np.zeros(len(values), dtype=bool)
    return answer(document, values[:, None], nobody, Decimal(1), seeded_for_simulation(seed))


@pytest.mark.few(2, slow=8)
@pytest.mark.parametrize("people", [300, 1000, 5000])
@pytest.mark.parametrize("law", [lognormal, uniform, mostly_far])
@pytest.mark.parametrize("aggregator", TRUE)
def test_a_bar_that_is_shown_over_an_estimated_range_holds_the_uncut_statistic(aggregator, law, people) -> None:
    document, source, wrong = asked(aggregator), np.random.default_rng(people), 0
    for seed in range(DRAWS):
        values = law(source, people)
        found = answered(document, values, seed)
        bar = found.intervals.get(0.95)
        wrong += bar is not None and not bar.low <= TRUE[aggregator](values) <= bar.high
        if found.value is not None:
            assert ("No interval" in found.note) is (not found.intervals)
    assert wrong <= MOST_WRONG


LAWS = {
    "lognormal(3, 1)": lambda source, people: source.lognormal(3, 1, people),
    "lognormal(10, .8)": lambda source, people: source.lognormal(10, 0.8, people),
    "uniform": lambda source, people: source.uniform(0, 100, people),
    "exponential": lambda source, people: source.exponential(1, people),
    "normal about 0": lambda source, people: source.normal(0, 1, people),
    "pareto(2)": lambda source, people: source.pareto(2, people) + 1,
}
#: half widths of the mean's bar, 1,000 and 10,000 people
WIDEST = {
    "lognormal(3, 1)": (9.0, 2.5), "lognormal(10, .8)": (7200, 1450), "uniform": (3.7, 0.38),
    "exponential": (0.2, 0.027), "normal about 0": (0.34, 0.024), "pareto(2)": (0.3, 0.11),
}  # fmt: skip


@pytest.mark.few(0, slow=2)
@pytest.mark.parametrize("people", [1000, 10_000])
@pytest.mark.parametrize("law", LAWS)
def test_a_mean_is_held_by_the_interval_of_all_values(law, people) -> None:
    """In 95 % of draws wherever the variance is finite, in 80 % where it is not. A draw without a bar is not wrong."""
    document, draws, wrong, widths = asked("mean"), 1000, 0, []
    for seed in range(draws):
        values = LAWS[law](np.random.default_rng([seed, people]), people)
        found = answered(document, values, seed)
        if (bar := found.intervals.get(0.95)) is not None:
            assert "holds if" in found.note
            wrong += not bar.low <= values.mean() <= bar.high
            widths.append((bar.high - bar.low) / 2)
    assert wrong <= binom.isf(1e-6, draws, 0.2 if law == "pareto(2)" else 0.05)
    assert len(widths) > 0.85 * draws
    assert np.median(widths) <= WIDEST[law][people == 10_000]


@pytest.mark.few(1)
@pytest.mark.parametrize("law", ["uniform", "lognormal(3, 1)", "exponential"])
@pytest.mark.parametrize("aggregator", ["mean", "sum", "std"])
def test_the_bars_hold_where_the_number_of_people_is_private(aggregator, law) -> None:
    wrong = 0
    for seed in range(DRAWS):
        values = LAWS[law](np.random.default_rng(seed), 2000)
        found = answered(asked(aggregator, missing="count"), values, seed)
        bar = found.intervals.get(0.95)
        wrong += bar is not None and not bar.low <= TRUE[aggregator](values) <= bar.high
    assert wrong <= MOST_WRONG


def test_a_median_well_inside_an_estimated_range_keeps_its_bar() -> None:
    values, shown = uniform(np.random.default_rng(3), 5000), 0
    for seed in range(20):
        found = answered(asked("median"), values, seed)
        shown += 0.95 in found.intervals and "the values as they are" in found.note
        for less, more in pairwise(found.intervals[level] for level in sorted(found.intervals)):
            assert more.low <= less.low <= less.high <= more.high
    assert shown == 20
