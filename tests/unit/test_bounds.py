"""Bins over every float, bounds that are right, and the outcome without bounds."""

from __future__ import annotations

import itertools
import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from thebes.privacy import randomness
from thebes.privacy.events import PureEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.grid import Grid
from thebes.privacy.mechanisms.bounds import Bounds, NoBounds, PowerBins, estimate_bounds
from thebes.privacy.promise import Adjacency
from thebes.testing.statistics import LEVEL, assert_rate

SURE = {"epsilon": 50, "adjacency": "replace-one", "randomness": randomness.seeded_for_simulation(0)}


@given(st.floats(allow_nan=False), st.sampled_from([-1022, -32, 0, 1000]))
def test_every_float_lies_within_the_edges_of_its_own_bin(value, lowest):
    bins = PowerBins(lowest)
    number = int(bins.number(np.array([value]))[0])
    assert 0 <= number < bins.count
    low, high = bins.edges(number)
    assert low <= max(-sys.float_info.max, min(value, sys.float_info.max)) <= high
    assert math.isfinite(low)
    assert math.isfinite(high)


@pytest.mark.parametrize("lowest", [-1022, -32, 0])
def test_bins_join_without_gap_or_overlap(lowest):
    bins = PowerBins(lowest)
    edges = [bins.edges(b) for b in range(bins.count)]
    assert all(high == low for (_, high), (low, _) in itertools.pairwise(edges))
    assert edges[0][0] == -sys.float_info.max
    assert edges[-1][1] == sys.float_info.max


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (np.linspace(20, 60, 1000), 16, 64),
        (-np.linspace(20, 60, 1000), -64, -16),
        (np.linspace(-3, 60, 1000), -4, 64),
        ([64.0] * 100, 64, 128),
        ([2.0**31] * 100 + [1.0] * 100, 1, 2.0**32),
        ([0.0] * 100, -(2.0**-32), 2.0**-32),
        ([1e308] * 100, 2.0**1023, sys.float_info.max),
        ([1e-300] * 100, -(2.0**-32), 2.0**-32),
    ],
)
def test_bounds_are_the_outer_edges_of_the_bins_in_use(values, low, high):
    assert estimate_bounds(values, **SURE).value == Bounds(low, high)


def test_bounds_are_always_fit_for_a_grid():
    found = estimate_bounds([1e308] * 100 + [-1e308] * 100 + [float("inf")] * 50, **SURE).value
    Grid(found.low, found.high)
    assert found.low == -found.high


@pytest.mark.parametrize("values", [[], [5.0], np.arange(40.0)])
def test_too_few_rows_are_a_normal_outcome_that_costs_the_same(values):
    found = estimate_bounds(
        values, epsilon=0.5, adjacency="add-remove-one", randomness=randomness.seeded_for_simulation(1)
    )
    assert isinstance(found.value, NoBounds)
    assert found.event == PureEvent("0.5")
    assert "budget" in found.value.sentence
    assert found.value.needed > found.parameters["threshold"]


def test_sentences_are_for_people():
    assert "16 and 64" in Bounds(16.0, 64.0).sentence
    assert "44" in NoBounds(44).sentence


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "change"), [(Adjacency.REPLACE_ONE, 2), (Adjacency.ADD_REMOVE_ONE, 1)])
def test_a_bin_stands_out_as_often_as_the_stated_noise_lets_it(adjacency, change):
    source, epsilon, rows = randomness.seeded_for_simulation(2), 1.0, 27 if change == 2 else 12
    found = [
        estimate_bounds([3.0] * rows, epsilon=epsilon, adjacency=adjacency, randomness=source, false_positive=1e-3)
        for _ in range(5000)
    ]
    short = found[0].parameters["threshold"] - rows
    stood = sum(isinstance(m.value, Bounds) and m.value.low <= 2 < 4 <= m.value.high for m in found)

    def rate(e: float) -> float:
        r = math.exp(-e / change)
        return r**short / (1 + r) if short > 0 else 1 - r ** (1 - short) / (1 + r)

    assert_rate(stood, 5000, rate, epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_empty_bins_stand_out_no_more_often_than_stated(adjacency):
    source = randomness.seeded_for_simulation(3)
    false = sum(
        isinstance(
            estimate_bounds([1.0], epsilon=1, adjacency=adjacency, randomness=source, false_positive=0.05).value, Bounds
        )
        for _ in range(1500)
    )
    assert binom.sf(false - 1, 1500, 0.06) > LEVEL
    assert false > 10


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=8), st.floats(allow_nan=False), st.integers(0, 7))
def test_one_row_changes_the_counts_by_no_more_than_the_noise_is_made_for(rows, new, place):
    bins = PowerBins(-32)
    count = lambda values: np.bincount(bins.number(np.array(values)), minlength=bins.count)  # noqa: E731
    before, place = count(rows), place % len(rows)
    assert np.abs(count([*rows, new]) - before).sum() == 1
    assert np.abs(count([*rows[:place], new, *rows[place + 1 :]]) - before).sum() <= 2


def test_real_releases_find_the_ages():
    ages = np.random.default_rng(0).integers(20, 61, 2000)
    found = estimate_bounds(
        ages, epsilon=1, adjacency="replace-one", randomness=randomness.system(), false_positive=1e-10
    )
    assert found.value == Bounds(16.0, 64.0)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("values", [float("nan")]), ("values", []), ("values", ["x"]), ("values", [[1.0]]), ("epsilon", 0),
        ("epsilon", float("nan")), ("adjacency", "none"), ("false_positive", 0.0), ("false_positive", 1.0),
        ("false_positive", "x"), ("lowest", 1023), ("lowest", -1023), ("lowest", 0.5),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(argument, value):
    with pytest.raises(Mistake) as refused:
        estimate_bounds(**{"values": [1.0], **SURE, argument: value})
    assert refused.value.argument == argument
