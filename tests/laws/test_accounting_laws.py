"""Laws of every accountant: counts multiply, order never matters, more is never cheaper, noise is never dearer."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thebes.privacy.accounting import approximate, concentrated, distribution, pure, renyi, report
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
from thebes.privacy.losses import (
    Approximate,
    compose,
    concentrated_to_approximate,
    pure_to_approximate,
    pure_to_concentrated,
    pure_to_renyi,
    renyi_to_approximate,
    repeat,
)

DELTA = 1e-6
#: The grid of losses for these tests; composing in different orders rounds differently by about this much.
INTERVAL = 1e-3
#: What the float convolutions of one distribution may differ by, in epsilon, when composed in another order.
CLOSE = 1e-4

epsilons = st.integers(1, 30).map(lambda n: n / 10)
ratios = st.integers(5, 200).map(lambda n: n / 10)
SINGLES = {
    "PureEvent": st.builds(PureEvent, epsilons),
    "ApproximateEvent": st.builds(ApproximateEvent, epsilons, st.sampled_from([1e-9, 1e-8])),
    "ConcentratedEvent": st.builds(ConcentratedEvent, epsilons.map(lambda e: e / 10)),
    "LaplaceEvent": st.builds(LaplaceEvent, ratios, st.sampled_from([1, 2, 1000, 2**20])),
    "GaussianEvent": st.builds(GaussianEvent, ratios, st.sampled_from([0.0, 1e-10])),
    "RandomizedResponseEvent": st.builds(
        RandomizedResponseEvent, st.integers(2, 6), st.integers(50, 95).map(lambda n: n / 100)
    ),
    "ExponentialEvent": st.builds(ExponentialEvent, epsilons),
    "PoissonGaussianEvent": st.builds(
        PoissonGaussianEvent, st.sampled_from([0.01, 0.1]), ratios.filter(lambda r: r >= 1)
    ),
}
events = st.one_of(*SINGLES.values())
counts = st.integers(2, 6)

ADDITIVE = {
    "pure": lambda event, adjacency: pure.price(event, adjacency=adjacency),
    "approximate": lambda event, adjacency: approximate.price(event, adjacency=adjacency, share=1e-8),
    "concentrated": lambda event, adjacency: concentrated.price(event, adjacency=adjacency),
    "renyi": lambda event, adjacency: renyi.price(event, adjacency=adjacency),
}


def _adjacency(event):
    return "replace-one" if isinstance(event, RandomizedResponseEvent) else "add-remove-one"


def _priced(price, event):
    try:
        return price(event, _adjacency(event))
    except Mistake:
        return None


def test_every_event_is_covered_by_these_laws():
    from thebes.privacy.events import SingleEvent

    assert set(SINGLES) == {kind.__name__ for kind in SingleEvent.__args__}


@pytest.mark.few(10)
@pytest.mark.parametrize("kind", SINGLES)
@pytest.mark.parametrize("accountant", ADDITIVE)
def test_a_count_equals_as_many_single_events_and_as_many_times_the_loss(accountant, kind):
    price = ADDITIVE[accountant]

    @settings(max_examples=15, deadline=None, derandomize=True)
    @given(event=SINGLES[kind], times=counts)
    def law(event, times):
        once = _priced(price, event)
        if once is None:
            for composed in (Repeated(event, times), Composed((event,) * times)):
                with pytest.raises(Mistake):
                    price(composed, _adjacency(event))
            return
        at_once = price(Repeated(event, times), _adjacency(event))
        one_by_one = price(Composed((event,) * times), _adjacency(event))
        nested = price(Composed((Repeated(event, times - 1), Repeated(Repeated(event, 1), 1))), _adjacency(event))
        assert at_once == one_by_one == nested == repeat(once, times) == compose([once] * times)

    law()


@pytest.mark.parametrize("kind", [k for k in SINGLES if k != "ConcentratedEvent"])
def test_a_count_equals_as_many_single_distributions(kind):
    @settings(max_examples=4, deadline=None, derandomize=True)
    @given(event=SINGLES[kind], times=counts)
    def law(event, times):
        adjacency = _adjacency(event)
        at_once = distribution.price(Repeated(event, times), adjacency=adjacency, interval=INTERVAL)
        one_by_one = distribution.price(Composed((event,) * times), adjacency=adjacency, interval=INTERVAL)
        once = distribution.price(event, adjacency=adjacency, interval=INTERVAL)
        assert at_once.epsilon_at(DELTA) == pytest.approx(one_by_one.epsilon_at(DELTA), rel=CLOSE, abs=CLOSE)
        assert at_once.epsilon_at(DELTA) >= once.epsilon_at(DELTA)

    law()


@settings(max_examples=25, deadline=None, derandomize=True)
@given(items=st.lists(events, min_size=2, max_size=5), data=st.data())
def test_the_order_of_events_never_matters(items, data):
    shuffled = data.draw(st.permutations(items))
    for price in ADDITIVE.values():
        losses = {id(item): _priced(price, item) for item in items}
        if all(loss is not None for loss in losses.values()):
            assert compose(losses[id(item)] for item in items) == compose(losses[id(item)] for item in shuffled)


#: Events that every adjacency prices, so that lists of them have totals.
reportable = st.one_of(
    *(SINGLES[k] for k in ("PureEvent", "LaplaceEvent", "GaussianEvent", "ExponentialEvent", "ApproximateEvent"))
)


def _total(items):
    return report.total(items, adjacency="add-remove-one", delta=DELTA, unit="event")


@pytest.mark.slow
@settings(max_examples=12, deadline=None, derandomize=True)
@given(items=st.lists(reportable, min_size=1, max_size=4), more=reportable, data=st.data())
def test_a_total_ignores_order_and_never_falls_when_something_more_happens(items, more, data):
    alone = _total(items)
    shuffled = _total(data.draw(st.permutations(items)))
    assert float(shuffled.epsilon) == pytest.approx(float(alone.epsilon), rel=CLOSE)
    with_more = _total([*items, more])
    assert float(with_more.epsilon) >= float(alone.epsilon) * (1 - CLOSE)
    for name, epsilon in alone.considered.items():
        if name in ("pure", "concentrated", "renyi") and name in with_more.considered:
            assert with_more.considered[name] >= epsilon


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(ratio=ratios, extra=st.integers(1, 100))
def test_more_noise_never_costs_more(ratio, extra):
    louder = ratio + extra / 10
    for make in (LaplaceEvent, GaussianEvent, lambda r: PoissonGaussianEvent(0.1, r)):
        for price in ADDITIVE.values():
            less, more = _priced(price, make(ratio)), _priced(price, make(louder))
            if less is not None:
                assert _no_dearer(more, less)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(ratio=ratios, steps=st.integers(1, 10_000), times=st.integers(2, 1000))
def test_a_finer_grid_never_costs_more(ratio, steps, times):
    coarse = renyi.price(LaplaceEvent(ratio, steps), adjacency="replace-one")
    fine = renyi.price(LaplaceEvent(ratio, steps * times), adjacency="replace-one")
    assert all(float(x) <= float(y) * (1 + 1e-9) + 1e-11 for x, y in zip(fine.epsilons, coarse.epsilons, strict=True))


def _no_dearer(loss, other):
    if isinstance(loss, Approximate):
        return loss.epsilon <= other.epsilon and loss.delta <= other.delta
    return all(a <= b for a, b in zip(_numbers(loss), _numbers(other), strict=True))


def _numbers(loss):
    return loss.epsilons if hasattr(loss, "epsilons") else (loss.epsilon if hasattr(loss, "epsilon") else loss.rho,)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(event=SINGLES["PureEvent"], times=st.integers(1, 50), delta=st.sampled_from([1e-9, 1e-6, 1e-3]))
def test_every_road_from_a_pure_loss_to_epsilon_holds_at_least_the_exact_one(event, times, delta):
    # The exact figure for randomised response, the worst pure mechanism, by summing its binomial losses.
    import math

    from scipy.stats import binom

    loss = repeat(pure.price(event, adjacency="replace-one"), times)
    e = float(event.epsilon)
    said = range(times + 1)
    p = 1 / (1 + math.exp(-e))

    def spent(epsilon):
        return sum(binom.pmf(k, times, p) * max(0.0, -math.expm1(epsilon - e * (2 * k - times))) for k in said)

    single = pure.price(event, adjacency="replace-one")
    roads = [
        pure_to_approximate(loss).epsilon,
        concentrated_to_approximate(repeat(pure_to_concentrated(single), times), delta).epsilon,
        renyi_to_approximate(repeat(pure_to_renyi(single), times), delta).epsilon,
    ]
    for epsilon in roads:
        assert spent(float(epsilon)) <= delta * (1 + 1e-9)
    convolved = repeat(distribution.price(event, adjacency="replace-one", interval=INTERVAL), times).epsilon_at(delta)
    assert spent(convolved) <= delta * (1 + 1e-9)
