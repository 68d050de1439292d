"""The sparse vector against draws: what it really answers, how it closes, and how often a calibrated one misses."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from thebes.privacy import randomness
from thebes.privacy.events import PureEvent, Repeated
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.mechanisms.sparse_vector import (
    AboveThreshold,
    AlreadyAnswered,
    calibrate,
    difference_tail,
    first_above,
)
from thebes.testing.statistics import LEVEL, assert_odds, assert_rate, odds_p_value

COUNTS = [0, 2, 1, 9, 0]
REACH = np.arange(-600, 601)


def odds(scale: float) -> list[float]:
    """P(the first "yes" is at i), and at the end P(none), for threshold 4; summed over the threshold's noise."""
    r = math.exp(-1 / scale)
    still, out = math.tanh(1 / (2 * scale)) * r ** np.abs(REACH), []
    for count in COUNTS:
        gap = 4 + REACH - count
        yes = np.where(gap > 0, r ** np.maximum(gap, 0) / (1 + r), 1 - r ** (1 - np.minimum(gap, 1)) / (1 + r))
        out.append(float((still * yes).sum()))
        still = still * (1 - yes)
    return [*out, float(still.sum())]


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "monotone", "moves"), [("replace-one", False, 3), ("add-remove-one", True, 2)])
def test_answers_follow_their_odds(adjacency, monotone, moves):
    source = randomness.seeded_for_simulation(1)
    drawn = [
        first_above(
            COUNTS, threshold=4, epsilon=2, sensitivity=1, adjacency=adjacency, randomness=source, monotone=monotone
        ).value
        for _ in range(5000)
    ]
    counts = [drawn.count(place) for place in (0, 1, 2, 3, 4, None)]
    assert_odds(counts, lambda epsilon: odds(moves / epsilon), 2.0)


@pytest.mark.slow
def test_real_answers_follow_the_same_odds():
    source = randomness.system()
    drawn = [
        first_above(COUNTS, threshold=4, epsilon=2, sensitivity=1, adjacency="replace-one", randomness=source).value
        for _ in range(1000)
    ]
    assert odds_p_value([drawn.count(place) for place in (0, 1, 2, 3, 4, None)], odds(1.5)) > LEVEL


def opened(source=None, **changes) -> AboveThreshold:
    given = {"threshold": 1000, "epsilon": 0.5, "sensitivity": 1, "adjacency": "replace-one", **changes}
    return AboveThreshold(given.pop("threshold"), **given, randomness=source or randomness.seeded_for_simulation(2))


def test_it_answers_no_for_free_and_closes_after_one_yes():
    gate = opened()
    assert not any(gate.above(0) for _ in range(500))
    assert gate.event == PureEvent("0.5")
    assert gate.above(100_000)
    with pytest.raises(AlreadyAnswered) as refused:
        gate.above(0)
    assert isinstance(refused.value, Refusal)
    assert gate.event == PureEvent("0.5")


def test_every_opening_is_paid_and_draws_a_new_threshold():
    gate = opened(epsilon=0.01)
    thresholds = set()
    for _ in range(5):
        thresholds.add(gate.secret_state()["noisy_threshold"])
        gate.reopen()
    assert gate.event == Repeated(PureEvent("0.01"), 6)
    assert len(thresholds) == 5


def test_an_opening_continues_after_a_restart():
    first = opened(epsilon=0.01)
    state = first.secret_state()
    second = opened(randomness.seeded_for_simulation(99), epsilon=0.01)
    second.restore(state)
    assert second.secret_state() == state
    with pytest.raises(Mistake, match="secret_state"):
        second.restore({})
    first.above(10**9)
    second.restore(first.secret_state())
    with pytest.raises(AlreadyAnswered):
        second.above(0)


def test_a_guess_just_too_far_off_is_missed_as_often_as_computed_and_at_most_beta():
    n, alpha, beta = 10_000, 0.05, 1e-2
    plan = calibrate(n=n, alpha=alpha, beta=beta)
    distance, draws = math.floor(alpha * n) + 1, 400_000
    source = randomness.system()
    distances, thresholds = (
        source.laplace(np.full(draws, value, dtype=np.int64), scale=plan.scale) for value in (distance, plan.threshold)
    )
    missed = int((distances < thresholds).sum())
    assert binom.sf(missed - 1, draws, beta) > LEVEL
    needed = distance + 1 - plan.threshold
    assert_rate(missed, draws, lambda e: difference_tail(3 / e, needed), float(plan.opening))


@pytest.mark.slow
def test_a_calibrated_gate_misses_no_more_often_than_beta():
    n, alpha, beta = 2000, 0.1, 0.05
    plan = calibrate(n=n, alpha=alpha, beta=beta)
    source, missed = randomness.seeded_for_simulation(3), 0
    for _ in range(3000):
        gate = opened(source, threshold=plan.threshold, epsilon=plan.opening)
        missed += not gate.above(math.floor(alpha * n) + 1)
    assert binom.sf(missed - 1, 3000, beta) > LEVEL
    assert missed > 0.5 * beta * 3000  # nor is epsilon wasted


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("threshold", 1.5), ("threshold", 10**30), ("threshold", None), ("epsilon", 0), ("epsilon", float("nan")),
        ("sensitivity", 0), ("sensitivity", True), ("adjacency", "x"), ("monotone", True),
    ],
)  # fmt: skip
def test_bad_input_is_refused_by_name(argument, value):
    with pytest.raises(Mistake) as refused:
        opened(**{argument: value})
    assert refused.value.argument == argument


@pytest.mark.parametrize("count", [1.5, float("nan"), None, "1", 10**30, True])
def test_a_count_is_a_whole_number_and_a_wrong_one_leaves_it_open(count):
    gate = opened()
    with pytest.raises(Mistake, match=r"^count"):
        gate.above(count)
    assert gate.open


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("n", 0), ("n", 1.5), ("alpha", 0), ("alpha", 1), ("alpha", float("nan")), ("beta", 0), ("beta", 1.0),
        ("beta", "x"),
    ],
)  # fmt: skip
def test_a_calibration_names_what_is_wrong(argument, value):
    with pytest.raises(Mistake) as refused:
        calibrate(**{"n": 100, "alpha": 0.1, "beta": 0.01, argument: value})
    assert refused.value.argument == argument
