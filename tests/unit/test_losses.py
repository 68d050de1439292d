"""Losses as types: exact sums, and conversions that never fall below the truth."""

import math
from decimal import Decimal, localcontext

import mpmath
import numpy as np
import pytest

from thebes.privacy.faults import Mistake
from thebes.privacy.losses import (
    ORDERS,
    Approximate,
    Concentrated,
    Pure,
    Renyi,
    _from_order,
    compose,
    concentrated_to_approximate,
    concentrated_to_renyi,
    pure_to_approximate,
    pure_to_concentrated,
    pure_to_renyi,
    renyi_to_approximate,
    repeat,
)

LOSSES = [
    Pure(0.1),
    Approximate(0.1, 1e-9),
    Concentrated("0.012345678901234567"),
    Renyi([Decimal("0.1") * n for n in range(len(ORDERS))]),
]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_ten_times_a_tenth_is_one_whole(loss):
    assert repeat(loss, 10) == compose([loss] * 10)
    assert repeat(Pure(0.1), 10) == Pure(1)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_a_callers_decimal_settings_change_nothing(loss):
    with localcontext() as careless:
        careless.prec = 3
        assert repeat(loss, 12345) == compose([loss] * 12345)
    assert repeat(Pure("0.123456789012"), 12345).epsilon == Decimal("0.123456789012") * 12345


@pytest.mark.parametrize(
    "epsilon", ["1.2344949", "0.912345678901234567890123456789", "7.000000000000000000000000000001"]
)
@pytest.mark.parametrize("digits", [3, 6, 28, 100])
def test_a_pure_loss_costs_the_same_rho_whatever_a_callers_decimal_settings(epsilon, digits):
    exactly = mpmath.mpf(epsilon) * mpmath.tanh(mpmath.mpf(epsilon) / 2)
    with localcontext() as careless:
        careless.prec = digits
        priced = pure_to_concentrated(Pure(epsilon)).rho
    assert 0 <= mpmath.mpf(str(priced)) - exactly < mpmath.mpf("1e-28")


def test_a_conversion_gives_the_same_epsilon_whatever_a_callers_decimal_settings() -> None:
    curve = pure_to_renyi(Pure("0.1234567"))
    exactly = [
        convert(loss, delta).epsilon
        for convert, loss in ((concentrated_to_approximate, Concentrated("0.0123")), (renyi_to_approximate, curve))
        for delta in ("1.2344e-6", "9.876e-12")
    ]
    with localcontext() as careless:
        careless.prec = 3
        again = [
            convert(loss, delta).epsilon
            for convert, loss in ((concentrated_to_approximate, Concentrated("0.0123")), (renyi_to_approximate, curve))
            for delta in ("1.23440e-6", "9.8760e-12")
        ]
    assert again == exactly


@pytest.mark.parametrize("rho", ["1e-20", "1e-6", "0.3", "40", "1e6"])
@pytest.mark.parametrize("delta", ["1e-200", "1e-9", "0.1", "0.6065", "0.61", "0.999999"])
def test_the_conversion_of_a_rho_finds_the_best_order_of_its_grid(rho: str, delta: str) -> None:
    logarithm = math.log(float(delta))
    orders = [1 + math.exp(t / 50) for t in range(-500, 1300)]
    best = min(_from_order(order, float(rho) * order, logarithm) for order in orders)
    found = float(concentrated_to_approximate(Concentrated(rho), delta).epsilon)
    assert found == pytest.approx(best, rel=1e-14, abs=2e-12)


@pytest.mark.parametrize("times", [-1, 1.5, True, "3", None])
def test_a_count_that_is_no_count_is_refused(times):
    with pytest.raises(Mistake) as refused:
        repeat(Pure(1), times)
    assert refused.value.argument == "times"


def test_losses_of_two_kinds_do_not_add():
    with pytest.raises(Mistake):
        compose([Pure(1), Concentrated(1)])
    with pytest.raises(Mistake):
        compose([])


@pytest.mark.parametrize("kind", [Pure, Concentrated])
@pytest.mark.parametrize("value", [-1, math.nan, Decimal("NaN"), "many", None, True])
def test_a_loss_that_is_no_loss_is_refused(kind, value):
    with pytest.raises(Mistake):
        kind(value)


def test_a_curve_needs_a_value_for_every_order():
    with pytest.raises(Mistake):
        Renyi([1, 2, 3])


def test_finer_decimals_than_are_kept_round_up_and_huge_losses_are_infinite():
    assert Pure(Decimal("1e-40")).epsilon == Decimal("1e-30")
    assert Pure(Decimal("1e40")).epsilon.is_infinite()
    assert repeat(Pure(1e6), 10**6) == Pure(Decimal("1e12"))
    assert repeat(Pure(Decimal("Infinity")), 0) == Pure(0)


def test_a_delta_never_exceeds_one():
    assert repeat(Approximate(0, 0.4), 3).delta == 1


# --- conversions against 60 digits of mpmath ----------------------------------------------------------------


def _least_epsilon(divergence_at, orders, delta):
    """The tight conversion at the best of many orders, in 60 digits."""
    with mpmath.workdps(60):
        return min(
            mpmath.mpf(divergence_at(a))
            + mpmath.log(1 - 1 / mpmath.mpf(a))
            - mpmath.log(mpmath.mpf(delta) * a) / (a - 1)
            for a in orders
        )


@pytest.mark.parametrize("epsilon", ["1e-9", "1e-4", "0.1", "1", "5", "30", "200"])
def test_a_pure_loss_becomes_no_less_than_the_exact_curve_of_randomised_response(epsilon):
    curve = pure_to_renyi(Pure(epsilon))
    with mpmath.workdps(80):
        e = mpmath.mpf(epsilon)
        p = 1 / (1 + mpmath.exp(-e))
        q = 1 / (1 + mpmath.exp(e))
        for order, value in zip(ORDERS, curve.epsilons, strict=True):
            a = mpmath.mpf(order)
            exactly = mpmath.log(p**a * q ** (1 - a) + q**a * p ** (1 - a)) / (a - 1)
            assert mpmath.mpf(str(value)) >= exactly
            assert mpmath.mpf(str(value)) <= exactly * (1 + mpmath.mpf("1e-9")) + mpmath.mpf("2e-12")
            assert value <= Decimal(epsilon)


@pytest.mark.few(2)
@pytest.mark.parametrize("delta", ["1e-12", "1e-6", "0.01", "0.3"])
@pytest.mark.parametrize("rho", ["1e-9", "1e-4", "0.03125", "0.5", "20", "5000"])
def test_a_rho_becomes_no_less_than_the_tight_conversion_and_hardly_more(rho, delta):
    with mpmath.workdps(60):
        orders = [1 + mpmath.exp(mpmath.mpf(t) / 100) for t in range(-1000, 1400)]
        exactly = max(mpmath.mpf(0), _least_epsilon(lambda a: mpmath.mpf(rho) * a, orders, delta))
    converted = concentrated_to_approximate(Concentrated(rho), delta)
    assert converted.delta == Decimal(delta)
    reported = mpmath.mpf(str(converted.epsilon))
    # The finer search may find a slightly better order: ours may not fall below that order's own value.
    assert reported >= exactly
    assert reported <= exactly * (1 + mpmath.mpf("3e-4")) + mpmath.mpf("1e-9")


@pytest.mark.parametrize("delta", ["1e-10", "1e-5", "0.1"])
def test_a_curve_becomes_no_less_than_its_best_order(delta):
    curve = concentrated_to_renyi(Concentrated("0.02"))
    exactly = _least_epsilon(lambda a: mpmath.mpf("0.02") * mpmath.mpf(a), ORDERS, delta)
    reported = mpmath.mpf(str(renyi_to_approximate(curve, delta).epsilon))
    assert max(exactly, 0) <= reported <= max(exactly, 0) * (1 + mpmath.mpf("1e-9")) + mpmath.mpf("2e-12")


def test_the_gaussian_with_ratio_four_costs_what_is_known():
    rho = Concentrated(1 / 32)
    assert float(concentrated_to_approximate(rho, 1e-6).epsilon) == pytest.approx(1.1429, abs=5e-5)


def test_pure_losses_convert_exactly():
    assert pure_to_approximate(Pure(0.3)) == Approximate(0.3, 0)


def response(a, e):
    """The Renyi divergence of randomised response between e^e to 1, in mpmath's digits."""
    x, y = a * e, (1 - a) * e
    return mpmath.log((mpmath.exp(x) + mpmath.exp(y)) / (1 + mpmath.exp(e))) / (a - 1)


@pytest.mark.parametrize("epsilon", ["1e-9", "1e-4", "0.05", "0.5", "1", "2", "4", "8", "30", "200"])
def test_a_pure_loss_costs_the_least_rho_that_holds_for_randomised_response(epsilon):
    """Holds at every order, and a rho 30 % less or a part in a million less does not."""
    with mpmath.workdps(200):
        e, rho = mpmath.mpf(epsilon), mpmath.mpf(str(pure_to_concentrated(Pure(epsilon)).rho))
        orders = [1 + mpmath.mpf(10) ** (mpmath.mpf(t) / 4) for t in range(-80, 25)]
        worst = max(response(a, e) / a for a in orders)
        assert worst <= e * mpmath.tanh(e / 2) <= rho <= e * mpmath.tanh(e / 2) + mpmath.mpf("1e-29")
        assert rho <= e * e / 2 + mpmath.mpf("1e-29")
        for less in ("0.7", "0.999999"):
            assert worst > mpmath.mpf(less) * rho


def test_randomised_response_is_the_worst_pure_mechanism():
    """Against pairs of three outcomes whose ratios lie within e^epsilon: none has a larger divergence."""
    rng = np.random.default_rng(20)
    for epsilon in (0.3, 1.0, 4.0):
        rho = float(pure_to_concentrated(Pure(epsilon)).rho)
        for _ in range(2_000):
            ratio = np.exp(epsilon * np.clip(rng.uniform(-1.5, 1.5, 3), -1, 1))
            p = rng.dirichlet(np.ones(3))
            q = p * ratio
            scale = q.sum()
            q, a = q / scale, 1 + 10 ** rng.uniform(-3, 2)
            if np.abs(np.log(q / p)).max() <= epsilon:
                x = a * np.log(q) + (1 - a) * np.log(p)
                assert (x.max() + np.log(np.exp(x - x.max()).sum())) / (a - 1) <= rho * a + 1e-9


def test_dp_accounting_finds_the_same_price_of_a_pure_answer():
    """Its randomised response, as far as its orders go: never above ours, and at the smallest order close to it."""
    rdp = pytest.importorskip("dp_accounting.rdp")
    import dp_accounting

    orders = [1.001, 1.1, 1.5, 2.0, 4.0, 16.0, 64.0]
    for epsilon in (0.2, 1.0, 4.0):
        accountant = rdp.RdpAccountant(orders, dp_accounting.NeighboringRelation.REPLACE_ONE)
        accountant.compose(dp_accounting.RandomizedResponseDpEvent(2 / (1 + math.exp(epsilon)), 2))
        theirs = np.array(accountant.rdp) / orders
        ours = float(pure_to_concentrated(Pure(epsilon)).rho)
        assert (theirs <= ours * (1 + 1e-9)).all()
        assert theirs[0] > 0.99 * ours


def test_no_delta_buys_only_a_loss_of_nothing():
    assert concentrated_to_approximate(Concentrated(0), 0) == Approximate(0, 0)
    assert concentrated_to_approximate(Concentrated(1), 0).epsilon.is_infinite()
    assert renyi_to_approximate(Renyi([0] * len(ORDERS)), 0) == Approximate(0, 0)
    assert renyi_to_approximate(Renyi([1] * len(ORDERS)), 0).epsilon.is_infinite()


def test_infinity_survives_every_conversion():
    forever = Decimal("Infinity")
    assert pure_to_concentrated(Pure(forever)).rho.is_infinite()
    assert all(e.is_infinite() for e in pure_to_renyi(Pure(forever)).epsilons)
    assert all(e.is_infinite() for e in concentrated_to_renyi(Concentrated(forever)).epsilons)
    assert concentrated_to_approximate(Concentrated(forever), 1e-6).epsilon.is_infinite()
    assert renyi_to_approximate(Renyi([forever] * len(ORDERS)), 1e-6).epsilon.is_infinite()
