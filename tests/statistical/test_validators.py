"""Validators by counting: the noise has its scale, and models that miss their target are accepted as seldom as said."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from thebes.curator.pipelines.adaptation import eta_of
from thebes.curator.pipelines.validators import BITS, Verdict, at_most, validate
from thebes.privacy import quality
from thebes.privacy.grid import Grid
from thebes.privacy.mechanisms.additive import Laplace
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import seeded_for_simulation, system
from thebes.privacy.stability import change_of
from thebes.privacy.transformations.moments import BernsteinSums
from thebes.testing.statistics import assert_scale, gaussian_cdf, laplace_cdf

ADD = Adjacency.ADD_REMOVE_ONE
ETA, ATTEMPTS, FIRST, TRIALS = 0.05, 12, 1000, 600
STEPS = 1 << BITS


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["mse", "accuracy"])
def test_both_cells_bear_noise_of_one_over_epsilon(metric: str) -> None:
    values = np.tile([0.0, 1.0], 40)
    found = [
        validate(metric, 0.5, values, epsilon=0.5, eta=0.05, change=ADD, randomness=system(), method=None)
        for _ in range(6000)
    ]
    told = [(one.value or 0.0, one.rows or 0.0) for one in found]
    # a cell cannot be read off where the mean was cut at 0 or 1: with 40 rows in each that does not happen
    one = np.array([value * rows - 40 for value, rows in told])
    other = np.array([(1 - value) * rows - 40 for value, rows in told])
    for noise in (one, other):
        assert_scale(noise, laplace_cdf, 1 / 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["mse", "accuracy"])
def test_both_cells_bear_gaussian_noise_of_a_rho(metric: str) -> None:
    values, rho = np.tile([0.0, 1.0], 40), Decimal("0.05")
    found = [
        validate(metric, 0.5, values, epsilon="0.3", rho=rho, eta=0.05, change=ADD, randomness=system())
        for _ in range(4000)
    ]
    assert {(one.epsilon, one.rho) for one in found} == {(None, rho)}
    told = [(one.value or 0.0, one.rows or 0.0) for one in found]
    one = np.array([value * rows - 40 for value, rows in told])
    other = np.array([(1 - value) * rows - 40 for value, rows in told])
    for noise in (one, other):
        assert_scale(noise, gaussian_cdf, 1 / np.sqrt(2 * 0.05))


def cells(rows: int, loss: float, epsilon: float, draw: np.random.Generator) -> tuple[Any, Any]:
    """Noise, and noisy (kept, lost) of as many trials, whose rows lose all or nothing: losses of the most spread.
    Seeded by `draw`: that the noise has its scale is told above, with real draws."""
    noise = Laplace(epsilon).noise(BernsteinSums(Grid(0.0, 1.0, BITS), 1).sensitivity(change_of(ADD)))
    lost = draw.binomial(rows, loss, TRIALS)
    source = seeded_for_simulation(int(draw.integers(2**32)))
    return noise, noise.add(np.stack([rows - lost, lost], axis=1) * STEPS, source) / STEPS


def wrongly_accepted(method: str, loss: float, epsilon: float, *, split: bool) -> float:
    """The share of trials in which one of twelve attempts, each with twice the rows, accepts a model whose true loss
    is just above the target."""
    draw, wrong = np.random.default_rng(0), np.zeros(TRIALS, dtype=bool)
    for attempt in range(1, ATTEMPTS + 1):
        noise, seen = cells(FIRST * 2 ** (attempt - 1), loss, epsilon, draw)
        eta = eta_of(attempt, ETA) if split else ETA
        wrong |= [at_most(row, noise, STEPS, eta, method=method) < loss for row in seen]
    return float(wrong.mean())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "loss", "epsilon"),
    [
        ("bernstein", 0.0025, 0.01),
        ("bernstein", 0.0025, 1.0),
        ("chernoff", 0.0025, 0.01),
        ("binomial", 0.22, 1.0),
        ("binomial", 0.0025, 0.01),
    ],
)
def test_over_all_attempts_fewer_than_eta_are_wrongly_accepted(method: str, loss: float, epsilon: float) -> None:
    assert wrongly_accepted(method, loss, epsilon, split=True) < ETA


@pytest.mark.slow
def test_without_the_split_more_than_eta_are_wrongly_accepted() -> None:
    assert wrongly_accepted("bernstein", 0.0025, 0.01, split=False) > 0.08
    assert wrongly_accepted("binomial", 0.22, 1.0, split=False) > 0.15


def test_without_the_correction_for_noise_more_than_eta_are_wrongly_accepted() -> None:
    draw, loss = np.random.default_rng(0), 0.005
    noise, seen = cells(5000, loss, 0.05, draw)
    uncorrected = [quality.bernstein(max(0.0, lost), kept, ETA) < loss for kept, lost in seen]
    corrected = [at_most(row, noise, STEPS, ETA, method="bernstein") < loss for row in seen]
    assert np.mean(uncorrected) > 0.15
    assert np.mean(corrected) < 0.02


def test_the_seeds_own_test_without_its_correction_errs_as_often() -> None:
    """Listing 2 as printed: the sum and the number of rows each noised with half of epsilon."""
    draw, loss, rows, scale = np.random.default_rng(0), 0.02, 5000, 2 / 0.05
    lost = draw.binomial(rows, loss, TRIALS) + draw.laplace(scale=scale, size=TRIALS)  # a paper's noise, not ours
    counted = rows + draw.laplace(scale=scale, size=TRIALS)
    far = np.log(1 / ETA)
    mean = np.maximum(lost, 0) / counted
    assert np.mean(mean + np.sqrt(2 * mean * far / counted) + 4 * far / counted < loss) > 0.15


def test_thirty_thousand_test_rows_accept_a_target_of_five_thousandths() -> None:
    draw, source = np.random.default_rng(0), seeded_for_simulation(0)
    accepted = 0
    for _ in range(100):
        losses = np.where(draw.random(30_000) < 0.0065, draw.uniform(0.05, 0.25, 30_000), 0.0017)
        found = validate("mse", 0.005, losses, epsilon=1, eta=ETA, change=ADD, randomness=source)
        accepted += found.verdict is Verdict.ACCEPT
    assert accepted >= 90
