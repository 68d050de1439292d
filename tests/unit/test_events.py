"""Events check themselves: what makes no sense cannot be written down."""

import dataclasses
import math

import pytest

from thebes.privacy.events import (
    ApproximateEvent,
    Composed,
    ConcentratedEvent,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    PureEvent,
    RandomizedResponseEvent,
    Repeated,
)
from thebes.privacy.faults import Mistake

NO_SIZE = [0, -1, math.nan, math.inf, True, "1", None, 10**400]
NO_COUNT = [0, -1, 1.0, True, None, 2**63]


@pytest.mark.parametrize("value", NO_SIZE)
@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (LaplaceEvent, "ratio"),
        (GaussianEvent, "ratio"),
        (lambda v: PoissonGaussianEvent(0.1, v), "ratio"),
        (lambda v: PoissonGaussianEvent(v, 1.0), "rate"),
    ],
)
def test_a_scale_or_rate_that_is_none_is_refused_by_name(make, argument, value):
    with pytest.raises(Mistake) as refused:
        make(value)
    assert refused.value.argument == argument


@pytest.mark.parametrize("value", [0, -1, math.nan, "many", None])
@pytest.mark.parametrize("kind", [PureEvent, ExponentialEvent, ConcentratedEvent])
def test_a_loss_that_is_none_is_refused(kind, value):
    with pytest.raises(Mistake):
        kind(value)


@pytest.mark.parametrize("delta", [-0.1, 1, math.nan])
def test_a_delta_outside_its_interval_is_refused(delta):
    with pytest.raises(Mistake) as refused:
        ApproximateEvent(1, delta)
    assert refused.value.argument == "delta"


@pytest.mark.parametrize("slack", [-1e-9, 1, math.nan, True, "0"])
def test_a_slack_outside_its_interval_is_refused(slack):
    with pytest.raises(Mistake) as refused:
        GaussianEvent(1.0, slack)
    assert refused.value.argument == "slack"


@pytest.mark.parametrize("keep", [0.1, 1, math.nan, "0.5", -1])
def test_a_response_that_keeps_too_little_or_everything_is_refused(keep):
    with pytest.raises(Mistake) as refused:
        RandomizedResponseEvent(4, keep)
    assert refused.value.argument == "keep"


@pytest.mark.parametrize("categories", [*NO_COUNT, 1])
def test_a_response_needs_two_categories(categories):
    with pytest.raises(Mistake) as refused:
        RandomizedResponseEvent(categories, 0.9)
    assert refused.value.argument == "categories"


@pytest.mark.parametrize("times", NO_COUNT)
def test_a_count_is_a_whole_number_of_at_least_one(times):
    with pytest.raises(Mistake) as refused:
        Repeated(PureEvent(1), times)
    assert refused.value.argument == "times"
    with pytest.raises(Mistake):
        LaplaceEvent(1.0, times)


@pytest.mark.parametrize("stranger", [None, 1.0, "PureEvent", object()])
def test_what_is_no_event_cannot_be_repeated_or_composed(stranger):
    with pytest.raises(Mistake):
        Repeated(stranger, 2)
    with pytest.raises(Mistake):
        Composed((PureEvent(1), stranger))


@pytest.mark.parametrize("events", [(), [PureEvent(1)]])
def test_a_composition_is_a_tuple_that_is_not_empty(events):
    with pytest.raises(Mistake):
        Composed(events)


def test_events_are_values():
    assert LaplaceEvent(2.0) == LaplaceEvent(2.0)
    assert hash(PureEvent(0.1)) == hash(PureEvent("0.1"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        LaplaceEvent(2.0).ratio = 3.0
