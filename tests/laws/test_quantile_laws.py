"""Ranks and odds of the quantile mechanism against slow definitions, on all small data sets and all neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thebes.privacy.exact import epsilon as read
from thebes.privacy.mechanisms.exponential import rate_of
from thebes.privacy.mechanisms.quantile import RankTarget
from thebes.privacy.promise import Adjacency

STEPS = 4
FAR = 2**60
Rows = tuple[int, ...]
ALPHAS = [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10)]


def distance(rows: Rows, steps: int, target: RankTarget, point: int) -> int:
    """The definition, one point at a time, in units of 1/denominator of a rank."""
    below, above = sum(r < point for r in rows), sum(r > point for r in rows)
    rank = target.alpha * len(rows)
    high = below - rank if point > 0 else Fraction(0)
    low = above - (len(rows) - rank) if point < steps else Fraction(0)
    return int(max(high, low, Fraction(0)) * target.alpha.denominator)


def spread_out(rows: Rows, steps: int, target: RankTarget, cap: int = FAR) -> np.ndarray:
    """The distance of every grid point, as the mechanism has it."""
    start, length, far = target.segments(np.array(sorted(rows), dtype=np.int64), steps, cap)
    assert (start == np.concatenate([[0], np.cumsum(length)[:-1]])).all()
    return np.repeat(far, length)


@given(
    st.lists(st.integers(0, 12), max_size=12),
    st.sampled_from([Fraction(1, 2), Fraction(1, 3), Fraction(7, 8), Fraction(1, 100)]),
)
def test_segments_agree_with_the_definition_at_every_point(rows, alpha):
    target = RankTarget(alpha)
    expected = [distance(tuple(rows), 12, target, v) for v in range(13)]
    assert spread_out(tuple(rows), 12, target).tolist() == expected
    assert spread_out(tuple(rows), 12, target, cap=3).tolist() == [min(e, 3) for e in expected]
    assert min(expected) == 0


@given(st.lists(st.integers(0, 20), min_size=1, max_size=15), st.sampled_from(ALPHAS))
def test_distance_zero_is_exactly_a_sample_quantile(rows, alpha):
    ordered, n = sorted(rows), len(rows)
    lowest = ordered[math.ceil(alpha * n) - 1]
    highest = ordered[min(math.floor(alpha * n), n - 1)]
    far = spread_out(tuple(rows), 20, RankTarget(alpha))
    inside = [v for v in range(21) if far[v] == 0 and 0 < v < 20]
    assert inside == [v for v in range(lowest, highest + 1) if 0 < v < 20]


def neighbours(rows: Rows, adjacency: Adjacency) -> Iterator[Rows]:
    if adjacency is Adjacency.ADD_REMOVE_ONE:
        for new in range(STEPS + 1):
            yield tuple(sorted((*rows, new)))
    else:
        for place in range(len(rows)):
            for new in range(STEPS + 1):
                yield tuple(sorted((*rows[:place], new, *rows[place + 1 :])))


def data_sets(most: int) -> Iterator[Rows]:
    for size in range(most + 1):
        yield from combinations_with_replacement(range(STEPS + 1), size)


@pytest.mark.few(1)
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("cap", [FAR, 3])
def test_no_neighbour_changes_the_odds_of_any_point_by_more_than_epsilon(adjacency, alpha, cap):
    epsilon, target, worst, widest = 1.0, RankTarget(alpha), 0.0, 0
    rate = float(rate_of(read(epsilon), target.spread(adjacency) * alpha.denominator))
    far = {rows: spread_out(rows, STEPS, target, cap) for rows in data_sets(7)}
    for rows in data_sets(6):
        for other in neighbours(rows, adjacency):
            here, there = (np.exp(-rate * far[r].astype(float)) for r in (rows, other))
            ratio = np.log(here / here.sum()) - np.log(there / there.sum())
            worst = max(worst, float(np.abs(ratio).max()))
            change = far[other] - far[rows]
            widest = max(widest, int(change.max() - change.min()))
            assert ratio.max() - ratio.min() <= epsilon + 1e-9  # bounded range, what ExponentialEvent prices
    assert worst <= epsilon + 1e-9
    if cap == FAR and alpha == Fraction(1, 2):
        assert Fraction(widest, alpha.denominator) == target.spread(adjacency)  # the bound is reached
        assert worst > 0.4 * epsilon
