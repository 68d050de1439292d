"""Numbers that cross between people, floats and ledgers."""

import math
from decimal import Decimal

import pytest

from thebes.privacy import exact
from thebes.privacy.faults import Mistake


def test_a_declared_float_means_what_was_written():
    assert exact.declared("epsilon", 0.1) == Decimal("0.1")
    assert exact.declared("epsilon", "0.30") == Decimal("0.3")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "nan", "abc", None, True, [1], 10**400, "1e7"])
def test_what_is_no_reasonable_number_is_refused_by_name(value):
    with pytest.raises(Mistake) as refused:
        exact.declared("epsilon", value)
    assert refused.value.argument == "epsilon"


@pytest.mark.parametrize("value", [0, -1, "-0.1"])
def test_an_epsilon_must_be_positive(value):
    with pytest.raises(Mistake):
        exact.epsilon(value)


@pytest.mark.parametrize("value", [-1e-9, 1, 1.5])
def test_a_delta_must_lie_in_its_interval(value):
    with pytest.raises(Mistake) as refused:
        exact.delta(value)
    assert refused.value.argument == "delta"


@pytest.mark.parametrize("value", [1e-15, 0.1, 1 / 3, 2.0, 123.456, 1e5])
def test_losses_round_up_and_capacities_down(value):
    assert exact.loss_of(value) > Decimal(value)
    assert exact.capacity_of(value) < Decimal(value)
    assert exact.loss_of(value) - exact.capacity_of(value) <= 3 * exact.EPSILON_STEP + Decimal(value) * Decimal("1e-15")


def test_a_loss_of_nothing_is_nothing_and_an_infinite_one_stays_infinite():
    assert exact.loss_of(0.0) == 0
    assert exact.loss_of(math.inf).is_infinite()
    assert exact.capacity_of(0.0) == 0


@pytest.mark.parametrize("value", [math.nan, -1.0])
def test_what_is_no_loss_is_refused(value):
    with pytest.raises(Mistake):
        exact.loss_of(value)


def test_steps_cover_a_loss_and_fit_into_a_capacity():
    value = Decimal("0.0000000000015")
    assert (exact.steps_up(value, exact.EPSILON_STEP), exact.steps_down(value, exact.EPSILON_STEP)) == (2, 1)
