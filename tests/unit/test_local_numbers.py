"""Local mechanisms for one bounded number: exact odds, exact unbiasedness, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from thebes.privacy.accounting import gaussian
from thebes.privacy.events import GaussianEvent, LaplaceEvent, PureEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.local import (
    Hybrid,
    LocalGaussian,
    LocalLaplace,
    LocalMechanism,
    NumberMechanism,
    Piecewise,
    TwoPoint,
    choose_number,
    coins,
)
from thebes.privacy.mechanisms.local.bounded import NARROWINGS
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import seeded_for_simulation, system

PURE = [LocalLaplace, TwoPoint, Piecewise, Hybrid]
EPSILONS = ["0.001", "0.1", "0.7", "1", "2.5", "8", "20"]


def build(kind: type[NumberMechanism], low: float = -1.0, high: float = 3.0, epsilon: object = 1) -> NumberMechanism:
    return kind(low, high, epsilon, "1e-6") if kind is LocalGaussian else kind(low, high, epsilon)  # type: ignore[arg-type]


def two_point_chance(mechanism: TwoPoint, step: int) -> Fraction:
    return Fraction(mechanism.rare + step * mechanism.rise, coins.WORD)


def piecewise_chances(mechanism: Piecewise) -> tuple[Fraction, Fraction]:
    """The likelihood of one number inside the window, and of one outside."""
    hold = mechanism.coin.probability
    return hold / mechanism.width, (1 - hold) / (mechanism.most + 1 - mechanism.width)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_two_points_keep_epsilon_for_every_pair_of_values(epsilon):
    mechanism = TwoPoint(0, 1, Decimal(epsilon), bits=4)
    chances = [two_point_chance(mechanism, step) for step in range(mechanism.grid.steps + 1)]
    assert chances[0] + chances[-1] == 1
    worst = max(max(a / b, (1 - a) / (1 - b)) for a, b in itertools.permutations(chances, 2))
    loss = mechanism.loss().epsilon
    assert coins.ratio(worst).ln(coins.WIDE) <= loss <= Decimal(epsilon)
    assert loss >= Decimal(epsilon) - Decimal("1e-9")


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_two_points_are_exactly_unbiased_at_every_step(epsilon):
    mechanism = TwoPoint(0, 1, Decimal(epsilon), bits=4)
    rare = Fraction(mechanism.rare, coins.WORD)
    for step in range(mechanism.grid.steps + 1):
        assert (two_point_chance(mechanism, step) - rare) / (1 - 2 * rare) == Fraction(step, mechanism.grid.steps)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("narrowing", [None, *NARROWINGS[::10]])
def test_piecewise_keeps_epsilon_for_any_width(epsilon, narrowing):
    mechanism = Piecewise(0, 1, Decimal(epsilon), narrowing=narrowing)
    inside, outside = piecewise_chances(mechanism)
    assert inside * mechanism.width + outside * (mechanism.most + 1 - mechanism.width) == 1
    worst = coins.ratio(inside / outside).ln(coins.WIDE)
    assert worst <= mechanism.loss().epsilon <= Decimal(epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_piecewise_is_unbiased_at_every_step(epsilon):
    mechanism = Piecewise(0, 1, Decimal(epsilon), bits=3)
    inside, outside = piecewise_chances(mechanism)
    total = Fraction(mechanism.most * (mechanism.most + 1), 2)
    for step in range(mechanism.grid.steps + 1):
        start = Fraction(2**40, mechanism.grid.steps) * step
        window = mechanism.width * start + Fraction(mechanism.width * (mechanism.width - 1), 2)
        mean = inside * window + outside * (total - window)
        assert mechanism._shares(np.array([0.0]))[0] + float(mean / 2**40) / mechanism._slope == pytest.approx(
            step / mechanism.grid.steps, abs=1e-9
        )


@pytest.mark.parametrize("epsilon", ["0.5", "1", "3", "8"])
def test_the_searched_width_has_the_least_worst_variance(epsilon):
    chosen = Piecewise(0, 1, epsilon).variance(1)
    assert chosen == min(Piecewise(0, 1, epsilon, narrowing=n).variance(1) for n in NARROWINGS)
    assert chosen < Piecewise(0, 1, epsilon, narrowing=Decimal("0.5")).variance(1)  # the paper's width


@pytest.mark.parametrize("epsilon", ["0.3", "0.8", "1", "2", "4", "8"])
def test_the_mixture_is_never_worse_than_its_parts(epsilon):
    mixed = Hybrid(0, 1, epsilon).variance(1)
    assert mixed <= min(Piecewise(0, 1, epsilon).variance(1), TwoPoint(0, 1, epsilon).variance(1)) * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [*EPSILONS, "0.1234567890123456789", "1000"])
@pytest.mark.parametrize("bits", [1, 12, 20])
def test_laplace_scale_never_falls_below_range_over_epsilon(epsilon, bits):
    mechanism = LocalLaplace(0, 7, Decimal(epsilon), bits=bits)
    spent = Fraction(mechanism.grid.steps) / Fraction(mechanism.scale)
    assert spent <= Fraction(mechanism.loss().epsilon) <= Fraction(epsilon)
    assert spent == pytest.approx(Fraction(epsilon), rel=1e-12)
    assert mechanism.event() == LaplaceEvent(mechanism.scale / mechanism.grid.steps, mechanism.grid.steps)


def discrete_gaussian_delta(scale: float, shift: int, epsilon: float) -> float:
    """The exact delta of discrete Gaussian noise, added up over whole numbers."""
    reach = int(12 * scale) + shift
    k = np.arange(-reach, reach + 1, dtype=np.float64)
    f, g = np.exp(-(k**2) / (2 * scale**2)), np.exp(-((k + shift) ** 2) / (2 * scale**2))
    return math.fsum(np.maximum(f - math.exp(epsilon) * g, 0)) / math.fsum(f)


@pytest.mark.parametrize(
    ("ratio", "epsilon"), [(0.5, 0.1), (1.0, 1.0), (2.0, 0.3), (4.0, 1.0), (0.4, 8.0), (10.0, 0.01)]
)
def test_the_discrete_gaussian_costs_at_most_the_slack_more_than_the_continuous_one(ratio, epsilon):
    shift = round(1500 / ratio)
    scale = ratio * shift
    slack = gaussian.grid_slack(scale, shift)
    exact, continuous = discrete_gaussian_delta(scale, shift, epsilon), gaussian.delta_of(ratio, epsilon)
    assert exact <= continuous + slack
    assert abs(exact - continuous) <= slack + 1e-13


@pytest.mark.parametrize("epsilon", ["0.1", "1", "4", "20"])
@pytest.mark.parametrize("delta", ["1e-12", "1e-6", "0.01"])
def test_gaussian_noise_keeps_epsilon_and_delta(epsilon, delta):
    mechanism = LocalGaussian(0, 1, epsilon, delta)
    assert mechanism.loss().delta <= Decimal(delta)
    assert float(mechanism.loss().delta) == pytest.approx(float(delta), rel=1e-3)
    assert gaussian.delta_of(mechanism.ratio, float(epsilon)) + mechanism.slack <= float(delta)
    assert mechanism.event() == GaussianEvent(mechanism.ratio, mechanism.slack)
    classical = math.sqrt(2 * math.log(1.25 / float(delta))) / float(epsilon)
    if float(epsilon) <= 1:
        assert mechanism.ratio < classical  # the analytic calibration needs less noise


def test_a_coarse_grid_still_costs_no_more_than_its_delta():
    mechanism = LocalGaussian(0, 1, 1, "0.001", bits=10)
    exact = discrete_gaussian_delta(mechanism.scale, mechanism.grid.steps, 1.0)
    assert exact <= float(mechanism.loss().delta) <= 0.001


def test_the_chooser_takes_the_least_worst_error():
    for epsilon in (0.1, 1, 4, 12):
        chosen = choose_number(0, 1, epsilon, 100)
        assert chosen.expected_error(100) == min(kind(0, 1, epsilon).expected_error(100) for kind in PURE)
    assert choose_number(0, 1, 1, 100).name == "hybrid"
    assert choose_number(0, 1, "0.1", 100).name == "two-point"
    assert choose_number(0, 1, "0.001", 100, delta="0.2").name == "local-gaussian"
    assert choose_number(0, 1, 1, 100, delta="1e-9").name == "hybrid"
    assert choose_number(0, 1, 1, 100, among=["local-laplace"]).name == "local-laplace"
    with pytest.raises(Mistake, match="delta"):
        choose_number(0, 1, 1, 100, among=["local-gaussian"])


def test_bounded_reports_beat_laplace_at_every_epsilon():
    for epsilon in (0.01, 0.5, 1, 2, 4, 8, 16):
        assert Hybrid(0, 1, epsilon).expected_error(1) < 0.6 * LocalLaplace(0, 1, epsilon).expected_error(1)


@pytest.mark.parametrize("kind", [*PURE, LocalGaussian])
def test_every_mechanism_says_what_it_promises(kind):
    mechanism = build(kind)
    assert isinstance(mechanism, LocalMechanism)
    assert mechanism.adjacency is Adjacency.REPLACE_ONE
    assert mechanism.guarantee("person").loss == mechanism.loss()
    assert json.loads(json.dumps(mechanism.parameters())) == mechanism.parameters()
    if kind in (TwoPoint, Piecewise, Hybrid):
        assert mechanism.event() == PureEvent(mechanism.loss().epsilon)


@pytest.mark.parametrize("kind", [*PURE, LocalGaussian])
@pytest.mark.parametrize("randomness", [system(), seeded_for_simulation(5)], ids=["system", "seeded"])
def test_honest_reports_pass_the_check_and_give_an_estimate(kind, randomness):
    mechanism = build(kind)
    reports = mechanism.perturb([-1, 3, 0.25, 1e300, -5], randomness)
    assert reports.dtype == np.int64
    assert (mechanism.check(reports.tolist()) == reports).all()
    estimate = mechanism.estimate(reports)
    assert estimate.contributors == 5
    interval = estimate.interval()
    assert interval.low < estimate.value < interval.high
    assert float(estimate.value) == pytest.approx(float(mechanism.decode(reports).mean()))
    json.dumps(interval.as_json())


@pytest.mark.parametrize("kind", [*PURE, LocalGaussian])
def test_one_report_alone_has_the_worst_error(kind):
    mechanism = build(kind)
    estimate = mechanism.estimate(mechanism.perturb([0.5], system()))
    assert float(estimate.standard_error) == pytest.approx(math.sqrt(mechanism.variance(1)))


@pytest.mark.parametrize("kind", [*PURE, LocalGaussian])
@pytest.mark.parametrize(
    "values", [[], [float("nan")], [float("inf")], [1, None], ["a"], [[1.0]], 3.0, [1j], [True], [[1], [2, 3]]], ids=str
)
def test_bad_values_are_a_mistake(kind, values):
    with pytest.raises(Mistake) as error:
        build(kind).perturb(values, system())
    assert error.value.argument == "values"


@pytest.mark.parametrize("kind", [*PURE, LocalGaussian])
@pytest.mark.parametrize(
    "reports", [[], [0.5], ["a"], [None], [[0]], [2**62], [-(2**62)], [2**63], [10**40], [float("nan")]], ids=str
)
def test_hostile_reports_are_refused(kind, reports):
    with pytest.raises(Mistake) as error:
        build(kind).estimate(reports)
    assert error.value.argument == "reports"


@pytest.mark.parametrize("kind", [TwoPoint, Piecewise, Hybrid])
def test_reports_just_outside_their_set_are_refused(kind):
    mechanism = build(kind)
    mechanism.check([mechanism.least, mechanism.most])
    for report in (mechanism.least - 1, mechanism.most + 1):
        with pytest.raises(Mistake):
            mechanism.check([report])


@pytest.mark.parametrize("kind", [*PURE, LocalGaussian])
@pytest.mark.parametrize(
    ("low", "high"),
    [(1, 1), (2, 1), (float("nan"), 1), (0, float("inf")), ("a", 1), (None, 1), (-1e308, 1e308), (True, 3)],
)
def test_bad_bounds_are_a_mistake(kind, low, high):
    with pytest.raises(Mistake) as error:
        build(kind, low, high)
    assert error.value.argument in ("low", "high", "bounds")


@pytest.mark.parametrize("kind", [*PURE, LocalGaussian])
@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), "much", None, True, 1e-300, 10**400])
def test_a_bad_epsilon_is_a_mistake(kind, epsilon):
    with pytest.raises(Mistake) as error:
        build(kind, epsilon=epsilon)
    assert error.value.argument == "epsilon"


@pytest.mark.parametrize("delta", [0, -0.1, 1, 2, float("nan"), "x"])
def test_gaussian_noise_needs_a_delta(delta):
    with pytest.raises(Mistake) as error:
        LocalGaussian(0, 1, 1, delta)
    assert error.value.argument == "delta"


def test_grids_that_do_not_suit_are_a_mistake():
    with pytest.raises(Mistake, match="bits"):
        LocalGaussian(0, 1, 1, "1e-17", bits=8)
    with pytest.raises(Mistake, match="bits"):
        TwoPoint(0, 1, "1e-9", bits=40)
    with pytest.raises(Mistake, match="bits"):
        LocalLaplace(0, 1, "1e-9", bits=40)
    with pytest.raises(Mistake, match="bits"):
        Piecewise(0, 1, 1, bits=0)


def test_values_that_share_a_step_have_the_same_report_from_the_same_chance():
    for kind in (*PURE, LocalGaussian):
        mechanism = build(kind)
        pair = [0.1, math.nextafter(0.1, 1)]
        first, second = (mechanism.perturb([v], seeded_for_simulation(1)) for v in pair)
        assert first == second


def test_laplace_reaches_the_same_numbers_from_neighbouring_values_where_float_noise_does_not():
    mechanism = LocalLaplace(0, 1, 2, bits=3)
    reached = [
        set(mechanism.perturb(np.full(200_000, v), seeded_for_simulation(s)).tolist()) for s, v in ((1, 0), (2, 1))
    ]
    near = set(range(-16, 25))
    assert reached[0] & near == reached[1] & near == near
    # The textbook way, as a control: the floats that can come out tell the inputs apart.
    u = (seeded_for_simulation(3).words(2000) >> np.uint64(44)).astype(np.float64) / 2**20 + 2.0**-21
    noise = 0.5 * np.log(u)
    assert set((0.1 + noise).tolist()).isdisjoint(set((0.7 + noise).tolist()))
