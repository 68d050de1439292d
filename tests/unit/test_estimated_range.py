"""A range taken outward: what one row can move, what each step costs, what the rows outside may do to a statistic."""

from __future__ import annotations

import sys
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thebes.privacy import randomness
from thebes.privacy.accounting import pure
from thebes.privacy.events import Composed, PureEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.mechanisms.bounds import Bounds, NoBounds
from thebes.privacy.mechanisms.estimated_range import (
    Doublings,
    EstimatedRange,
    estimate_range,
    of_all_values,
    rows_outside,
)
from thebes.privacy.mechanisms.mean import mean
from thebes.privacy.mechanisms.sum import sum_
from thebes.privacy.mechanisms.variance import std, variance
from thebes.privacy.promise import Adjacency
from thebes.privacy.stability import change_of
from thebes.testing.statistics import assert_rate, assert_size
from thebes.testing.transcripts import Repetition, Transcript

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE_ONE
SIZES = [("replace-one", True), ("replace-one", False), ("add-remove-one", False)]
AGES = np.linspace(20, 60, 1000)


def found(values=AGES, *, epsilon: object = 50, adjacency="replace-one", public=True, source=None):
    return estimate_range(
        values,
        epsilon=epsilon,
        adjacency=adjacency,
        n=len(values) if public else None,
        randomness=source or randomness.seeded_for_simulation(0),
    )


# --- the ranges ---


def test_ranges_go_outward_by_doublings_and_stop_at_zero_first() -> None:
    lows, highs = Doublings(16, 64).ends
    assert lows.tolist() == [16, 0, *(-48.0 * (2**d - 1) for d in range(1, 8))]
    assert highs.tolist() == [64 + 48.0 * (2**d - 1) for d in range(9)]
    mirrored = Doublings(-64, -16).ends
    assert (mirrored[1] == -lows).all()
    assert (mirrored[0] == -highs).all()
    assert Doublings(-1, 1).ends[0][1] == -3


@given(st.sampled_from([(1.0, 2.0), (-2.0, -1.0), (-(2.0**-32), 2.0**-32), (2.0**1023, sys.float_info.max)]))
def test_every_range_is_finite_and_holds_the_first(first) -> None:
    lows, highs = Doublings(*first).ends
    assert np.isfinite([lows, highs]).all()
    assert (np.diff(lows) <= 0).all()
    assert (np.diff(highs) >= 0).all()
    assert (lows[0], highs[0]) == first


FLOATS = st.floats(-2e3, 2e3)


@given(st.lists(FLOATS, min_size=1, max_size=8), FLOATS, st.integers(0, 7))
def test_one_row_moves_no_number_outside_by_more_than_one(rows, new, place) -> None:
    ranges, place = Doublings(1, 2), place % len(rows)
    before = ranges.outside(np.array(rows))
    lows, highs = ranges.ends
    assert before[3, 2] == sum(not lows[3] <= v <= highs[2] for v in rows)
    added = ranges.outside(np.array([*rows, new])) - before
    assert set(np.unique(added)) <= {0, 1}
    assert np.abs(ranges.outside(np.array([*rows[:place], new, *rows[place + 1 :]])) - before).max() <= 1


def test_without_noise_the_range_is_the_narrowest_that_pays_for_its_doublings() -> None:
    few = np.concatenate([AGES, np.full(100, 90.0)])
    source = randomness.seeded_for_simulation(0)

    def taken(values: np.ndarray) -> Bounds:
        return Doublings(16, 64).chosen(values, epsilon=Decimal(50), adjacency=REPLACE, randomness=source)[0]

    assert taken(few) == Bounds(16.0, 112.0)
    assert taken(np.concatenate([AGES, [1e9]])) == Bounds(16.0, 64.0)


# --- the price ---


@pytest.mark.parametrize("epsilon", ["0.65", "1e-6", "0.1234567891", "7"])
def test_the_three_parts_are_all_of_epsilon_and_no_more(epsilon) -> None:
    many = np.full(200, 3.0) if Decimal(epsilon) > 1 else np.full(10_000, 3.0)
    measured = found(many, epsilon=epsilon)
    if isinstance(measured.value, NoBounds):
        assert measured.event == PureEvent(epsilon)
        return
    assert isinstance(measured.event, Composed)
    assert sum(measured.parameters["epsilon_shares"]) == pytest.approx(float(epsilon), abs=1e-12)
    price = pure.price(measured.event, adjacency=REPLACE)
    assert float(epsilon) * (1 - 1e-9) < float(price.epsilon) <= float(epsilon)


def test_nothing_seen_costs_the_whole() -> None:
    measured = found(AGES[:10], epsilon=1)
    assert isinstance(measured.value, NoBounds)
    assert measured.event == PureEvent(1)


@pytest.mark.parametrize(("adjacency", "public"), SIZES)
def test_the_rows_outside_get_noise_for_their_share_of_epsilon(adjacency, public) -> None:
    moved = 2 if adjacency == "replace-one" and not public else 1
    said = Transcript(randomness.seeded_for_simulation(0))
    found(np.full(4000, 3.0), epsilon="0.0325", adjacency=adjacency, public=public, source=said)
    assert said.noises[-1].before.tolist() == ([0] if public else [0, 4000])
    assert said.noises[-1].scale == pytest.approx(moved / 0.01)
    change = change_of(adjacency, public_size=public)
    options = {"epsilon": Decimal("0.01"), "change": change, "public": public, "randomness": said}
    drawn = [rows_outside(AGES, Bounds(1, 2), **options)[0][0] - AGES.size for _ in range(1500)]
    assert_size(drawn, "laplace", moved / 0.01)


@pytest.mark.parametrize(("adjacency", "public"), SIZES)
def test_no_row_moves_the_counts_further_than_the_noise_hides(adjacency, public) -> None:
    worst = 0.0
    change = change_of(adjacency, public_size=public)
    for here in [[v] for v in (0.0, 1.5, 9.0)] if adjacency == "replace-one" else [[]]:
        for there in (0.0, 1.5, 9.0):
            said = Transcript()
            options = {"epsilon": Decimal(1), "change": change, "public": public}
            rows_outside(np.array([1.2, 5.0, *here]), Bounds(1, 2), **options, randomness=said)
            again = Repetition(said)
            rows_outside(np.array([1.2, 5.0, there]), Bounds(1, 2), **options, randomness=again)
            worst = max(worst, again.loss().epsilon())
    assert worst == pytest.approx(1)


@pytest.mark.few(1)
@pytest.mark.parametrize(("adjacency", "spread"), [(REPLACE, 2), (ADD, 1)])
def test_a_range_is_taken_as_often_as_its_price_says(adjacency, spread) -> None:
    epsilon, source, trials = 1.0, randomness.seeded_for_simulation(5), 2500
    rows = np.concatenate([np.full(20, 1.5), np.full(10, 5.0)])
    taken = sum(
        Doublings(1, 2).chosen(rows, epsilon=Decimal(1), adjacency=adjacency, randomness=source)[0] == Bounds(1, 2)
        for _ in range(trials)
    )
    steps = np.arange(9)
    scores = Doublings(1, 2).outside(rows) + 6 * (steps[:, None] + steps[None, :])

    def rate(e: float) -> float:
        odds = np.exp(-e / spread * (scores - scores.min()))
        return float(odds[0, 0] / odds.sum())

    assert_rate(taken, trials, rate, epsilon)


# --- what the rows outside may do ---


def exact(values: np.ndarray, bounds: Bounds) -> EstimatedRange:
    """A range whose rows outside were counted without noise."""
    outside = float(((values < bounds.low) | (values > bounds.high)).sum())
    return EstimatedRange(bounds, (outside,), Additive("laplace", 1e-9, 1, PureEvent(1)), len(values))


STATISTICS = {"mean": (mean, np.mean), "sum": (sum_, np.sum), "variance": (variance, np.var), "std": (std, np.std)}


@pytest.mark.parametrize("statistic", STATISTICS)
@given(
    inside=st.lists(st.floats(1, 2), min_size=1, max_size=12),
    outside=st.lists(st.floats(0, 3), max_size=12),
    ends=st.integers(0, 12),
)
def test_rows_within_one_width_of_the_range_move_no_statistic_out_of_its_interval(
    statistic, inside, outside, ends
) -> None:
    values = np.array([*inside, *outside, *([3.0] * ends)])
    bounds, (mechanism, truth) = Bounds(1.0, 2.0), STATISTICS[statistic]
    measured = mechanism(
        values,
        bounds=(1.0, 2.0),
        epsilon=1e5,
        adjacency="replace-one",
        n=len(values),
        randomness=randomness.seeded_for_simulation(0),
    )
    bar = of_all_values(measured, exact(values, bounds), statistic).interval(0.95)
    assert bar.low - 1e-4 <= truth(values) <= bar.high + 1e-4


def test_more_certainty_takes_more_rows_outside() -> None:
    far = np.concatenate([AGES, 2.0 ** np.arange(20, 50)])  # so thin that none of them is seen
    many = found(far, epsilon=3).value
    assert 30 < many.rows(0.95) < many.rows(0.99) < 60
    assert many.share(0.95) == many.rows(0.95) / 1030
    private = found(far, epsilon=3, public=False).value
    assert 30 / 1030 < private.share(0.95) < private.share(0.99) < 0.06


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("epsilon", 0), ("epsilon", 1e-12), ("adjacency", "none"), ("values", [float("nan")]), ("values", [["x"]]),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(argument, value) -> None:
    options = {"values": AGES, "epsilon": 1, "adjacency": "add-remove-one", "randomness": randomness.system()}
    with pytest.raises(Mistake) as refused:
        estimate_range(**{**options, argument: value})
    assert refused.value.argument == argument
