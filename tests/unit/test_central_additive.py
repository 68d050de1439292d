"""Calibration of additive noise: exact privacy of what is drawn, and agreement with opendp's own maps."""

import math
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from tests.support.opendp_noise import opendp
from thebes.privacy.accounting import approximate, pure
from thebes.privacy.accounting.gaussian import delta_of, grid_slack
from thebes.privacy.events import GaussianEvent, LaplaceEvent
from thebes.privacy.exact import DELTA_STEP, loss_of
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.additive import Gaussian, Laplace, LeastNoise, released
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import seeded_for_simulation
from thebes.privacy.stability import LARGEST_TOTAL, Sensitivity

ONE = Sensitivity(1, 1)


def discrete(scale, reach):
    k = np.arange(-reach, reach + 1)
    weights = np.exp(-(k.astype(float) ** 2) / (2 * scale**2))
    return weights / weights.sum()


@pytest.mark.parametrize("epsilon", ["0.1", "0.3", "1", "3", "1e-5", "7.7", "123.456"])
@pytest.mark.parametrize("l1", [1, 3, 2**20, 2**20 + 1])
def test_laplace_noise_is_never_below_sensitivity_over_epsilon_and_priced_no_higher(epsilon, l1):
    noise = Laplace(epsilon).noise(Sensitivity(l1, l1 * l1))
    assert Fraction(l1) / Fraction(noise.drawn_scale) <= Fraction(Decimal(epsilon))
    assert Fraction(noise.drawn_scale) >= l1 * Fraction(noise.event.ratio)
    assert noise.drawn_scale == pytest.approx(l1 / float(epsilon), rel=1e-12)
    assert noise.event == LaplaceEvent(noise.event.ratio, l1)
    assert 1 / Fraction(noise.event.ratio) <= Fraction(Decimal(epsilon))


def test_laplace_noise_on_several_coordinates_claims_all_steps_as_one_number_does():
    assert Laplace(1).noise(Sensitivity(1000, 1000**2, 2)).event.steps == 1000


@pytest.mark.parametrize("ratio", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("finer", [1, 4, 64, 1024])
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 4.0])
def test_discrete_noise_costs_the_continuous_delta_plus_at_most_the_stated_slack(ratio, finer, epsilon):
    """The exact hockey-stick divergence of the discrete Gaussian, summed over the grid, at a shift of one answer step.

    P(k) > e^epsilon P(k - finer) exactly for k below finer/2 - epsilon scale^2 / finer.
    """
    scale = ratio * finer
    reach = math.ceil(40 * scale) + finer
    here = discrete(scale, reach)
    there = np.concatenate([np.zeros(finer), here[:-finer]])
    exact = np.maximum(here - math.exp(epsilon) * there, 0)[finer:-finer].sum()
    assert exact <= delta_of(ratio, epsilon) + grid_slack(scale, finer)
    if finer == 1024 and delta_of(ratio, epsilon) > 1e-9:
        assert exact == pytest.approx(delta_of(ratio, epsilon), rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.1, 1, 4])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
@pytest.mark.parametrize("sensitivity", [ONE, Sensitivity(2, 2, 1000), Sensitivity(2**20, 2**40, 3)])
def test_the_gaussian_event_is_within_the_declaration_including_its_slack(epsilon, delta, sensitivity):
    noise = Gaussian(epsilon, delta).noise(sensitivity)
    event = noise.event
    assert delta_of(event.ratio, epsilon) + event.slack <= delta
    assert event.slack >= grid_slack(noise.drawn_scale, sensitivity.l1 * noise.finer)
    assert noise.drawn_scale >= 2**10
    assert Fraction(noise.drawn_scale) ** 2 >= Fraction(event.ratio) ** 2 * sensitivity.l2_squared * noise.finer**2
    assert noise.finer & (noise.finer - 1) == 0


@pytest.mark.parametrize("sensitivity", [ONE, Sensitivity(2, 2, 10), Sensitivity(2**20, 2**40, 3)])
def test_opendp_prices_the_drawn_noise_as_we_do(sensitivity):
    dp = opendp()
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=sensitivity.coordinates)
    smooth = Gaussian(1, 1e-6).noise(sensitivity)
    theirs = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=smooth.drawn_scale)
    rho = 1 / (2 * smooth.event.ratio**2)
    assert theirs.map(sensitivity.l2 * smooth.finer) == pytest.approx(rho, rel=1e-9)
    sharp = Laplace("0.7").noise(sensitivity)
    theirs = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=sharp.drawn_scale)
    assert theirs.map(sensitivity.l1) == pytest.approx(0.7, rel=1e-12)


def test_the_noise_with_the_lesser_deviation_is_chosen_from_public_things_only():
    small = LeastNoise(1, 1e-6).noise(ONE)
    many = LeastNoise(1, 1e-6).noise(Sensitivity(100, 100, 100))
    assert (small.kind, many.kind) == ("laplace", "gaussian")
    assert isinstance(many.event, GaussianEvent)
    assert many.deviation < Laplace(1).noise(Sensitivity(100, 100, 100)).deviation
    assert LeastNoise(1, 0).noise(Sensitivity(100, 100, 100)).kind == "laplace"
    assert LeastNoise(1, 1e-6).noise(Sensitivity(7, 49, 100)).kind == "laplace"
    # For one count Gaussian noise pays only where delta is large.
    assert LeastNoise("0.01", "0.1").noise(ONE).kind == "gaussian"


def test_refinement_always_leaves_room_for_many_rows_or_is_refused():
    for coordinates in (1, 10**3, 10**5, 10**7):
        for delta in (1e-5, 1e-9, 1e-12, 1e-17):
            with suppress(Mistake):
                noise = Gaussian(1, delta).noise(Sensitivity(2, 2, coordinates))
                assert LARGEST_TOTAL // noise.finer >= 2**28
    with pytest.raises(Mistake) as caught:
        Gaussian(1, 1e-17).noise(Sensitivity(10**8, 10**8, 10**8))
    assert caught.value.argument == "delta"


def test_gaussian_results_lie_on_the_refined_grid_and_laplace_results_on_whole_numbers():
    totals = np.zeros(500, dtype=np.int64)
    for noise in (Gaussian(1, 1e-6).noise(ONE), Laplace(1).noise(ONE)):
        value = released(
            totals, noise=noise, adjacency=Adjacency.REPLACE_ONE, randomness=seeded_for_simulation(1)
        ).value
        np.testing.assert_array_equal(value * noise.finer, np.rint(value * noise.finer))
        assert len(np.unique(value)) > 5


def test_totals_beyond_the_room_are_clamped_before_the_noise():
    noise = Gaussian(1, 1e-6).noise(ONE)
    most = LARGEST_TOTAL // noise.finer
    value = noise.add(np.array([LARGEST_TOTAL, -LARGEST_TOTAL]), seeded_for_simulation(1))
    assert abs(value[0] - most) < 100
    assert abs(value[1] + most) < 100


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("epsilon", ["0.01", "0.5", "1", "5", "40"])
def test_the_width_of_discrete_laplace_noise_is_the_least_whole_number(level, epsilon):
    noise = Laplace(epsilon).noise(ONE)
    q = math.exp(-1 / noise.scale)

    def beyond(m):
        return 2 * q ** (m + 1) / (1 + q)

    width = noise.width(level)
    assert beyond(width) <= (1 - level) * (1 + 1e-9)
    assert width == 0 or beyond(width - 1) > (1 - level) * (1 - 1e-9)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Laplace(0), "epsilon"),
        (lambda: Laplace(-1), "epsilon"),
        (lambda: Laplace(float("nan")), "epsilon"),
        (lambda: Laplace("much"), "epsilon"),
        (lambda: Laplace(None), "epsilon"),
        (lambda: Laplace(True), "epsilon"),
        (lambda: Gaussian(1, 0), "delta"),
        (lambda: Gaussian(1, 1), "delta"),
        (lambda: Gaussian(1, -1e-9), "delta"),
        (lambda: Gaussian(1, 1e-30), "delta"),
        (lambda: LeastNoise(1, 2), "delta"),
        (lambda: LeastNoise(float("inf"), 0), "epsilon"),
        (lambda: Laplace(1e-12).noise(Sensitivity(2**40, 2**80)), "epsilon"),
        (lambda: Gaussian(1e-6, 1e-9).noise(Sensitivity(2**40, 2**80)), "epsilon"),
        (lambda: Gaussian(800, 1e-9).noise(ONE), "epsilon"),
    ],
)
def test_impossible_noise_is_refused_by_name(make, named):
    with pytest.raises(Mistake) as caught:
        make()
    assert caught.value.argument == named


@pytest.mark.parametrize("epsilon", ["0.1", "1", "4.7"])
def test_the_accountants_never_ask_for_more_than_was_declared(epsilon):
    delta = Decimal("1e-6")
    event = Gaussian(epsilon, delta).noise(Sensitivity(2**20, 2**40, 3)).event
    slack = loss_of(event.slack, DELTA_STEP)
    asked = approximate.price(event, adjacency="add-remove-one", share=delta - slack)
    assert asked.delta <= delta
    assert float(asked.epsilon) <= float(epsilon) * (1 + 1e-9)
    assert float(asked.epsilon) >= float(epsilon) * 0.999
    sharp = pure.price(Laplace(epsilon).noise(ONE).event, adjacency="add-remove-one")
    assert Decimal(epsilon) * (1 - Decimal("1e-12")) <= sharp.epsilon <= Decimal(epsilon)
