"""Validators: what they say of good, bad and undecided models, what they charge, and what they refuse."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from thebes.curator.pipelines.validators import METRICS, Best, Validation, Verdict, absolute, is_met, together, validate
from thebes.privacy import quality
from thebes.privacy.events import LaplaceEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import seeded_for_simulation
from thebes.privacy.stability import Change

ADD = Adjacency.ADD_REMOVE_ONE


def checked(metric: str, target: float, values: Any, **more: Any) -> Validation:
    asked = {"epsilon": 1.0, "eta": 0.05, "change": ADD, "randomness": seeded_for_simulation(3), **more}
    return validate(metric, target, values, **asked)


def losses(rows: int, mean: float) -> Any:
    """Squared errors as they are: most of them tiny, a few large."""
    values = np.full(rows, mean / 2)
    values[:: max(1, round(1 / mean))] += 0.5
    return values


# --- verdicts -------------------------------------------------------------------------------------------------


def test_a_good_model_is_accepted_once_there_are_rows_enough() -> None:
    few, many = (checked("mse", 0.005, losses(rows, 0.0026)) for rows in (1000, 30_000))
    assert few.verdict is Verdict.RETRY
    assert many.verdict is Verdict.ACCEPT
    assert many.bound is not None
    assert many.value is not None
    assert many.value < many.bound <= 0.005
    assert many.rows == pytest.approx(30_000, abs=50)


def test_a_bad_model_is_tried_again_and_never_accepted() -> None:
    assert checked("mse", 0.005, losses(200_000, 0.006)).verdict is Verdict.RETRY


def test_accuracy_is_better_when_it_is_higher() -> None:
    right = np.arange(20_000) % 100 < 78
    accepted = checked("accuracy", 0.76, right)
    assert accepted.verdict is Verdict.ACCEPT
    assert accepted.method == "binomial"
    assert accepted.value == pytest.approx(0.78, abs=0.01)
    assert accepted.bound is not None
    assert 0.76 <= accepted.bound < 0.78
    assert checked("accuracy", 0.79, right).verdict is Verdict.RETRY
    assert checked("accuracy", 0.76, right.astype(np.float64)) == accepted


def test_a_class_that_cannot_meet_the_target_is_rejected() -> None:
    rows = 50_000
    least = Best(total=0.01 * rows, rows=rows)
    assert checked("mse", 0.005, losses(rows, 0.012), best=least).verdict is Verdict.REJECT
    assert checked("mse", 0.011, losses(rows, 0.012), best=least).verdict is Verdict.RETRY
    wrong = Best(total=0.22 * rows, rows=rows)
    right = np.arange(rows) % 100 < 77
    assert checked("accuracy", 0.85, right, best=wrong).verdict is Verdict.REJECT
    assert checked("accuracy", 0.775, right, best=wrong).verdict is Verdict.RETRY


def test_a_model_that_meets_its_target_is_accepted_whatever_the_class_can_do() -> None:
    rows = 50_000
    assert checked("mse", 0.005, losses(rows, 0.0026), best=Best(100.0, rows)).verdict is Verdict.ACCEPT


def test_nobody_is_never_good_enough() -> None:
    for method in ("bernstein", "chernoff", "empirical"):
        assert checked("mse", 0.999, [], method=method).verdict is Verdict.RETRY
        assert checked("mse", 0.999, np.zeros(3), method=method, epsilon=0.01).verdict is Verdict.RETRY
    assert checked("accuracy", 0.5, np.zeros(0, dtype=bool)).verdict is Verdict.RETRY


def test_losses_are_cut_at_the_largest_and_what_is_no_number_counts_as_that() -> None:
    broken = np.zeros(10_000)
    broken[:5000] = math.nan
    spoiled = checked("log_loss", 1.0, broken, largest=3.0)
    assert spoiled.verdict is Verdict.RETRY
    assert spoiled.value == pytest.approx(1.5, abs=0.01)
    assert spoiled.clipped == 3.0
    endless = checked("mse", 0.5, np.full(10_000, math.inf))
    assert endless.value == pytest.approx(1.0, abs=0.01)


def test_a_smaller_largest_loss_needs_fewer_rows() -> None:
    rows = np.minimum(losses(5000, 0.0026), 0.1)
    assert checked("mse", 0.005, rows).verdict is Verdict.RETRY
    assert checked("mse", 0.005, rows, largest=0.1).verdict is Verdict.ACCEPT


def test_rows_may_come_in_parts() -> None:
    whole = losses(30_000, 0.0026)
    assert checked("mse", 0.005, iter(np.array_split(whole, 7))) == checked("mse", 0.005, whole)
    assert checked("mse", 0.005, np.array_split(whole, 7)) == checked("mse", 0.005, whole)
    assert checked("mse", 0.005, whole.tolist()) == checked("mse", 0.005, whole)


def test_tighter_methods_accept_earlier() -> None:
    rows = losses(11_000, 0.0026)
    assert checked("mse", 0.005, rows, method="bernstein").verdict is Verdict.RETRY
    assert checked("mse", 0.005, rows, method="chernoff").verdict is Verdict.ACCEPT
    assert checked("mse", 0.005, rows).method == "chernoff"
    small = np.full(11_000, 0.05)  # no spread at all
    assert checked("mse", 0.0545, small, method="chernoff").verdict is Verdict.RETRY
    assert checked("mse", 0.0545, small, method="empirical").verdict is Verdict.ACCEPT


@pytest.mark.parametrize(
    ("loss", "target", "bernstein", "chernoff"),
    [(0.0026, 0.0035, 41_810, 23_509), (0.05, 0.1, 485, 184), (0.22, 0.25, 2205, 1235)],
)
def test_the_default_accepts_with_about_half_of_the_papers_rows(loss, target, bernstein, chernoff) -> None:
    """Counted without noise, at eta .05: from so many rows on, and not from a tenth fewer."""
    for rows, method in ((bernstein, quality.bernstein), (chernoff, quality.chernoff)):
        assert method(rows * loss, rows * (1 - loss), 0.05) <= target * (1 + 1e-9)
        fewer = 0.9 * rows
        assert method(fewer * loss, fewer * (1 - loss), 0.05) > target
    assert bernstein / chernoff > 1.75


def test_rows_of_one_person_are_worth_fewer_draws() -> None:
    many = Change(ADD, rows=5, unit=Unit.PERSON)
    rows = losses(30_000, 0.0026)
    assert checked("mse", 0.005, rows).verdict is Verdict.ACCEPT
    assert checked("mse", 0.005, rows, change=many).verdict is Verdict.RETRY
    assert checked("mse", 0.005, losses(200_000, 0.0026), change=many).verdict is Verdict.ACCEPT
    assert checked("accuracy", 0.7, np.arange(50_000) % 100 < 78, change=many).method == "bernstein"
    with pytest.raises(Mistake, match="several rows"):
        checked("mse", 0.005, rows, change=many, method="chernoff")


# --- several metrics ------------------------------------------------------------------------------------------


def test_all_metrics_must_be_met() -> None:
    good, bad = checked("mse", 0.005, losses(30_000, 0.0026)), checked("mse", 0.005, losses(1000, 0.0026))
    never = checked("mse", 0.005, losses(50_000, 0.012), best=Best(500.0, 50_000))
    assert together([good, good]) is Verdict.ACCEPT
    assert together({"a": good, "b": bad}) is Verdict.RETRY
    assert together([good, bad, never]) is Verdict.REJECT
    with pytest.raises(Mistake, match="at least one"):
        together([])


def test_targets_are_compared_in_the_right_direction() -> None:
    assert is_met("mse", 0.1, 0.2)
    assert not is_met("mse", 0.3, 0.2)
    assert is_met("accuracy", 0.3, 0.2)
    assert not is_met("accuracy", 0.1, 0.2)


def test_metrics_know_their_losses() -> None:
    truth, said = np.array([0.0, 1.0, 1.0]), np.array([0.2, 0.9, 0.4])
    assert METRICS["mse"].losses(truth, said) == pytest.approx([0.04, 0.01, 0.36])
    assert METRICS["mae"].losses(truth, said) == pytest.approx([0.2, 0.1, 0.6])
    assert METRICS["log_loss"].losses(truth, said) == pytest.approx([-math.log(0.8), -math.log(0.9), -math.log(0.4)])
    assert METRICS["log_loss"].losses(np.array([1.0]), np.array([0.0])) == pytest.approx([math.inf])
    assert METRICS["accuracy"].losses(truth, said).tolist() == [1, 1, 0]


# --- released statistics --------------------------------------------------------------------------------------


def test_a_sum_is_judged_by_its_noise_alone() -> None:
    def noise(failing: float, scale: float = 10.0) -> float:
        return scale * math.log(1 / failing)

    assert absolute("visits", 31.0, noise, eta=0.05).verdict is Verdict.ACCEPT
    assert absolute("visits", 29.0, noise, eta=0.05).verdict is Verdict.RETRY
    good, bad = (lambda failing: noise(failing, 9.0)), (lambda failing: noise(failing, 9.9))
    assert absolute("visits", 29.0, noise, eta=0.05, best_noise=good).verdict is Verdict.RETRY
    assert absolute("visits", 29.0, noise, eta=0.05, best_noise=bad).verdict is Verdict.REJECT
    assert absolute("visits", 31.0, noise, eta=0.05).epsilon == 0


def test_many_statistics_share_the_chance_of_error() -> None:
    def noise(failing: float) -> Any:
        return 10.0 * np.log(1 / failing) * np.ones(24)

    one = absolute("speed", 1.0, lambda failing: 10.0 * math.log(1 / failing), eta=0.05).bound
    many = absolute("speed", 1.0, noise, eta=0.05).bound
    assert one is not None
    assert many == pytest.approx(one + 10 * math.log(24))


def test_a_mean_over_everybody_also_needs_rows() -> None:
    found = absolute("speed", 0.5, lambda f: 0.001, eta=0.05, rows=lambda f: 10_000.0, reach=10.0)
    assert found.verdict is Verdict.ACCEPT
    assert found.bound == pytest.approx(0.001 + 10 * math.sqrt(math.log(2 * 3 / 0.05) / 20_000))
    nobody = absolute("speed", 0.5, lambda f: 0.001, eta=0.05, rows=lambda f: 0.0, reach=10.0)
    assert nobody.verdict is Verdict.RETRY
    assert nobody.bound is None


# --- price ----------------------------------------------------------------------------------------------------


def test_a_test_costs_what_was_given_for_it() -> None:
    found = checked("mse", 0.005, losses(1000, 0.0026), epsilon=0.25)
    assert found.epsilon == Decimal("0.25")
    assert found.delta == 0
    (event,) = found.events
    assert isinstance(event, LaplaceEvent)
    assert event.ratio == pytest.approx(4.0)


def test_accept_and_reject_are_both_charged() -> None:
    found = checked("mse", 0.005, losses(1000, 0.0026), epsilon=0.25, best=Best(1.0, 1000))
    assert found.epsilon == Decimal("0.25")
    ratios = [event.ratio for event in found.events if isinstance(event, LaplaceEvent)]
    assert ratios == pytest.approx([8.0, 8.0])


def test_a_validation_is_told_without_what_does_not_apply() -> None:
    told = checked("accuracy", 0.7, np.ones(500, dtype=bool)).as_json()
    assert told["verdict"] == "ACCEPT"
    assert "clipped" not in told
    assert "events" not in told


# --- mistakes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "target", "more", "named"),
    [
        ("mse", math.nan, {}, "target"),
        ("accuracy", 1.5, {}, "target"),
        ("mse", 0.1, {"eta": 0.6}, "eta"),
        ("mse", 0.1, {"eta": 0.0}, "eta"),
        ("mse", 0.1, {"epsilon": 0}, "epsilon"),
        ("mse", 0.1, {"largest": 0.0}, "largest"),
        ("accuracy", 0.5, {"largest": 2.0}, "largest"),
        ("mse", 0.1, {"method": "hope"}, "method"),
        ("mse", 0.1, {"method": "binomial"}, "method"),
        ("mse", 0.1, {"best": Best(20.0, 10)}, "best"),
        ("mse", 0.1, {"best": Best(-1.0, 10)}, "best"),
    ],
)
def test_mistakes_are_named(metric: str, target: float, more: dict[str, Any], named: str) -> None:
    with pytest.raises(Mistake) as refused:
        checked(metric, target, np.zeros(10), **more)
    assert refused.value.argument == named


def test_what_is_no_column_of_numbers_is_refused() -> None:
    for values in (np.zeros((3, 2)), np.array(["a"]), np.array([None])):
        with pytest.raises(Mistake) as refused:
            checked("mse", 0.1, values)
        assert refused.value.argument == "values"


@pytest.mark.parametrize("metric", sorted(METRICS))
def test_a_prediction_that_is_no_number_is_as_bad_as_can_be(metric: str) -> None:
    truth, none = np.repeat([0.0, 1.0], 500), np.full(1000, np.nan)
    values = METRICS[metric].losses(truth, none)
    largest = METRICS[metric].largest or 1.0
    found = validate(
        metric,
        0.5,
        values,
        epsilon=5,
        eta=0.05,
        change=Change(Adjacency.ADD_REMOVE_ONE, 1, Unit.EVENT),
        largest=largest,
    )
    assert found.value == pytest.approx(0.0 if METRICS[metric].higher else largest, abs=0.05)
