"""Smooth sensitivity against its definition, and the median's (epsilon, delta) on all small neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache, lru_cache, partial
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thebes.privacy.mechanisms.smooth import OrderStatistics, noise_scale, smooth_sensitivity, smoothness
from thebes.privacy.promise import Adjacency

STEPS, MOST = 3, 5
BOTH = list(Adjacency)
Rows = tuple[int, ...]


def statistics(rows: Rows, steps: int = STEPS) -> OrderStatistics:
    return OrderStatistics(np.array(sorted(rows), dtype=np.int64), steps)


@cache
def neighbours(rows: Rows, adjacency: Adjacency, steps: int = STEPS) -> frozenset[Rows]:
    places = range(len(rows))
    without = [rows[:i] + rows[i + 1 :] for i in places]
    if adjacency is Adjacency.ADD_REMOVE_ONE:
        more = [(*rows, v) for v in range(steps + 1)]
        return frozenset(tuple(sorted(r)) for r in without + more)
    return frozenset(tuple(sorted((*r, v))) for r in without for v in range(steps + 1))


@cache
def local_sensitivity(rows: Rows, adjacency: Adjacency) -> int:
    here = statistics(rows).median
    return max((abs(here - statistics(other).median) for other in neighbours(rows, adjacency)), default=0)


def data_sets(most: int = MOST) -> Iterator[Rows]:
    for size in range(1, most + 1):
        yield from combinations_with_replacement(range(STEPS + 1), size)


@pytest.mark.parametrize("adjacency", BOTH)
def test_the_gap_is_the_largest_local_sensitivity_within_k_changes(adjacency):
    for rows in data_sets(4):
        reached: set[Rows] = {rows}
        for k in range(len(rows) + 1):
            widest = max(local_sensitivity(r, adjacency) for r in reached)
            assert statistics(rows).gap(k, adjacency) == widest, (rows, k)
            reached = reached.union(*(neighbours(r, adjacency) for r in reached))


def naive(gap, last, beta):
    return max(gap(k) * math.exp(-beta * k) for k in range(last + 1))


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.floats(1e-4, 3), st.sampled_from(BOTH))
def test_the_fast_maximum_is_the_plain_one(rows, beta, adjacency):
    ordered = statistics(tuple(rows), 1000)
    gap = lambda k: ordered.gap(k, adjacency)  # noqa: E731
    assert smooth_sensitivity(gap, len(rows), beta) == naive(gap, len(rows), beta)


@given(st.lists(st.integers(0, 2**20), max_size=40), st.lists(st.integers(0, 60), max_size=8), st.floats(1e-4, 1))
def test_the_fast_maximum_is_the_plain_one_on_ties_and_jumps(jumps, runs, beta):
    rows = tuple(v for i, v in enumerate(jumps) for _ in range(1 + (runs[i % len(runs)] if runs else 0)))
    ordered = statistics(rows, 2**20)
    for adjacency in BOTH:
        gap = cache(partial(ordered.gap, adjacency=adjacency))
        assert smooth_sensitivity(gap, len(rows), beta) == naive(gap, len(rows), beta)


def test_few_places_are_visited_where_there_are_many():
    visits = []
    rows = OrderStatistics(np.sort(np.random.default_rng(0).integers(0, 2**20, 200_001)), 2**20)

    def gap(k: int) -> int:
        visits.append(k)
        return rows.gap(k, Adjacency.REPLACE_ONE)

    smooth_sensitivity(gap, rows.n, 1e-3)
    assert len(visits) < 2000


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_neighbours_have_scales_within_e_to_the_beta(adjacency, epsilon):
    beta = smoothness(epsilon, 0.01)
    scale = lru_cache(maxsize=None)(
        lambda rows: noise_scale(np.array(rows, np.int64), STEPS, epsilon=epsilon, delta=0.01, adjacency=adjacency)
    )
    worst = max(
        abs(math.log(scale(rows) / scale(other))) for rows in data_sets() for other in neighbours(rows, adjacency)
    )
    assert 0.5 * beta < worst <= beta


def discrete_laplace(centre: int, scale: float, points: np.ndarray) -> np.ndarray:
    return math.tanh(1 / (2 * scale)) * np.exp(-np.abs(points - centre) / scale)


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 0.01), (1.0, 0.1), (3.0, 1e-4), (1.0, 0.5)])
def test_every_neighbour_keeps_epsilon_and_delta(adjacency, epsilon, delta):
    """Sum of max(0, P - e^epsilon Q) over all outcomes before clamping, for every pair of small neighbours."""
    points, worst = np.arange(-3000, 3000), 0.0

    @cache
    def outcome(rows: Rows) -> np.ndarray:
        scale = noise_scale(np.array(rows, np.int64), STEPS, epsilon=epsilon, delta=delta, adjacency=adjacency)
        return discrete_laplace(statistics(rows).median, scale, points)

    for rows in data_sets(4):
        for other in neighbours(rows, adjacency):
            excess = outcome(rows) - math.exp(epsilon) * outcome(other)
            worst = max(worst, float(excess[excess > 0].sum()))
    assert worst <= delta


def test_noise_to_the_local_sensitivity_would_not_protect():
    """Positive control: neighbours with local sensitivity 0 and 2 are told apart by the width of the noise alone."""
    epsilon, points = 1.0, np.arange(-300, 300)
    calm, near = (1, 1, 1, 1, 3), (1, 1, 1, 3, 3)
    assert near in neighbours(calm, Adjacency.REPLACE_ONE)
    scales = [max(local_sensitivity(r, Adjacency.REPLACE_ONE), 1 / 16) * 2 / epsilon for r in (calm, near)]
    p, q = (discrete_laplace(1, s, points) for s in scales)
    assert float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) > 0.5


@pytest.mark.parametrize("rows", [(0, 1, 3), (0, 0, 3, 3), (1, 2, 2, 3)])
def test_the_median_is_one_row_the_lower_middle_one(rows):
    assert statistics(rows).median == sorted(rows)[(len(rows) - 1) // 2]
