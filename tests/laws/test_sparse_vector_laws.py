"""The exact odds of every answer of the sparse vector, on all small question lists and all their neighbours."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thebes.privacy import randomness
from thebes.privacy.mechanisms.sparse_vector import AboveThreshold, calibrate, difference_tail
from thebes.privacy.promise import Adjacency

REACH = np.arange(-400, 401)


def law(scale: float) -> np.ndarray:
    return math.tanh(1 / (2 * scale)) * np.exp(-np.abs(REACH) / scale)


def reaches(scale: float, at_least: np.ndarray) -> np.ndarray:
    """P(noise >= at_least) for discrete Laplace noise."""
    r = math.exp(-1 / scale)
    return np.where(
        at_least > 0, r ** np.maximum(at_least, 0) / (1 + r), 1 - r ** (1 - np.minimum(at_least, 1)) / (1 + r)
    )


def odds(counts: tuple[int, ...], threshold: int, scale: float) -> np.ndarray:
    """P(the first "yes" is at i), and at the end P(none)."""
    still, out = law(scale), []
    for count in counts:
        yes = reaches(scale, threshold + REACH - count)
        out.append(float((still * yes).sum()))
        still = still * (1 - yes)
    return np.array([*out, float(still.sum())])


def gate(epsilon: float, adjacency: str, *, monotone: bool, sensitivity: int = 1) -> AboveThreshold:
    return AboveThreshold(
        1, epsilon=epsilon, sensitivity=sensitivity, adjacency=adjacency, monotone=monotone,
        randomness=randomness.seeded_for_simulation(0),
    )  # fmt: skip


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("monotone", [False, True])
def test_no_neighbour_changes_the_odds_of_any_answer_by_more_than_epsilon(epsilon, monotone):
    scale, worst = gate(epsilon, "add-remove-one", monotone=monotone).scale, 0.0
    moves = [*product((0, 1), repeat=4)] if monotone else [*product((-1, 0, 1), repeat=4)]
    for counts in [(0, 0, 0, 2), (0, 1, 2, 3), (-9, -9, -9, 9), (5, 0, -5, 1), (1, 1, 1, 1)]:
        here = odds(counts, 1, scale)
        for move in moves:
            there = odds(tuple(c + m for c, m in zip(counts, move, strict=True)), 1, scale)
            worst = max(worst, float(np.abs(np.log(here / there)).max()))
    assert 0.5 * epsilon < worst <= epsilon + 1e-6


def test_the_halved_noise_of_monotone_counts_would_not_protect_others():
    scale = gate(4.0, "add-remove-one", monotone=True).scale
    here, there = odds((1,) * 12 + (1,), 1, scale), odds((2,) * 12 + (0,), 1, scale)
    assert float(np.abs(np.log(here / there)).max()) > 4.0


def test_the_noise_grows_with_sensitivity_and_with_the_moves_of_the_proof():
    assert gate(1, "replace-one", monotone=False).scale == 3
    assert gate(1, "add-remove-one", monotone=True).scale == 2
    assert gate(1, "replace-one", monotone=False, sensitivity=5).scale == 15


@given(st.floats(0.2, 12), st.integers(1, 80))
def test_the_tail_of_a_difference_agrees_with_the_sum_over_both_noises(scale, at_least):
    pmf = law(scale)
    tail = np.append(np.cumsum(pmf[::-1])[::-1], 0)  # P(X >= REACH[i])
    slow = sum(p * tail[min(max(at_least + y + 400, 0), 801)] for p, y in zip(pmf, REACH, strict=True))
    assert difference_tail(scale, at_least) == pytest.approx(slow, rel=1e-6, abs=1e-12)


@given(st.integers(50, 10**7), st.floats(0.01, 0.5), st.floats(1e-9, 0.2))
def test_calibration_is_the_least_that_keeps_beta(n, alpha, beta):
    found = calibrate(n=n, alpha=alpha, beta=beta)
    needed = math.floor(alpha * n) + 2 - found.threshold
    assert difference_tail(found.scale, needed) <= beta < difference_tail(found.scale * 1.001, needed)
    assert float(found.opening) >= 3 / found.scale


def test_calibration_approaches_the_continuous_closed_form():
    n, alpha, beta = 10**7, 0.05, 1e-3
    found, e = calibrate(n=n, alpha=alpha, beta=beta), 7.8
    assert (0.5 + e / 4) * math.exp(-e) == pytest.approx(beta, rel=0.02)
    assert float(found.opening) == pytest.approx(3 * 2 * e / (n * alpha), rel=0.01)
    assert float(found.direct) == pytest.approx(math.log(1 / beta) / (n * alpha), rel=0.001)


def test_adjacency_decides_whether_monotone_is_allowed():
    assert gate(1, "add-remove-one", monotone=True).adjacency is Adjacency.ADD_REMOVE_ONE
    with pytest.raises(ValueError, match="monotone"):
        gate(1, "replace-one", monotone=True)
