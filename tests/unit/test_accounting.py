"""Prices against known figures, high-precision arithmetic and an independent accountant."""

import math
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate
from operator import mul

import mpmath
import numpy as np
import pytest

from thebes.privacy.accounting import (
    approximate,
    calibration,
    concentrated,
    distribution,
    gaussian,
    pure,
    renyi,
    report,
)
from thebes.privacy.accounting.odds import meaning
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
    ORDERS,
    Approximate,
    Concentrated,
    Pure,
    compose,
    concentrated_to_approximate,
    pure_to_concentrated,
    pure_to_renyi,
    renyi_to_approximate,
    repeat,
)

ADD, REPLACE = "add-remove-one", "replace-one"


def _total(events, delta, adjacency=REPLACE, **options):
    return report.total(events, adjacency=adjacency, delta=delta, unit="event", **options)


# --- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stranger", [None, "PureEvent", 1.0, object()])
@pytest.mark.parametrize("accountant", [pure, approximate, concentrated, renyi, distribution])
def test_an_unknown_event_is_refused_and_never_guessed(accountant, stranger):
    with pytest.raises(Mistake) as refused:
        accountant.price(stranger, adjacency=REPLACE)
    assert refused.value.argument == "event"
    assert type(stranger).__name__ in str(refused.value)


@pytest.mark.parametrize(
    ("accountant", "event"),
    [
        (pure, GaussianEvent(1.0)),
        (pure, ApproximateEvent(1, 1e-9)),
        (pure, ConcentratedEvent(1)),
        (pure, PoissonGaussianEvent(0.1, 1.0)),
        (concentrated, ApproximateEvent(1, 1e-9)),
        (concentrated, PoissonGaussianEvent(0.1, 1.0)),
        (renyi, ApproximateEvent(1, 1e-9)),
        (renyi, PoissonGaussianEvent(0.1, 1.0)),
        (distribution, ConcentratedEvent(1)),
        (approximate, GaussianEvent(1.0)),
    ],
)
def test_an_event_without_a_price_is_refused_by_name(accountant, event):
    with pytest.raises(Mistake) as refused:
        accountant.price(event, adjacency=REPLACE)
    assert type(event).__name__ in str(refused.value)


@pytest.mark.parametrize("accountant", [pure, approximate, concentrated, renyi, distribution])
def test_no_accountant_has_a_default_adjacency(accountant):
    with pytest.raises(TypeError):
        accountant.price(PureEvent(1))
    with pytest.raises(Mistake) as refused:
        accountant.price(PureEvent(1), adjacency="nearby")
    assert refused.value.argument == "adjacency"


@pytest.mark.parametrize("accountant", [pure, approximate, concentrated, renyi, distribution])
def test_randomised_response_hides_what_was_said_and_not_who_spoke(accountant):
    with pytest.raises(Mistake) as refused:
        accountant.price(RandomizedResponseEvent(4, 0.6), adjacency=ADD)
    assert refused.value.argument == "adjacency"


# --- single prices ----------------------------------------------------------------------------------------------


def test_pure_prices_are_the_formulas_rounded_up():
    assert pure.price(PureEvent(0.3), adjacency=ADD) == Pure(0.3)
    assert pure.price(LaplaceEvent(4.0), adjacency=ADD) == Pure("0.25")
    assert pure.price(LaplaceEvent(3.0), adjacency=ADD).epsilon >= Decimal(1) / 3
    response = pure.price(RandomizedResponseEvent(5, 0.7), adjacency=REPLACE).epsilon
    assert float(response) == pytest.approx(math.log(0.7 * 4 / 0.3), abs=1e-11)
    with mpmath.workdps(50):
        assert mpmath.mpf(str(response)) >= mpmath.log(mpmath.mpf(0.7) * 4 / (1 - mpmath.mpf(0.7)))
    assert pure.price(RandomizedResponseEvent(2, 0.5), adjacency=REPLACE) == Pure(0)


def test_concentrated_prices_are_the_formulas_rounded_up():
    assert concentrated.price(GaussianEvent(4.0), adjacency=ADD) == Concentrated("0.03125")
    assert concentrated.price(ExponentialEvent(2), adjacency=ADD) == Concentrated("0.5")
    assert concentrated.price(LaplaceEvent(2.0), adjacency=ADD) == pure_to_concentrated(Pure("0.5"))
    assert float(concentrated.price(LaplaceEvent(2.0), adjacency=ADD).rho) == pytest.approx(0.5 * math.tanh(0.25))
    # Of a large epsilon the range says less than that the mechanism is pure.
    assert concentrated.price(ExponentialEvent(20), adjacency=ADD) == pure_to_concentrated(Pure(20))
    assert Fraction(concentrated.price(GaussianEvent(3.0), adjacency=ADD).rho) >= Fraction(1, 18)


def test_the_exponential_mechanism_really_costs_no_more_than_an_eighth():
    # Worst two-point output pairs of bounded range epsilon, at every order, against rho * order.
    for epsilon in (0.1, 1.0, 4.0):
        curve = renyi.price(ExponentialEvent(epsilon), adjacency=ADD).epsilons
        for lift in np.linspace(0.01, 0.99, 25) * epsilon:
            # Two outcomes whose probabilities change by factors e^lift and e^(lift - epsilon).
            p = mpmath.mpf((1 - math.exp(lift - epsilon)) / (math.exp(lift) - math.exp(lift - epsilon)))
            q = p * mpmath.exp(lift)
            for a, allowed in zip(ORDERS, curve, strict=True):
                there = q**a * p ** (1 - a) + (1 - q) ** a * (1 - p) ** (1 - a)
                assert mpmath.log(there) / (a - 1) <= float(allowed) + 1e-12


@pytest.mark.few(2)
@pytest.mark.parametrize("steps", [1, 2, 7, 40])
@pytest.mark.parametrize("ratio", [0.3, 1.0, 5.0])
def test_laplace_noise_on_a_grid_has_the_exact_renyi_curve_of_its_grid(ratio, steps):
    curve = renyi.price(LaplaceEvent(ratio, steps), adjacency=ADD).epsilons
    t = mpmath.mpf(ratio) * steps
    with mpmath.workdps(40):
        q = mpmath.exp(-1 / t)
        for a, ours in list(zip(ORDERS, curve, strict=True))[::4]:
            reach = int(80 * t) + steps
            # e^(-(a|k| + (1-a)|k-steps|)/t), by powers: an exponential for each takes ten times as long.
            here, there = (
                [*accumulate([mpmath.exp(-order / t)] * (reach + steps), mul, initial=mpmath.mpf(1))]
                for order in (a, 1 - a)
            )
            weights = (here[abs(k)] * there[abs(k - steps)] for k in range(-reach, reach + steps + 1))
            exactly = mpmath.log((1 - q) / (1 + q) * mpmath.fsum(weights)) / (a - 1)
            assert mpmath.mpf(str(ours)) >= exactly
            assert mpmath.mpf(str(ours)) <= exactly * (1 + mpmath.mpf("1e-9")) + mpmath.mpf("2e-12")


def test_noise_on_a_count_costs_what_randomised_response_costs():
    ours = renyi.price(LaplaceEvent(1.0), adjacency=ADD).epsilons
    worst = pure_to_renyi(Pure(1)).epsilons
    assert all(abs(x - y) < Decimal("1e-11") for x, y in zip(ours, worst, strict=True))
    finer = renyi.price(LaplaceEvent(1.0, 10**6), adjacency=ADD).epsilons
    assert all(x < y for x, y in zip(finer, worst, strict=True) if y < Decimal("0.99"))


def test_distances_spread_over_coordinates_cost_no_more_than_in_one():
    many = repeat(distribution.price(LaplaceEvent(5.0, 1), adjacency=ADD), 5)  # five coordinates, one step in each
    one = distribution.price(LaplaceEvent(1.0, 5), adjacency=ADD)  # one coordinate, five steps
    for epsilon in np.linspace(0, 1, 11):
        assert many.delta_at(epsilon) <= one.delta_at(epsilon) + 1e-6


@pytest.mark.parametrize("keep", [0.3, 0.7, 0.99])
@pytest.mark.parametrize("categories", [2, 3, 50])
def test_randomised_response_has_its_exact_curve(categories, keep):
    if keep < 1 / categories:
        keep = 1 / categories
    curve = renyi.price(RandomizedResponseEvent(categories, keep), adjacency=REPLACE).epsilons
    with mpmath.workdps(40):
        p, q = mpmath.mpf(keep), (1 - mpmath.mpf(keep)) / (categories - 1)
        for a, ours in zip(ORDERS, curve, strict=True):
            exactly = mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a) + (categories - 2) * q) / (a - 1)
            assert mpmath.mpf(str(ours)) >= exactly
            assert mpmath.mpf(str(ours)) <= exactly * (1 + mpmath.mpf("1e-9")) + mpmath.mpf("1e-11")


@pytest.mark.parametrize(("rate", "ratio"), [(0.01, 1.1), (0.2, 0.8), (1e-4, 3.0), (1.0, 2.0), (0.05, 0.4)])
def test_sampled_gaussian_noise_costs_no_less_than_its_renyi_integral(rate, ratio):
    curve = renyi.price(PoissonGaussianEvent(rate, ratio), adjacency=ADD).epsilons
    y = np.linspace(-60, 60 + 300 / ratio, 400_001)
    log_zero = -(y**2) / (2 * ratio**2) - math.log(ratio * math.sqrt(2 * math.pi))
    log_mixed = log_zero + np.logaddexp(
        np.log1p(-rate) if rate < 1 else -np.inf, math.log(rate) + (2 * y - 1) / (2 * ratio**2)
    )
    for a, ours in zip(ORDERS, curve, strict=True):
        if a > 16:
            continue
        for upper, lower in ((log_mixed, log_zero), (log_zero, log_mixed)):
            height = a * upper + (1 - a) * lower
            integral = height.max() + math.log(np.trapezoid(np.exp(height - height.max()), y))
            assert integral / (a - 1) <= float(ours) * (1 + 1e-9) + 1e-9


# --- known figures ------------------------------------------------------------------------------------------------


def test_a_gaussian_of_ratio_four_at_a_millionth_costs_what_is_known():
    known = _total(GaussianEvent(4.0), 1e-6).considered
    assert float(known["gaussian"]) == pytest.approx(1.0607, abs=5e-5)
    assert float(known["concentrated"]) == pytest.approx(1.1429, abs=5e-5)
    assert float(known["distribution"]) == pytest.approx(1.0607, abs=5e-5)


def test_ten_thousand_rounds_of_sampled_noise_cost_what_is_known():
    known = _total(Repeated(PoissonGaussianEvent(0.01, 1.1), 10_000), 1e-5, ADD).considered
    assert float(known["distribution"]) == pytest.approx(5.19, abs=0.005)
    assert 5.63 <= float(known["renyi"]) < 5.67  # 5.63 on a finer grid of orders
    assert set(known) == {"approximate", "renyi", "distribution"}


def test_heterogeneous_gaussians_cost_exactly_what_one_gaussian_costs():
    ratios = [float(r) for r in np.linspace(100, 400, 10_000)]
    both = _total([GaussianEvent(r) for r in ratios], 1e-6, accountants=("gaussian", "concentrated"))
    merged = 1 / math.sqrt(math.fsum(r**-2 for r in ratios))
    assert both.accountant == "gaussian"
    assert float(both.epsilon) == pytest.approx(gaussian.epsilon_of(merged, 1e-6), rel=1e-9)
    assert both.epsilon < both.considered["concentrated"]


def test_a_mixed_report_is_cheaper_by_distribution_and_dearest_by_sums():
    events = [*[LaplaceEvent(10.0)] * 50, *[GaussianEvent(20.0)] * 3, ApproximateEvent(0.1, 1e-8)]
    found = _total(events, 1e-6).considered
    assert found["distribution"] < found["renyi"] < found["concentrated"] < found["approximate"]


# --- dp-accounting, called directly -------------------------------------------------------------------------------


def test_the_other_accountant_forgets_how_often_somebody_answered_and_ours_does_not():
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    keep = 0.625  # four categories, the truth with probability 1/2 and else any: epsilon ln 5 = 1.609
    theirs = PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE)
    theirs.compose(dp_accounting.RandomizedResponseDpEvent(0.5, 4), 5)
    forgotten = theirs.get_epsilon(1e-9)
    assert forgotten == pytest.approx(math.log(5), abs=1e-3), "it remembers now: the shield may be told so"
    ours = _total(Repeated(RandomizedResponseEvent(4, keep), 5), 1e-9)
    assert float(ours.epsilon) == pytest.approx(5 * math.log(5), abs=0.01)
    five = repeat(distribution.price(RandomizedResponseEvent(4, keep), adjacency=REPLACE), 5)
    assert five.epsilon_at(1e-9) == pytest.approx(5 * math.log(5), abs=0.01)


@pytest.mark.slow
def test_our_distribution_agrees_with_theirs_where_theirs_is_right():
    import dp_accounting as da
    from dp_accounting.pld import PLDAccountant

    theirs = PLDAccountant(da.NeighboringRelation.ADD_OR_REMOVE_ONE)
    theirs.compose(da.LaplaceDpEvent(10.0), 50)
    theirs.compose(da.GaussianDpEvent(8.0), 3)
    theirs.compose(da.PoissonSampledDpEvent(0.02, da.GaussianDpEvent(1.0)), 20)
    events = Composed(
        (
            Repeated(LaplaceEvent(10.0, 10**9), 50),
            Repeated(GaussianEvent(8.0), 3),
            Repeated(PoissonGaussianEvent(0.02, 1.0), 20),
        )
    )
    ours = distribution.price(events, adjacency=ADD)
    assert ours.epsilon_at(1e-6) == pytest.approx(theirs.get_epsilon(1e-6), rel=1e-4)


def test_our_renyi_curve_agrees_with_theirs():
    import dp_accounting as da
    from dp_accounting.rdp import RdpAccountant

    theirs = RdpAccountant(list(ORDERS), da.NeighboringRelation.ADD_OR_REMOVE_ONE)
    theirs.compose(da.LaplaceDpEvent(2.0), 3)
    theirs.compose(da.GaussianDpEvent(8.0), 7)
    theirs.compose(da.PoissonSampledDpEvent(0.02, da.GaussianDpEvent(1.0)), 20)
    ours = compose(
        [
            renyi.price(Repeated(LaplaceEvent(2.0, 10**9), 3), adjacency=ADD),
            renyi.price(Repeated(GaussianEvent(8.0), 7), adjacency=ADD),
            renyi.price(Repeated(PoissonGaussianEvent(0.02, 1.0), 20), adjacency=ADD),
        ]
    )
    for a, own, their in zip(ORDERS, ours.epsilons, theirs.rdp, strict=True):
        assert float(own) == pytest.approx(their, rel=1e-6) or (a != int(a) and float(own) > their)


@pytest.mark.parametrize(("rate", "ratio"), [(0.01, 1.1), (0.2, 0.8), (1e-4, 3.0), (0.05, 0.4)])
def test_between_whole_orders_sampled_noise_costs_what_the_next_one_does(rate, ratio):
    """The sum behind the curve is proved for noise on whole numbers, which is what is drawn, at whole orders only."""
    at = dict(zip(ORDERS, renyi.price(PoissonGaussianEvent(rate, ratio), adjacency=ADD).epsilons, strict=True))
    unsampled = dict(zip(ORDERS, renyi.price(GaussianEvent(ratio), adjacency=ADD).epsilons, strict=True))
    between = [a for a in ORDERS if a != int(a)]
    assert between
    for a in between:
        assert at[a] == min(at[float(math.ceil(a))], unsampled[a])


# --- sampling under replace-one -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "ratio"), [(0.1, 1.0), (0.5, 2.0), (0.01, 0.6)])
def test_replacing_a_sampled_unit_costs_what_integration_says(rate, ratio):
    once = distribution.price(PoissonGaussianEvent(rate, ratio), adjacency=REPLACE)
    y = np.linspace(-30, 30, 100_001)

    def density(m):
        return np.exp(-((y - m) ** 2) / (2 * ratio**2)) / (ratio * math.sqrt(2 * math.pi))

    rng = np.random.default_rng(5)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 3.0):
        for u, v in [(1.0, -1.0), *rng.uniform(-1, 1, (8, 2))]:
            there, here = ((1 - rate) * density(0) + rate * density(m) for m in (u, v))
            exactly = np.trapezoid(np.maximum(there - math.exp(epsilon) * here, 0), y)
            assert exactly <= once.delta_at(epsilon) + 1e-9
            if (u, v) == (1.0, -1.0):
                assert once.delta_at(epsilon) == pytest.approx(exactly, rel=1e-3, abs=1e-9)


@pytest.mark.slow
def test_replacing_in_the_plane_is_never_worse_than_along_the_line():
    # Contributions u and v at any angle: the worst is opposite, which is what the price is made from.
    rate, ratio, epsilon = 0.3, 0.8, 0.4
    once = distribution.price(PoissonGaussianEvent(rate, ratio), adjacency=REPLACE)
    y = np.linspace(-6, 6, 601)
    x1, x2 = np.meshgrid(y, y)

    def density(a, b):
        return np.exp(-((x1 - a) ** 2 + (x2 - b) ** 2) / (2 * ratio**2)) / (2 * math.pi * ratio**2)

    found = []
    for angle in np.linspace(0, math.pi, 7):
        there = (1 - rate) * density(0, 0) + rate * density(1, 0)
        here = (1 - rate) * density(0, 0) + rate * density(math.cos(angle), math.sin(angle))
        found.append(float(np.maximum(there - math.exp(epsilon) * here, 0).sum() * (y[1] - y[0]) ** 2))
    assert max(found) == found[-1]
    assert max(found) <= once.delta_at(epsilon) + 1e-6


def test_sampling_everybody_is_no_sampling():
    twice = distribution.price(GaussianEvent(1.0), adjacency=REPLACE).epsilon_at(1e-6)
    everybody = distribution.price(PoissonGaussianEvent(1.0, 2.0), adjacency=REPLACE).epsilon_at(1e-6)
    assert everybody == pytest.approx(twice, rel=1e-4)
    assert renyi.price(PoissonGaussianEvent(1.0, 2.0), adjacency=ADD) == renyi.price(GaussianEvent(2.0), adjacency=ADD)


# --- the exact Gaussian ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [0.05, 0.5, 1.0, 4.0, 50.0, 1000.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.5, 2.0, 8.0])
def test_the_gaussians_delta_is_never_below_the_exact_one(ratio, epsilon):
    with mpmath.workdps(60):
        r, e = mpmath.mpf(ratio), mpmath.mpf(epsilon)
        exactly = mpmath.ncdf(1 / (2 * r) - e * r) - mpmath.exp(e) * mpmath.ncdf(-1 / (2 * r) - e * r)
        ours = mpmath.mpf(gaussian.delta_of(ratio, epsilon))
        assert ours >= exactly or exactly < mpmath.mpf("1e-300")  # what no float can say is called 0
        if exactly > mpmath.mpf("1e-12"):
            assert ours <= exactly * (1 + mpmath.mpf("1e-6"))


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
def test_the_calibrated_gaussian_keeps_its_promise_and_nothing_smaller_does(epsilon, delta):
    ratio = gaussian.ratio_for(epsilon, delta)
    assert gaussian.delta_of(ratio, epsilon) <= delta
    assert gaussian.delta_of(ratio * 0.999, epsilon) > delta
    assert gaussian.epsilon_of(ratio, delta) == pytest.approx(epsilon, rel=1e-6)


def test_no_gaussians_have_no_ratio_together():
    with pytest.raises(Mistake):
        gaussian.together([])


def test_slack_enters_every_delta():
    smooth, rough = GaussianEvent(4.0), GaussianEvent(4.0, 4e-7)
    for name in ("approximate", "gaussian", "distribution"):
        exact_one = _total(smooth, 1e-6, accountants=(name,))
        assert _total(rough, 1e-6, accountants=(name,)).epsilon > exact_one.epsilon
        four = 1e-6 - 4e-7
        assert float(_total(rough, 1e-6, accountants=(name,)).epsilon) == pytest.approx(
            float(_total(smooth, four, accountants=(name,)).epsilon), rel=1e-4
        )
    assert approximate.price(rough, adjacency=ADD, share=1e-6).delta == pytest.approx(Decimal("0.0000014"), abs=1e-17)
    assert (
        distribution.price(rough, adjacency=ADD).delta_at(1.0)
        > distribution.price(smooth, adjacency=ADD).delta_at(1.0) + 3.9e-7
    )
    with pytest.raises(Mistake) as refused:
        _total([rough] * 3, 1e-6)
    assert refused.value.argument == "delta"


def test_slack_is_the_same_at_every_epsilon():
    loud, smooth = GaussianEvent(0.2, 1e-9), GaussianEvent(0.2)
    said = _total(loud, 1e-6).considered
    assert float(said["gaussian"]) > 10
    assert float(said["gaussian"]) == pytest.approx(float(_total(smooth, 1e-6 - 1e-9).considered["gaussian"]))
    assert float(gaussian.price([loud], delta=1e-6).epsilon) == pytest.approx(float(said["gaussian"]))


def test_slack_of_sampled_noise_is_for_units_that_come_and_go():
    for name in ("approximate", "distribution"):
        sampled = PoissonGaussianEvent(0.1, 2.0, 1e-8)
        assert _total(sampled, 1e-6, adjacency=ADD, accountants=(name,)).epsilon > 0
        with pytest.raises(Mistake, match="add-remove-one"):
            _total(sampled, 1e-6, accountants=(name,))


# --- totals -----------------------------------------------------------------------------------------------------------


def test_without_delta_only_pure_events_have_a_total():
    assert _total([PureEvent(0.1), LaplaceEvent(2.0)], 0).epsilon == Decimal("0.6")
    assert _total(PureEvent(1), 0).delta == 0
    with pytest.raises(Mistake):
        _total([PureEvent(0.1), GaussianEvent(2.0)], 0)


def test_deltas_that_events_carry_are_set_aside_first():
    assert _total(ApproximateEvent(0.5, 1e-6), 1e-6).epsilon == Decimal("0.5")
    found = _total([ApproximateEvent(0.5, 1e-6), GaussianEvent(4.0)], 3e-6)
    expected = 0.5 + gaussian.epsilon_of(4.0, 2e-6)
    assert float(found.considered["approximate"]) == pytest.approx(expected, rel=1e-9)
    assert found.guarantee.loss.delta <= Decimal("3e-6")
    with pytest.raises(Mistake) as refused:
        _total([ApproximateEvent(0.5, 1e-6)] * 4, 3e-6)
    assert refused.value.argument == "delta"
    assert _total(ApproximateEvent(0, 1e-6), 1e-6).guarantee.loss == Approximate(0, 1e-6)


def test_a_total_says_whom_it_protects_and_which_accountant_said_so():
    total = _total(GaussianEvent(4.0), 1e-6)
    assert str(total.guarantee.unit) == "event"
    assert str(total.guarantee.adjacency) == REPLACE
    assert total.considered[total.accountant] == min(total.considered.values()) == total.epsilon


def test_an_adaptive_path_may_ask_for_sums_only():
    sums = _total([GaussianEvent(40.0)] * 10, 1e-6, accountants=("concentrated",))
    assert sums.accountant == "concentrated"
    assert set(sums.considered) == {"concentrated"}


@pytest.mark.parametrize(
    ("events", "delta", "options", "argument"),
    [
        ([], 1e-6, {}, "events"),
        ([None], 1e-6, {}, "events"),
        ([PureEvent(1)], 1, {}, "delta"),
        ([PureEvent(1)], math.nan, {}, "delta"),
        ([PureEvent(1)], 1e-6, {"accountants": ()}, "accountants"),
        ([PureEvent(1)], 1e-6, {"accountants": ("astrology",)}, "accountants"),
        ([PureEvent(1)], 1e-6, {"accountants": ("gaussian",)}, "events"),
    ],
)
def test_a_total_that_makes_no_sense_is_refused_by_name(events, delta, options, argument):
    with pytest.raises(Mistake) as refused:
        _total(events, delta, **options)
    assert refused.value.argument == argument


def test_delta_below_what_floats_can_convolve_is_left_to_the_others():
    assert "distribution" not in _total(GaussianEvent(4.0), 1e-12).considered
    assert math.isinf(distribution.price(GaussianEvent(4.0), adjacency=ADD).epsilon_at(1e-12))
    with pytest.raises(Mistake):
        distribution.price(GaussianEvent(4.0), adjacency=ADD).epsilon_at(0)


def test_distributions_of_two_grids_do_not_compose():
    coarse = distribution.price(PureEvent(1), adjacency=ADD, interval=1e-2)
    fine = distribution.price(PureEvent(1), adjacency=ADD)
    with pytest.raises(Mistake):
        compose([coarse, fine])
    with pytest.raises(Mistake):
        distribution.price(LaplaceEvent(1e-5), adjacency=ADD)
    with pytest.raises(Mistake):
        distribution.price(PureEvent(1), adjacency=ADD, interval=0)


# --- inverses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1, 8, 50])
@pytest.mark.parametrize("delta", [1e-15, 1e-12, 1e-6, 0.05])
def test_the_greatest_rho_keeps_the_promise_and_nothing_greater_does(epsilon, delta):
    rho = calibration.rho_for(epsilon, delta)
    assert concentrated_to_approximate(Concentrated(rho), delta).epsilon <= Decimal(str(epsilon))
    greater = rho * Decimal("1.000001") + Decimal("1e-17")  # rho itself is a whole number of 1e-18
    assert concentrated_to_approximate(Concentrated(greater), delta).epsilon > Decimal(str(epsilon))


def test_rho_is_refused_where_no_rho_exists():
    with pytest.raises(Mistake) as refused:
        calibration.rho_for(1, 0)
    assert refused.value.argument == "delta"
    with pytest.raises(Mistake):
        calibration.rho_for(0, 1e-6)
    with pytest.raises(Mistake, match="too small"):
        calibration.rho_for(1e-12, 1e-18)


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "rounds"), [(ADD, 200), (REPLACE, 50)])
def test_calibrated_rounds_keep_the_promise_and_five_percent_less_noise_does_not(adjacency, rounds):
    wanted = {"rate": 0.02, "rounds": rounds, "epsilon": 1.0, "delta": 1e-6, "adjacency": adjacency}
    ratio = calibration.ratio_for_rounds(**wanted, tolerance=0.01)
    assert _total(Repeated(PoissonGaussianEvent(0.02, ratio), rounds), 1e-6, adjacency).epsilon <= Decimal("1.0001")
    assert _total(Repeated(PoissonGaussianEvent(0.02, ratio * 0.95), rounds), 1e-6, adjacency).epsilon > 1


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"rate": 0}, "rate"),
        ({"rounds": 0}, "rounds"),
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"adjacency": "nearby"}, "adjacency"),
        ({"tolerance": 0}, "tolerance"),
    ],
)
def test_calibration_refuses_nonsense_by_name(change, argument):
    wanted = {"rate": 0.02, "rounds": 10, "epsilon": 1.0, "delta": 1e-6, "adjacency": ADD, **change}
    with pytest.raises(Mistake) as refused:
        calibration.ratio_for_rounds(**wanted)
    assert refused.value.argument == argument


# --- meaning ---------------------------------------------------------------------------------------------------


def test_no_privacy_loss_means_a_blind_guess_and_a_large_one_means_certainty():
    assert meaning(1e-9).best_guess == pytest.approx(0.5)
    assert meaning(1).best_guess == pytest.approx(math.e / (1 + math.e))
    assert meaning(1).odds_factor == pytest.approx(math.e)
    assert meaning(1).advantage == pytest.approx(2 * meaning(1).best_guess - 1)
    assert meaning(1, 0.1).best_guess == pytest.approx((math.e + 0.1) / (1 + math.e))
    assert meaning(1, 0.1).advantage == pytest.approx(2 * meaning(1, 0.1).best_guess - 1)
    assert meaning(900).best_guess == 1
    assert math.isinf(meaning(900).odds_factor)


def test_the_best_guess_is_reached_by_randomised_response():
    keep = 0.8
    epsilon = pure.price(RandomizedResponseEvent(2, keep), adjacency=REPLACE).epsilon
    assert meaning(epsilon).best_guess == pytest.approx(keep)


def test_a_meaning_is_a_sentence_with_its_numbers():
    assert meaning(1).how_often == "at most 73.2 % of the time"  # 73.106: never told smaller than it is
    assert meaning(1, 0.1).how_often == "at most 75.8 % of the time"  # 75.795: delta is in it
    assert meaning(1e-9).how_often == "at most 50.1 % of the time"
    assert meaning(50).how_often == "almost always"
    assert meaning(1).sentence(which="which it was", seen="it") == (
        "Somebody who has to guess, fifty-fifty, which it was is right at most 73.2 % of the time after seeing it."
    )


def test_a_curve_over_a_long_history_is_a_sum_like_any_other():
    one = renyi.price(GaussianEvent(40.0), adjacency=ADD)
    running = repeat(one, 10_000)
    assert running + one == repeat(one, 10_001)
    assert renyi_to_approximate(running + one, 1e-6).epsilon > renyi_to_approximate(running, 1e-6).epsilon
