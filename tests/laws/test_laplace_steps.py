"""Discrete Laplace noise is priced with its number of steps: never below exact sums over all outcomes, and hardly above
them where one number moves all the way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.privacy.accounting import distribution, renyi
from thebes.privacy.accounting.report import total
from thebes.privacy.events import LaplaceEvent, Repeated
from thebes.privacy.losses import ORDERS
from thebes.privacy.mechanisms.additive import Laplace
from thebes.privacy.mechanisms.local.additive import LocalLaplace
from thebes.privacy.promise import Adjacency
from thebes.privacy.stability import Sensitivity


def odds_of_losses(scale: float, distance: list[int], times: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Every loss of noise on numbers that differ by these steps, in units of 1 / scale, and its odds."""
    odds = np.ones(1)
    for steps in distance * times:
        k = np.arange(-math.ceil(45 * scale), math.ceil(45 * scale) + steps + 1)
        chance = np.exp(-np.abs(k) / scale)
        loss = np.abs(k - steps) - np.abs(k)
        one = np.bincount(loss + steps, weights=chance / chance.sum(), minlength=2 * steps + 1)
        odds = np.convolve(odds, one)
    return (np.arange(len(odds)) - len(odds) // 2) / scale, odds


def exact_delta(scale: float, distance: list[int], times: int, epsilon: float) -> float:
    losses, odds = odds_of_losses(scale, distance, times)
    return float(odds @ np.maximum(0, 1 - np.exp(np.minimum(epsilon - losses, 1))))


DISTANCES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@examples(25)
@given(st.floats(0.5, 8), DISTANCES, st.sampled_from([1, 3, 8]), st.floats(0, 5))
def test_a_price_is_never_below_the_exact_delta_however_many_numbers_share_the_distance(
    scale, distance, times, epsilon
):
    far = sum(distance)
    event = LaplaceEvent(math.nextafter(scale / far, 0), far)
    said = distribution.price(Repeated(event, times), adjacency="replace-one", interval=1e-3).delta_at(epsilon)
    assert said >= exact_delta(scale, distance, times, epsilon) * (1 - 1e-9) - 1e-15


@examples(20)
@given(st.floats(0.5, 8), DISTANCES)
def test_a_renyi_curve_is_never_below_the_exact_one(scale, distance):
    far, (losses, odds) = sum(distance), odds_of_losses(scale, distance)
    event = LaplaceEvent(math.nextafter(scale / far, 0), far)
    said = renyi.price(event, adjacency="replace-one").epsilons
    for order, epsilon in list(zip(ORDERS, said, strict=True))[::5]:
        if order < 60:
            exact = math.log(float(odds @ np.exp((order - 1) * losses))) / (order - 1)
            assert float(epsilon) >= exact * (1 - 1e-9) - 1e-12


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_price_of_one_number_is_hardly_above_the_exact_delta(steps):
    event = LaplaceEvent(2.0, steps)
    said = distribution.price(Repeated(event, 8), adjacency="replace-one", interval=1e-4)
    for epsilon in (0.5, 1.5, 3.0):
        assert said.delta_at(epsilon) == pytest.approx(exact_delta(2.0 * steps, [steps], 8, epsilon), rel=2e-3)


def test_fifty_reports_cost_what_is_due():
    event = LocalLaplace(0, 100, 0.5).event()
    said = total(Repeated(event, 50), adjacency="replace-one", delta=1e-6, unit="person")
    assert 18.7 < said.epsilon < 18.8
    few = LaplaceEvent(event.ratio, 1)
    assert total(Repeated(few, 50), adjacency="replace-one", delta=1e-6, unit="person").epsilon > 20.3


def test_dp_accounting_says_the_same_of_continuous_noise():
    from dp_accounting.pld import privacy_loss_distribution

    theirs = privacy_loss_distribution.from_laplace_mechanism(2.0, value_discretization_interval=1e-3)
    said = distribution.price(LaplaceEvent(2.0, 2**40), adjacency=Adjacency.ADD_REMOVE_ONE, interval=1e-3) * 50
    assert said.epsilon_at(1e-6) == pytest.approx(theirs.self_compose(50).get_epsilon_for_delta(1e-6), rel=1e-3)


def test_noise_on_many_counts_says_how_far_they_move():
    assert Laplace(1).noise(Sensitivity(2, 2, 1000)).event == LaplaceEvent(1.0, 2)
