"""Every real draw follows the stated odds and no others."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest

from thebes.privacy import randomness
from thebes.privacy.mechanisms.exponential import draw, exponential, occurs
from thebes.privacy.promise import Adjacency
from thebes.testing.statistics import LEVEL, assert_odds, assert_rate, odds_p_value

UTILITIES = np.array([0, 3, 4, 6, 7])
DRAWS = 12_000


def softmax(rate: float) -> np.ndarray:
    return np.exp(rate * (UTILITIES - 7.0))


def counted(choose, draws: int = DRAWS) -> np.ndarray:
    return np.bincount([choose() for _ in range(draws)], minlength=5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("adjacency", "monotone", "spread"),
    [("replace-one", False, 2), ("add-remove-one", False, 2), ("add-remove-one", True, 1)],
)
def test_choices_follow_their_odds(adjacency, monotone, spread):
    source = randomness.seeded_for_simulation(1)
    counts = counted(
        lambda: (
            exponential(
                UTILITIES, sensitivity=2, epsilon=1.5, adjacency=adjacency, randomness=source, monotone=monotone
            ).value
        )
    )
    assert_odds(counts, lambda epsilon: softmax(epsilon / (2 * spread)), 1.5)


@pytest.mark.slow
def test_real_releases_follow_the_same_odds():
    source = randomness.system()
    counts = counted(
        lambda: exponential(UTILITIES, sensitivity=1, epsilon=1, adjacency="replace-one", randomness=source).value
    )
    assert_odds(counts, lambda epsilon: softmax(epsilon / 2), 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("rate", ["0.03", "0.4", "2"])
def test_sizes_and_strides_leave_the_odds_exact(rate):
    """Small rates put many shortfalls into one stride, where rejection decides."""
    source = randomness.seeded_for_simulation(4)
    shortfalls, sizes = np.array([0, 50, 7, 7, 90, 33, 1]), np.array([1, 40, 3, 2, 400, 5, 2])
    drawn = [draw(shortfalls, sizes, rate=Decimal(rate), randomness=source) for _ in range(10_000)]
    assert all(0 <= place < sizes[segment] for segment, place in drawn)
    counts = np.bincount([segment for segment, _ in drawn], minlength=7)
    weights = sizes * np.exp(-float(rate) * shortfalls)
    assert odds_p_value(counts, weights) > LEVEL
    places = np.bincount([place for segment, place in drawn if segment == 6], minlength=2)
    assert odds_p_value(places, [1, 1]) > LEVEL


def test_a_coin_of_exp_falls_as_often_as_stated():
    source = randomness.seeded_for_simulation(5)
    heads = sum(occurs(Decimal("1.2"), source) for _ in range(20_000))
    assert_rate(heads, 20_000, lambda x: math.exp(-x), 1.2)


class Scripted(randomness.Randomness):
    """Hands out the given words; what is asked beyond them is 0."""

    simulated = True

    def __init__(self, words: list[int]) -> None:
        self.left = list(words)

    def words(self, count):
        return np.array([self.left.pop(0) if self.left else 0 for _ in range(count)], dtype=np.uint64)

    def laplace(self, values, *, scale):
        raise NotImplementedError

    gaussian = laplace


def test_a_number_too_close_to_call_is_drawn_further():
    """The first 64 bits of exp(-1) leave the coin open; the next word decides, either way."""
    first = int(Decimal(-1).exp() * 2**64)
    high, low = Scripted([first, 2**64 - 1]), Scripted([first, 0])
    assert occurs(Decimal(1), high) is False
    assert occurs(Decimal(1), low) is True
    assert high.left == low.left == []


def test_a_large_utility_gap_costs_no_precision():
    source = randomness.seeded_for_simulation(6)
    found = exponential([0, 2**61], sensitivity=1, epsilon=1e6, adjacency="replace-one", randomness=source)
    assert found.value == 1
    assert Adjacency.REPLACE_ONE is found.adjacency
