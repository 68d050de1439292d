"""Quantiles are drawn with the stated odds, intervals hold as often as stated, and both are useful."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from thebes.privacy import randomness
from thebes.privacy.mechanisms.quantile import median, quantile, quantiles, rank_error
from thebes.privacy.promise import Adjacency
from thebes.testing.statistics import LEVEL, assert_odds

ROWS = [1, 2, 2, 3, 9, 9, 12, 14]
BOTH = list(Adjacency)


def odds(alpha: float, rate: float) -> np.ndarray:
    """By the definition, for ROWS on the grid 0 .. 16."""
    points, rows = np.arange(17)[:, None], np.array(ROWS)[None, :]
    high = (rows < points).sum(axis=1) - alpha * len(ROWS)
    low = (rows > points).sum(axis=1) - (1 - alpha) * len(ROWS)
    high[0] = low[16] = 0
    return np.exp(-rate * np.maximum(np.maximum(high, low), 0))


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("alpha", [0.5, 0.2])
def test_a_quantile_follows_its_odds(adjacency, alpha):
    source = randomness.seeded_for_simulation(1)
    found = [
        quantile(ROWS, alpha=alpha, bounds=(0, 16), bits=4, epsilon=1.2, adjacency=adjacency, randomness=source).value
        for _ in range(7000)
    ]
    spread = 2 if adjacency is Adjacency.REPLACE_ONE else 2 * max(alpha, 1 - alpha)
    assert_odds(np.bincount(np.array(found, dtype=int), minlength=17), lambda e: odds(alpha, e / spread), 1.2)


@pytest.mark.slow
def test_several_quantiles_share_one_epsilon():
    source = randomness.seeded_for_simulation(2)
    found = [
        quantiles(
            ROWS, alphas=["0.5"] * 3, bounds=(0, 16), bits=4, epsilon=3.6, adjacency="replace-one", randomness=source
        ).value
        for _ in range(2500)
    ]
    counts = np.bincount(np.concatenate(found).astype(int), minlength=17)
    assert_odds(counts, lambda e: odds(0.5, e / 3 / 2), 3.6)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize(("alpha", "rows"), [(0.5, 300), (0.9, 300), (0.5, 20)])
def test_the_bought_interval_holds_every_sample_quantile_as_often_as_stated(adjacency, alpha, rows):
    """It may hold more often (the union bound is generous); never less than its level allows."""
    source, draws, level = randomness.seeded_for_simulation(3), 400, 0.8
    data = np.random.default_rng(0).integers(0, 1000, rows) / 10
    ordered = np.sort(data)
    low, high = (ordered[min(int(np.ceil(alpha * rows)) - 1 + k, rows - 1)] for k in (0, int(alpha * rows % 1 == 0)))
    held = 0
    for _ in range(draws):
        interval = quantile(
            data, alpha=alpha, bounds=(0, 100), epsilon=1, adjacency=adjacency, randomness=source, level=level
        ).interval(level)
        held += interval.low <= low and high <= interval.high
    assert binom.cdf(held, draws, level) > LEVEL


@pytest.mark.slow
def test_a_shift_by_too_few_ranks_would_be_noticed():
    """The positive control of the coverage test: ends asked at the target itself hold it far too rarely."""
    source, draws = randomness.seeded_for_simulation(4), 400
    data = np.random.default_rng(0).integers(0, 1000, 300) / 10
    held = 0
    for _ in range(draws):
        low, high = np.sort(
            [
                median(data, bounds=(0, 100), epsilon=0.25, adjacency="replace-one", randomness=source).value
                for _ in range(2)
            ]
        )
        held += low <= np.median(data) <= high
    assert binom.cdf(held, draws, 0.8) < LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", BOTH)
def test_rank_errors_stay_within_the_bound_stated(adjacency):
    source = randomness.seeded_for_simulation(5)
    data = np.arange(2000)
    bound = rank_error(alpha="0.5", epsilon=1, adjacency=adjacency, level=0.9, bits=11)
    found = [
        median(data, bounds=(0, 2048), bits=11, epsilon=1, adjacency=adjacency, randomness=source).value
        for _ in range(500)
    ]
    late = int((np.abs(np.array(found) - 999.5) > bound + 1).sum())
    assert binom.sf(late - 1, 500, 0.1) > LEVEL


@pytest.mark.parametrize("source", [randomness.system(), randomness.seeded_for_simulation(6)])
def test_the_median_age_of_ten_thousand_people_is_right_to_the_year(source):
    ages = np.random.default_rng(0).integers(18, 91, 10_000)
    for adjacency in BOTH:
        found = median(ages, bounds=(0, 128), bits=7, epsilon=1, adjacency=adjacency, randomness=source).value
        assert abs(found - np.median(ages)) <= 1


def test_quartiles_of_a_million_values_come_in_order():
    data = np.random.default_rng(0).normal(50, 15, 1_000_000)
    found = quantiles(
        data,
        alphas=[0.75, 0.25, 0.5],
        bounds=(-1000, 1000),
        epsilon=1,
        adjacency="add-remove-one",
        randomness=randomness.system(),
    ).value
    assert np.abs(found - np.quantile(data, [0.75, 0.25, 0.5])).max() < 0.05
