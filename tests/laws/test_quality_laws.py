"""Bounds on the mean over everybody: worst at the ends that noise leaves, ordered as proved, seldom wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.privacy import quality

sums = st.floats(0, 1e6)
some = st.floats(0, 1e3)
failing = st.floats(1e-6, 0.4)
TOLERANCE = 1e-9


@given(sums, sums, some, some, failing)
def test_upper_bounds_are_worst_at_the_most_lost_and_the_least_kept(
    lost: float, kept: float, less: float, more: float, f: float
) -> None:
    for bound in (quality.bernstein, quality.chernoff, quality.binomial):
        assert bound(max(0.0, lost - less), kept + more, f) <= bound(lost, kept, f) + TOLERANCE


@given(sums, sums, some, some, failing)
def test_lower_bounds_are_worst_at_the_least_lost_and_the_most_kept(
    lost: float, kept: float, less: float, more: float, f: float
) -> None:
    for bound in (quality.chernoff_below, quality.binomial_below):
        assert bound(max(0.0, lost - less), kept + more, f) <= bound(lost, kept, f) + TOLERANCE


@given(sums, sums, sums, some, some, some, failing)
def test_the_empirical_bound_is_worst_at_the_same_ends(
    squares: float, mixed: float, kept: float, fewer: float, less: float, more: float, f: float
) -> None:
    better = quality.empirical(max(0.0, squares - fewer), max(0.0, mixed - less), kept + more, f)
    assert better <= quality.empirical(squares, mixed, kept, f) + TOLERANCE


@given(sums, sums, failing)
def test_chernoff_is_never_above_bernstein(lost: float, kept: float, f: float) -> None:
    assert quality.chernoff(lost, kept, f) <= quality.bernstein(lost, kept, f) + TOLERANCE


@given(st.integers(0, 5000), st.integers(1, 5000), failing)
def test_for_right_and_wrong_the_exact_bound_is_never_above_chernoff(lost: int, kept: int, f: float) -> None:
    assert quality.binomial(lost, kept, f) <= quality.chernoff(lost, kept, f) + TOLERANCE
    assert quality.binomial_below(lost, kept, f) >= quality.chernoff_below(lost, kept, f) - TOLERANCE


@given(sums, st.floats(1, 1e6), failing)
def test_the_mean_seen_lies_between_both_bounds(lost: float, kept: float, f: float) -> None:
    mean = lost / (lost + kept)
    for below, above in ((quality.chernoff_below, quality.chernoff), (quality.binomial_below, quality.binomial)):
        assert below(lost, kept, f) <= mean + TOLERANCE
        assert 0 <= below(lost, kept, f) <= above(lost, kept, f) <= 1
        assert mean <= above(lost, kept, f) + TOLERANCE


def test_the_exact_bound_is_clopper_and_pearsons() -> None:
    from scipy.stats import binomtest

    for lost, rows in ((0, 10), (3, 50), (49, 50)):
        both = binomtest(lost, rows).proportion_ci(0.9, method="exact")
        assert quality.binomial(lost, rows - lost, 0.05) == pytest.approx(both.high)
        assert quality.binomial_below(lost, rows - lost, 0.05) == pytest.approx(both.low)


def test_chernoff_solves_its_equation() -> None:
    lost, kept, f = 30.0, 970.0, 0.01
    u, mean = quality.chernoff(lost, kept, f), 0.03
    gap = mean * math.log(mean / u) + (1 - mean) * math.log((1 - mean) / (1 - u))
    assert 1000 * gap == pytest.approx(math.log(1 / f), rel=1e-6)
    assert quality.chernoff(0.0, 100.0, f) == pytest.approx(1 - f**0.01)


def test_sages_bound_is_listing_2() -> None:
    far = math.log(1 / 0.01)
    assert quality.bernstein(30.0, 970.0, 0.01) == pytest.approx(
        0.03 + math.sqrt(2 * 0.03 * far / 1000) + 4 * far / 1000
    )


@examples(12)  # each solves for some hundred exact bounds
@given(st.sampled_from([0.003, 0.05, 0.4]), st.sampled_from([30, 300, 3000]), st.integers(0, 2**32))
def test_bounds_fail_no_more_often_than_they_say(u: float, rows: int, seed: int) -> None:
    """Losses of 0 and 1, and of 0 and u's double: counted over 400 draws, which tell 0.2 from 0.1 at p < 1e-9."""
    draw, f = np.random.default_rng(seed), 0.1
    lost = draw.binomial(rows, u, 400).astype(float)
    high = [quality.binomial(x, rows - x, f) < u for x in lost]
    low = [quality.binomial_below(x, rows - x, f) > u for x in lost]
    wide = [quality.bernstein(x, rows - x, f) < u for x in lost]
    spread = [quality.empirical(x * 4 * u * u, x * 4 * u * (1 - 2 * u), rows - x * (4 * u - 4 * u * u), f) < u
              for x in draw.binomial(rows, 0.5, 400)]  # fmt: skip
    for wrong in (high, low, wide, spread):
        assert sum(wrong) < 90


def test_nothing_is_said_about_nobody() -> None:
    for bound in (quality.bernstein, quality.chernoff, quality.binomial):
        assert bound(0.0, 0.0, 0.05) == 1.0
    assert quality.empirical(0.0, 0.0, 1.0, 0.05) == 1.0
    for below in (quality.chernoff_below, quality.binomial_below):
        assert below(0.0, 10.0, 0.05) == 0.0
    assert quality.hoeffding(0.0, 0.05) == math.inf
