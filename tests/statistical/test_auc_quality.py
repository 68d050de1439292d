"""The area under the curve that a model is told to have, drawn often: intervals hold it, useless models are not called
better, and noise has its scale."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom, norm

from thebes import learning
from thebes.privacy.auc_quality import BINS, EDGES, bins_of, of_bins
from thebes.privacy.mechanisms.additive import Laplace
from thebes.privacy.model_quality import CLAIM, LEVEL, Worth
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import seeded_for_simulation, system
from thebes.privacy.stability import Change
from thebes.privacy.transformations.counts import HistogramCounts
from thebes.testing.recorder import Recorder
from thebes.testing.statistics import assert_size

TIMES = 2_000
ROWS = Change(Adjacency.REPLACE_ONE)


def chances(apart: float, rare: float) -> np.ndarray:
    """The odds of each cell, where scores of two classes are normal and lie so far apart."""
    edges = np.array([-np.inf, *EDGES, np.inf])
    classes = ((1 - rare, -apart / 2), (rare, apart / 2))
    return np.array([share * np.diff(norm.cdf(edges - place)) for share, place in classes])


def area(cells: np.ndarray) -> float:
    zero, one = cells / cells.sum(axis=1, keepdims=True)
    return float(one @ (np.cumsum(zero) - zero / 2))


def drawn(apart: float, rare: float, rows: int, epsilon: float) -> tuple[list, float]:
    cells, noise = chances(apart, rare), Laplace(epsilon).noise(HistogramCounts(2 * BINS).sensitivity(ROWS))
    chance = seeded_for_simulation(rows)
    tables = np.random.default_rng(rows).multinomial(rows, cells.reshape(-1), size=TIMES)
    noisy = noise.add(tables.reshape(-1).astype(np.int64), chance).reshape(TIMES, 2, BINS)
    return [of_bins(table, noise, share=0.1, epsilon=epsilon, of="rows") for table in noisy], area(cells)


@pytest.mark.few(2, slow=4)
@pytest.mark.parametrize(("rows", "epsilon"), [(30, 8.0), (300, 1.0), (3000, 1.0), (3000, 0.1), (20_000, 8.0)])
@pytest.mark.parametrize("rare", [0.5, 0.1])
@pytest.mark.parametrize("apart", [0.0, 1.0, 3.0])
def test_the_interval_holds_the_area_over_everybody_and_a_useless_model_is_not_called_better(
    rows, epsilon, rare, apart
) -> None:
    found, true = drawn(apart, rare, rows, epsilon)
    held = sum(each.interval.low <= true <= each.interval.high for each in found)
    assert held >= binom.ppf(1e-6, TIMES, LEVEL)
    assert all(each.interval.low <= each.value <= each.interval.high for each in found)
    if not apart:
        better = sum(each.verdict is Worth.BETTER for each in found)
        assert beta.ppf(0.99, better + 1, TIMES - better) <= CLAIM


def test_a_model_that_ranks_well_is_called_better_and_narrowly_so_where_rows_are_many() -> None:
    found, true = drawn(1.0, 0.5, 3000, 1.0)
    assert all(each.verdict is Worth.BETTER for each in found)
    assert np.mean([each.interval.high - each.interval.low for each in found]) < 0.2
    assert abs(np.mean([each.value for each in found]) - true) < 0.01


def test_bins_are_of_the_score_alone_and_keep_its_order() -> None:
    scores = np.linspace(-9, 9, 1000)
    assert np.array_equal(bins_of(scores), np.sort(bins_of(scores)))
    assert set(bins_of(scores)) == set(range(BINS))


@pytest.mark.parametrize(("adjacency", "moved"), [("replace-one", 2), ("add-remove-one", 1)])
def test_the_test_by_order_adds_noise_of_the_scale_that_its_epsilon_asks_for(adjacency, moved) -> None:
    X, y, epsilon, source = np.zeros((20, 1)), np.arange(20) % 2, 0.02, Recorder(1)
    source.source = system()
    model = learning.GaussianNB(
        epsilon=8.0, adjacency=adjacency, bounds={"*": (-1.0, 1.0)}, classes=[0, 1], random_state=1
    ).fit(X, y)
    for _ in range(200):
        model.tested(X, y, epsilon=epsilon, adjacency=adjacency, randomness=source, metric="auc")
    assert all(sums.sum() == 20 for sums in source.sums)
    assert_size(np.array(source.answers) - np.array(source.sums), "laplace", moved / epsilon)
