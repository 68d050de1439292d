"""Noise on whole numbers costs at most the stated slack more than real noise: by exact sums over all outcomes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.privacy.accounting.gaussian import delta_of, grid_slack
from thebes.privacy.mechanisms.additive import Gaussian, Laplace, LeastNoise
from thebes.privacy.stability import Sensitivity


def losses(scale: float, distance: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Every loss that discrete noise of this scale can have between answers so far apart, with its odds."""
    reach = math.ceil(12 * scale)
    bell = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * scale**2))
    odds = np.ones(1)
    for steps in distance:
        apart = np.zeros(2 * reach * steps + 1)
        apart[::steps] = bell / bell.sum()
        odds = np.convolve(odds, apart)
    product = np.arange(len(odds)) - len(odds) // 2
    return (sum(d * d for d in distance) + 2 * product) / (2 * scale**2), odds


def beyond(loss: np.ndarray, odds: np.ndarray, epsilon: float) -> float:
    return float(odds @ np.maximum(0, 1 - np.exp(np.minimum(epsilon - loss, 1))))


DISTANCES = st.lists(st.integers(1, 6), min_size=1, max_size=6)
SCALES = st.sampled_from([1.0, 1.3, 2.0, 4.5, 9.0])


@examples(40)
@given(SCALES, DISTANCES, st.floats(-3, 12))
def test_discrete_noise_in_any_number_of_coordinates_costs_at_most_its_slack_more(scale, distance, epsilon):
    exact = beyond(*losses(scale, distance), epsilon)
    ratio = scale / math.sqrt(sum(d * d for d in distance))
    assert exact <= delta_of(ratio, epsilon) + grid_slack(scale, sum(distance))


@examples(20)
@given(SCALES, st.lists(st.integers(1, 4), min_size=2, max_size=4), st.floats(0, 6), st.sampled_from([2, 3]))
def test_slacks_of_releases_add_up_also_where_the_second_distance_follows_from_the_first_loss(
    scale, distance, epsilon, other
):
    """The second release moves by `other` where the first one's loss was positive, else by 1."""
    first, odds = losses(scale, distance)
    exact = 0.0
    for moved, chosen in ((other, first > 0), (1, first <= 0)):
        second, chances = losses(scale, [moved])
        exact += sum(
            p * beyond(second, chances, epsilon - loss) for loss, p in zip(first[chosen], odds[chosen], strict=True)
        )
    ratio = scale / math.sqrt(sum(d * d for d in distance) + other**2)
    slack = grid_slack(scale, sum(distance)) + grid_slack(scale, other)
    assert exact <= delta_of(ratio, epsilon) + slack


@examples(20)
@given(SCALES, DISTANCES, st.floats(-2, 4), st.sampled_from([0.05, 0.5, 0.9]), st.booleans())
def test_a_sample_that_a_unit_is_in_by_a_coin_costs_at_most_that_slack_more(scale, distance, epsilon, rate, comes):
    """Of both directions: the mixture against the noise, and the noise against the mixture; real noise by its own
    curve, at the epsilon to which the coin turns this one."""
    loss, odds = losses(scale, distance)
    ratio, growth = scale / math.sqrt(sum(d * d for d in distance)), math.exp(epsilon)
    if comes:
        mixed = np.log1p(rate * np.expm1(loss))
        exact = beyond(mixed, odds * rate, epsilon) + beyond(
            np.log1p(rate * np.expm1(-loss)), odds * (1 - rate), epsilon
        )
        at = (growth - 1 + rate) / rate
        real = rate * delta_of(ratio, math.log(at)) if at > 0 else 1 - growth
    else:
        left = 1 - growth * (1 - rate)
        exact = beyond(-np.log1p(rate * np.expm1(-loss)), odds, epsilon)
        real = left * delta_of(ratio, math.log(growth * rate / left)) if left > 0 else 0.0
    assert exact <= real + grid_slack(scale, sum(distance)) + 1e-12


def test_many_coordinates_get_the_noise_that_continuous_noise_would_need():
    """Epsilon 8, delta 1e-9 and 10,000 coordinates, where a slack that grew with e^epsilon left Laplace noise only."""
    many = Sensitivity(100, 100, 10_000)
    noise = LeastNoise(8, 1e-9).noise(many)
    assert noise.kind == "gaussian"
    assert delta_of(noise.scale / 10 * (1 - 1e-4), 8) > 1e-9  # a little less would be too little
    assert Laplace(8).noise(many).deviation / noise.deviation > 1.7
    assert delta_of(noise.event.ratio, 8) + noise.event.slack <= 1e-9


@pytest.mark.parametrize("epsilon", [0.1, 1, 8, 30, 700])
@pytest.mark.parametrize("coordinates", [1, 100, 10**6])
def test_the_grid_costs_a_thousandth_of_delta_at_every_epsilon(epsilon, coordinates):
    event = Gaussian(epsilon, 1e-9).noise(Sensitivity(coordinates, coordinates, coordinates)).event
    assert 0 < event.slack <= 1e-12


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_dp_accounting_says_the_same_of_continuous_noise(epsilon):
    from dp_accounting.pld import privacy_loss_distribution

    theirs = privacy_loss_distribution.from_gaussian_mechanism(2.0, value_discretization_interval=1e-4)
    assert theirs.get_delta_for_epsilon(epsilon) == pytest.approx(delta_of(2.0, epsilon), rel=1e-3)
