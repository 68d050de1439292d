"""Blocks are disjoint, one row changes one result, failing blocks count as the midpoint; noise and usefulness."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import binom

from thebes.privacy import randomness
from thebes.privacy.events import Composed, ExponentialEvent, PureEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.sample_aggregate import (
    SAFE_FUNCTIONS,
    SafeFunction,
    block_results,
    random_blocks,
    sample_and_aggregate,
)
from thebes.privacy.promise import Adjacency
from thebes.testing.statistics import LEVEL, assert_odds, assert_scale, laplace_cdf

BOTH = list(Adjacency)
BLOCK = np.random.default_rng(0).normal(size=(200, 2)) @ np.array([[1.0, 0.4], [0.0, 1.0]])


@given(st.integers(0, 200), st.integers(1, 40), st.sampled_from(BOTH), st.integers(0, 2**32))
def test_blocks_are_disjoint_and_hold_every_row(rows, blocks, adjacency, seed):
    parts = random_blocks(rows, blocks, adjacency=adjacency, randomness=randomness.seeded_for_simulation(seed))
    assert len(parts) == blocks
    assert sorted(np.concatenate(parts).tolist()) == list(range(rows))
    if adjacency is Adjacency.REPLACE_ONE:
        sizes = [p.size for p in parts]
        assert max(sizes) - min(sizes) <= 1


@given(
    st.lists(st.floats(-100, 100), min_size=5, max_size=40),
    st.floats(-1e6, 1e6),
    st.sampled_from(sorted(SAFE_FUNCTIONS)),
)
def test_one_row_replaced_changes_at_most_one_result(values, new, name):
    function = SAFE_FUNCTIONS[name]
    rows = np.array(values)[:, None] ** np.arange(1, function.columns + 1)
    source = randomness.seeded_for_simulation(1)
    blocks = random_blocks(len(rows), 4, adjacency=Adjacency.REPLACE_ONE, randomness=source)
    other = rows.copy()
    other[len(rows) // 2] = new
    before, after = (block_results(r, blocks, function, 0.0) for r in (rows, other))
    assert int((before != after).sum()) <= 1


@pytest.mark.parametrize("epsilon", [0.7, 1.0, 1.3])
def test_a_unit_that_has_no_row_is_as_near_as_one_with_another_row(epsilon):
    """The odds of the outcomes, exactly: six blocks of one unit each; the worst that a lost row does uses all of it."""
    rows, there = np.full(6, 10.0), np.arange(6) > 0
    found = [
        sample_and_aggregate(
            rows, function="mean", blocks=6, bounds=(0, 10), epsilon=epsilon, adjacency="replace-one", aggregate="mean",
            randomness=randomness.seeded_for_simulation(7), there=each, bits=1,
        )
        for each in (np.ones(6, dtype=bool), there)
    ]  # fmt: skip
    scale = found[0].parameters["noise_scale"]
    assert scale == pytest.approx(10 / 6 / epsilon)
    assert abs(found[0].value - found[1].value) <= 10 / 6  # one block's result, the midpoint now
    assert found[0].value != found[1].value


def test_absent_units_are_no_rows_of_any_block():
    rows, there = np.append(np.full(400, 3.0), np.full(400, 9.0)), np.arange(800) < 400
    found = sample_and_aggregate(
        rows, function="mean", blocks=20, bounds=(0, 10), epsilon=100, adjacency="replace-one",
        randomness=randomness.seeded_for_simulation(8), there=there,
    )  # fmt: skip
    assert found.value == pytest.approx(3, abs=0.01)


def test_one_row_more_leaves_all_blocks_but_one_as_they_were_under_add_remove_one():
    first, second = (
        random_blocks(n, 5, adjacency=Adjacency.ADD_REMOVE_ONE, randomness=randomness.seeded_for_simulation(2))
        for n in (50, 51)
    )
    changed = [i for i in range(5) if first[i].tolist() != second[i].tolist()]
    assert len(changed) == 1
    assert set(second[changed[0]]) - set(first[changed[0]]) == {50}


def test_failing_blocks_count_as_the_midpoint():
    def fails_on_negative(block):
        if block[0, 0] < 0:
            raise ZeroDivisionError
        return float("nan") if block[0, 0] > 5 else block[0, 0]

    rows = np.array([[-1.0], [3.0], [9.0]])
    blocks = [np.array([i]) for i in range(3)] + [np.array([], dtype=np.int64)]
    assert block_results(rows, blocks, SafeFunction(1, fails_on_negative, ""), 7.5).tolist() == [7.5, 3, 7.5, 7.5]


@pytest.mark.parametrize("name", sorted(SAFE_FUNCTIONS))
@pytest.mark.parametrize("rows", [[[0.0, 0.0]], [[1.0, 1.0]] * 5, [[1e308, -1e308]] * 4, [[np.inf, 1.0]] * 3])
@pytest.mark.filterwarnings("error")
def test_no_listed_function_raises_or_warns_on_odd_blocks(name, rows):
    function = SAFE_FUNCTIONS[name]
    data = np.array(rows)[:, : function.columns]
    results = block_results(data, [np.arange(len(data))], function, 0.5)
    assert not np.isnan(results).any()


@pytest.mark.parametrize(
    ("name", "oracle"),
    [
        ("mean", lambda b: np.mean(b[:, 0])),
        ("median", lambda b: np.median(b[:, 0])),
        ("trimmed_mean", lambda b: stats.trim_mean(b[:, 0], 0.1)),
        ("variance", lambda b: np.var(b[:, 0], ddof=1)),
        ("std", lambda b: np.std(b[:, 0], ddof=1)),
        ("iqr", lambda b: stats.iqr(b[:, 0])),
        ("mad", lambda b: stats.median_abs_deviation(b[:, 0])),
        ("skewness", lambda b: stats.skew(b[:, 0])),
        ("kurtosis", lambda b: stats.kurtosis(b[:, 0])),
        ("correlation", lambda b: stats.pearsonr(b[:, 0], b[:, 1]).statistic),
        ("rank_correlation", lambda b: stats.spearmanr(np.round(b, 1)).statistic),
        ("slope", lambda b: stats.linregress(b[:, 0], b[:, 1]).slope),
    ],
)
def test_listed_functions_agree_with_scipy(name, oracle):
    function = SAFE_FUNCTIONS[name]
    block = np.round(BLOCK, 1) if name == "rank_correlation" else BLOCK
    assert function.compute(block[:, : function.columns]) == pytest.approx(float(oracle(BLOCK)))
    assert function.sentence


def test_every_listed_function_has_an_oracle():
    oracles = next(
        mark.args[1] for mark in test_listed_functions_agree_with_scipy.pytestmark if mark.name == "parametrize"
    )
    assert {name for name, _ in oracles} == set(SAFE_FUNCTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", BOTH)
def test_the_mean_of_the_results_gets_noise_of_the_whole_range(adjacency):
    source = randomness.seeded_for_simulation(3)
    found = [
        sample_and_aggregate(
            [50.0] * 40, function="mean", blocks=10, bounds=(0, 100), epsilon=1, adjacency=adjacency,
            randomness=source, aggregate="mean",
        )
        for _ in range(5000)
    ]  # fmt: skip
    values = np.array([m.value for m in found])
    assert_scale(values - 50, laplace_cdf, 100 / 10)
    held = sum(m.interval(0.9).low <= 50 <= m.interval(0.9).high for m in found)
    assert min(binom.cdf(held, 5000, 0.9), binom.sf(held - 1, 5000, 0.9)) > LEVEL
    assert found[0].event == PureEvent(1)


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", BOTH)
def test_the_median_of_the_results_is_calibrated_for_one_changed_result(adjacency):
    """Six blocks whose results are all 5 (empty ones are at the midpoint, 5 too): odds by the definition, spread 2."""
    source = randomness.seeded_for_simulation(4)
    found = [
        sample_and_aggregate(
            [5.0] * 60, function="median", blocks=6, bounds=(0, 10), epsilon=1, adjacency=adjacency,
            randomness=source, bits=1,
        ).value
        for _ in range(5000)
    ]  # fmt: skip
    counts = [found.count(v) for v in (0, 5, 10)]
    assert_odds(counts, lambda e: np.exp(-e / 2 * np.array([3, 0, 3])), 1.0)


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("aggregate", ["median", "mean"])
def test_a_standard_deviation_of_many_rows_is_close(adjacency, aggregate):
    rows = np.random.default_rng(0).normal(0, 15, 40_000)
    found = sample_and_aggregate(
        rows, function="std", blocks=400, bounds=(0, 100), epsilon=1, adjacency=adjacency,
        randomness=randomness.seeded_for_simulation(6), aggregate=aggregate,
    )  # fmt: skip
    assert abs(found.value - 15) < 3
    assert found.adjacency is adjacency


def test_the_interval_of_the_median_is_bought_inside_the_same_epsilon():
    rows = np.random.default_rng(0).normal(0, 15, 40_000)
    found = sample_and_aggregate(
        rows, function="iqr", blocks=400, bounds=(0, 100), epsilon=1, adjacency="replace-one",
        randomness=randomness.seeded_for_simulation(5), level=0.9,
    )  # fmt: skip
    assert found.interval(0.9).low < 15 * 1.349 < found.interval(0.9).high
    assert isinstance(found.event, Composed)
    assert found.event.events[0] == ExponentialEvent("0.5")


GOOD = {
    "values": np.arange(20.0), "function": "mean", "blocks": 4, "bounds": (0, 20), "epsilon": 1,
    "adjacency": "replace-one", "randomness": randomness.seeded_for_simulation(0),
}  # fmt: skip


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("function", "eval"), ("function", len), ("function", None), ("blocks", 0), ("blocks", 21), ("blocks", 2.0),
        ("bounds", (1, 0)), ("epsilon", 0), ("epsilon", float("nan")), ("aggregate", "max"), ("adjacency", "x"),
        ("values", []), ("values", [float("nan")] * 20), ("values", np.ones((20, 2))), ("values", ["a"] * 20),
        ("level", 2.0), ("there", np.ones(3, dtype=bool)),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(argument, value):
    with pytest.raises(Mistake) as refused:
        sample_and_aggregate(**{**GOOD, argument: value})
    assert refused.value.argument == argument


def test_a_function_of_two_columns_needs_two():
    with pytest.raises(Mistake, match=r"^values"):
        sample_and_aggregate(**{**GOOD, "function": "correlation"})


def test_an_empty_table_is_no_error_where_its_size_is_private():
    for function in ("mean", "correlation"):
        found = sample_and_aggregate(**{**GOOD, "values": [], "adjacency": "add-remove-one", "function": function})
        assert 0 <= found.value <= 20
