"""PrivUnit as it draws: the law of its reports, its moments, its errors; epsilons 30 % off are rejected."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from thebes.privacy.mechanisms.local import PrivUnit
from thebes.privacy.mechanisms.local.privunit import STEPS, normals, uniforms
from thebes.privacy.randomness import seeded_for_simulation, system
from thebes.testing.statistics import LEVEL, assert_rate, assert_scale

SOURCES = {"system": system, "seeded": lambda: seeded_for_simulation(30)}
SIX_SIGMA = 6.4  # some hundreds of figures together: p below 1e-7 in one seeded run

each_source = pytest.mark.parametrize("source", SOURCES)


def full_length(dimension: int) -> np.ndarray:
    """A row on the sphere, so that its lifted direction is known: nothing is left for the extra coordinate."""
    row = np.linspace(1, 2, dimension) * np.where(np.arange(dimension) % 2, -1, 1)
    return row / np.linalg.norm(row)


def heights(mechanism: PrivUnit, row: np.ndarray, n: int, source: str) -> np.ndarray:
    reports = mechanism.perturb(np.tile(row, (n, 1)), SOURCES[source]())
    return mechanism.directions(reports)[:, :-1] @ row


@pytest.mark.few(1)
@each_source
@pytest.mark.parametrize("dimension", [1, 2, 9])
def test_the_height_over_the_own_direction_follows_its_exact_law(source, dimension):
    n = 100_000
    found = heights(PrivUnit(dimension, 3), full_length(dimension), n, source)

    def law(epsilon: float):
        mechanism = PrivUnit(dimension, epsilon)
        hold, cap, a = float(mechanism.coin.probability), mechanism.cap, dimension / 2

        def cdf(t):
            below = stats.beta.cdf((1 + np.asarray(t)) / 2, a, a)
            low = np.minimum(below, 1 - cap.mass) * (1 - hold) / (1 - cap.mass)
            return low + np.maximum(below - (1 - cap.mass), 0) * hold / cap.mass

        return cdf

    assert_scale(found, law, 3.0)


@pytest.mark.few(1)
@each_source
def test_the_cap_is_hit_as_often_as_epsilon_says(source):
    mechanism, n = PrivUnit(6, 2), 200_000
    found = heights(mechanism, full_length(6), n, source)

    def rate(epsilon: float) -> float:
        odds = math.exp(epsilon) * mechanism.cap.mass / (1 - mechanism.cap.mass)
        return odds / (1 + odds)

    assert_rate(int((found >= mechanism.cap.height).sum()), n, rate, 2.0)


@pytest.mark.few(1)
@pytest.mark.parametrize("row", [full_length(3), np.array([1.0, 0, 0]), np.array([-1.0, 0, 0]), np.array([0, 0, -1.0])])
def test_directions_around_the_own_one_are_uniform(row):
    mechanism = PrivUnit(3, 2)
    v = mechanism.directions(mechanism.perturb(np.tile(row, (60_000, 1)), seeded_for_simulation(3)))
    own = np.append(row, 0.0)
    rest = v - np.outer(v @ own, own)
    rest /= np.linalg.norm(rest, axis=1, keepdims=True)
    basis = np.linalg.svd(own[None, :])[2][1:]  # three axes across the own direction
    across = rest @ basis.T
    for axis in range(3):  # a coordinate of a uniform direction in three dimensions is uniform
        assert stats.kstest((across[:, axis] + 1) / 2, "uniform").pvalue > LEVEL
    angle = np.arctan2(across[:, 1], across[:, 0]) / (2 * math.pi) + 0.5
    assert stats.kstest(angle, "uniform").pvalue > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_no_set_of_reports_is_more_than_e_to_epsilon_likelier_for_another_row(epsilon):
    # In two dimensions a report is a point of a square's edge, so that its angle says everything.
    mechanism, n, bins = PrivUnit(1, epsilon), 120_000, 24
    counts = []
    for seed, value in enumerate((1.0, -1.0)):
        reports = mechanism.perturb(np.full((n, 1), value), seeded_for_simulation(seed))
        angle = np.arctan2(reports[:, 1], reports[:, 0]).astype(np.float64)
        counts.append(np.histogram(angle, bins=bins, range=(-math.pi, math.pi))[0])
    first, second = (c.astype(np.float64) for c in counts)
    error = np.sqrt(1 / first + 1 / second)
    ratio = np.abs(np.log(first / second))
    assert (ratio < epsilon + SIX_SIGMA * error).all()
    assert ratio.max() > epsilon - SIX_SIGMA * error.max()  # and the bound is reached: nothing is wasted


@pytest.mark.few(1)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(("dimension", "epsilon", "aim"), [(1, 1, "mean"), (4, 2, "mean"), (8, 8, "second-moment")])
def test_both_moments_are_unbiased(source, dimension, epsilon, aim):
    n = 200_000
    mechanism = PrivUnit(dimension, epsilon, radius=3.0, aim=aim)
    rows = np.outer(np.linspace(0.1, 1, n), full_length(dimension)) * 3
    rows[::3] *= -0.4
    reports = mechanism.perturb(rows, SOURCES[source]())
    mean, second = mechanism.estimate(reports), mechanism.second_moment(reports)
    assert (np.abs(mean.value - rows.mean(axis=0)) < SIX_SIGMA * mean.standard_error).all()
    assert (np.abs(second.value - rows.T @ rows / n) < SIX_SIGMA * second.standard_error).all()
    assert (second.value == second.value.T).all()
    # The errors are small enough to mean something: a constant 30 % off would be noticed.
    assert 0.3 * np.abs(mean.value).max() > SIX_SIGMA * mean.standard_error.max()
    assert 0.3 * np.abs(second.value).max() > SIX_SIGMA * second.standard_error.max()


@pytest.mark.few(1)
@pytest.mark.parametrize(("dimension", "epsilon"), [(2, 1), (10, 8), (5, 30)])
def test_one_report_averages_to_the_stated_constants(dimension, epsilon):
    mechanism, n, row = PrivUnit(dimension, epsilon), 400_000, full_length(dimension)
    found = heights(mechanism, row, n, "seeded")
    for power, expected in ((1, mechanism.m), (2, mechanism.s)):
        moment = found**power
        assert abs(moment.mean() - expected) < SIX_SIGMA * moment.std() / math.sqrt(n) + 1e-6


@pytest.mark.few(1)
@pytest.mark.parametrize(("dimension", "epsilon"), [(1, 2), (6, 1), (10, 8), (3, 20)])
def test_the_error_is_what_was_expected_at_the_worst_row(dimension, epsilon):
    mechanism, n = PrivUnit(dimension, epsilon, radius=2.0), 200_000
    squares = []
    for length in (0.0, 2.0):
        row = full_length(dimension) * length
        decoded = mechanism.decode(mechanism.perturb(np.tile(row, (n, 1)), seeded_for_simulation(4)))
        squares.append(((decoded - row) ** 2).sum(axis=1))
    worst = max(squares, key=np.mean)
    # 2 %, or what chance allows where the error comes from rare draws outside the cap.
    tolerance = max(0.02 * worst.mean(), SIX_SIGMA * worst.std() / math.sqrt(n))
    assert abs(worst.mean() - mechanism.expected_error(1)) < tolerance


def test_longer_rows_count_as_rows_of_the_radius():
    mechanism, n = PrivUnit(3, 6, radius=0.5), 100_000
    reports = mechanism.perturb(np.tile(full_length(3) * 1e6, (n, 1)), system())
    estimate = mechanism.estimate(reports)
    assert (np.abs(estimate.value - full_length(3) / 2) < SIX_SIGMA * estimate.standard_error).all()


@pytest.mark.slow
def test_neighbouring_rows_reach_the_same_reports():
    # Two dimensions, 8 * 4096 possible reports: nothing is reached from one row only, up to what chance leaves out.
    mechanism, n = PrivUnit(1, 1), 400_000
    reached = []
    for seed, value in enumerate((0.3, math.nextafter(0.3, 1))):
        reports = mechanism.perturb(np.full((n, 1), value), seeded_for_simulation(seed)).astype(np.int64)
        reached.append(set((reports[:, 0] * 2 * (STEPS + 1) + reports[:, 1]).tolist()))
    assert max(map(len, reached)) <= 8 * STEPS
    assert len(reached[0] & reached[1]) > 0.995 * 8 * STEPS


@each_source
def test_uniform_and_normal_numbers_are_what_their_names_say(source):
    randomness = SOURCES[source]()
    assert stats.kstest(uniforms(randomness, 100_000), "uniform").pvalue > LEVEL
    assert stats.kstest(normals(randomness, 100_000), "norm").pvalue > LEVEL


@pytest.mark.slow
def test_intervals_hold_at_least_as_often_as_they_say():
    mechanism, people, times = PrivUnit(3, 4), 400, 1000
    row = full_length(3) * 0.6
    reports = mechanism.perturb(np.tile(row, (people * times, 1)), seeded_for_simulation(6))
    hits = np.zeros(3)
    for part in np.split(reports, times):
        interval = mechanism.estimate(part).interval(0.95)
        hits += (interval.low <= row) & (row <= interval.high)
    assert hits.min() / times > 0.92
    assert hits.max() / times < 0.985
