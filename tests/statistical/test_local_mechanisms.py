"""Local mechanisms as they draw: their coins, their estimates and their errors; epsilons 30 % off are rejected."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from thebes.privacy.mechanisms.local import (
    AsymmetricUnaryEncoding,
    HadamardResponse,
    Hybrid,
    LocalGaussian,
    LocalLaplace,
    Piecewise,
    RandomizedResponse,
    SubsetSelection,
    SymmetricUnaryEncoding,
    TwoPoint,
)
from thebes.privacy.mechanisms.local.subset import SubsetSelection as _Subset
from thebes.privacy.randomness import seeded_for_simulation, system
from thebes.testing.statistics import LEVEL, assert_rate, assert_scale, gaussian_cdf, laplace_cdf

CATEGORICAL = [RandomizedResponse, SymmetricUnaryEncoding, AsymmetricUnaryEncoding, SubsetSelection, HadamardResponse]
NUMERIC = [LocalLaplace, LocalGaussian, TwoPoint, Piecewise, Hybrid]
SOURCES = {"system": system, "seeded": lambda: seeded_for_simulation(20)}
SIX_SIGMA = 6.2  # both sides together: p below 1e-9

each_source = pytest.mark.parametrize("source", SOURCES)


def number(kind, low=-1.0, high=3.0, epsilon=1.0):
    return kind(low, high, epsilon, "1e-6") if kind is LocalGaussian else kind(low, high, epsilon)


@each_source
@pytest.mark.parametrize("kind", CATEGORICAL)
def test_the_true_category_is_supported_as_often_as_epsilon_says(kind, source):
    mechanism, n = kind(4, 1.5), 400_000
    reports = mechanism.perturb(np.full(n, 2), SOURCES[source]())
    supported = int(mechanism._support(reports)[2])
    if isinstance(mechanism, AsymmetricUnaryEncoding):  # p hardly depends on epsilon, q does
        strays = int(mechanism._support(reports).sum()) - supported
        assert_rate(strays, 3 * n, lambda e: float(kind(4, e).stray), 1.5)
        assert stats.binomtest(supported, n, float(mechanism.hold)).pvalue > LEVEL
    else:
        assert_rate(supported, n, lambda e: float(_like(mechanism, e).hold), 1.5)


def _like(mechanism, epsilon):
    other = type(mechanism)(mechanism.size, epsilon)
    if isinstance(mechanism, _Subset):
        assert other.members == mechanism.members
    return other


@each_source
def test_approximate_response_tells_the_truth_as_often_as_the_paper_says(source):
    n, size, delta = 300_000, 5, 0.05
    mechanism = RandomizedResponse(size, 1, delta)
    reports = mechanism.perturb(np.full(n, 3), SOURCES[source]())

    def truth(e: float) -> float:
        return (math.exp(e) + delta * (size - 1)) / (size + math.exp(e) - 1)

    assert_rate(int((reports == 3).sum()), n, truth, 1.0)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", CATEGORICAL)
def test_every_report_is_as_frequent_as_its_exact_likelihood(kind, source):
    mechanism, n = kind(5, 1), 200_000
    for category in (0, 3):
        reports = mechanism.perturb(np.full(n, category), SOURCES[source]())
        if reports.ndim == 2:
            observed = np.bincount(reports.astype(np.int64) @ (1 << np.arange(5)), minlength=32)
        else:
            observed = np.bincount(reports, minlength=8)
        expected = np.array([_likelihood(mechanism, y, category) for y in range(observed.size)]) * n
        assert (observed[expected == 0] == 0).all()
        there = expected > 0
        assert stats.chisquare(observed[there], expected[there], sum_check=False).pvalue > LEVEL


def _likelihood(mechanism, report: int, category: int) -> float:
    """P(report | category) written down once more, from the textbook and the declared epsilon alone."""
    size, growth = mechanism.size, math.exp(float(mechanism.epsilon))
    bits = [(report >> i) & 1 for i in range(size)]
    if isinstance(mechanism, RandomizedResponse):
        return 0.0 if report >= size else (growth if report == category else 1.0) / (growth + size - 1)
    if isinstance(mechanism, SubsetSelection):
        w = mechanism.members
        if sum(bits) != w:
            return 0.0
        weight = math.comb(size - 1, w - 1) * growth + math.comb(size - 1, w)
        return (growth if bits[category] else 1.0) / weight
    if isinstance(mechanism, HadamardResponse):
        plus = bin(report & (category + 1)).count("1") % 2 == 0
        return (growth if plus else 1.0) / (1 + growth) / 4
    p = float(mechanism.hold)
    q = p / (p + growth * (1 - p))
    return math.prod((p if i == category else q) if b else 1 - (p if i == category else q) for i, b in enumerate(bits))


def test_subsets_of_a_larger_size_are_uniform():
    mechanism = SubsetSelection(7, 0.2)
    assert mechanism.members == 3
    reports = mechanism.perturb(np.full(350_000, 6), seeded_for_simulation(4))
    observed = np.bincount(reports.astype(np.int64) @ (1 << np.arange(7)), minlength=128)
    for holds in (0, 1):
        sets = [s for s in itertools.combinations(range(7), 3) if (6 in s) == bool(holds)]
        counts = [observed[sum(1 << i for i in s)] for s in sets]
        assert stats.chisquare(counts).pvalue > LEVEL


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("kind", CATEGORICAL)
def test_estimates_are_unbiased_and_err_as_theorem_2_says(kind, epsilon):
    size, people, times = 16, 40, 12_000
    mechanism = kind(size, epsilon)
    values = np.tile(np.minimum(np.arange(people) // 2, size - 1), times)
    reports = mechanism.perturb(values, seeded_for_simulation(7))
    truth = np.bincount(values[:people], minlength=size) / people
    found = np.stack([mechanism.estimate(part).value for part in np.split(reports, times)])
    squares = ((found - truth) ** 2).sum(axis=1)
    assert squares.mean() == pytest.approx(mechanism.expected_error(people), rel=0.02)
    z = (found.mean(axis=0) - truth) / (found.std(axis=0) / math.sqrt(times))
    assert np.abs(z).max() < SIX_SIGMA
    for category in (0, size - 1):
        expected = mechanism.variance(people, truth[category])
        assert found[:, category].var() == pytest.approx(expected, rel=0.1)


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", CATEGORICAL)
def test_intervals_of_frequencies_hold_as_often_as_they_say(kind):
    size, people, times = 6, 600, 1500
    mechanism = kind(size, 1)
    values = np.tile(np.repeat(np.arange(size), [300, 200, 70, 29, 1, 0]), times)
    truth = np.bincount(values[:people], minlength=size) / people
    reports = mechanism.perturb(values, seeded_for_simulation(8))
    hits = np.zeros(size)
    for part in np.split(reports, times):
        interval = mechanism.estimate(part).interval(0.95)
        hits += (interval.low <= truth) & (truth <= interval.high)
    assert hits.min() / times > 0.93
    assert hits.max() / times < 0.985


@pytest.mark.few(1)
@each_source
@pytest.mark.parametrize(("kind", "cdf"), [(LocalLaplace, laplace_cdf), (LocalGaussian, gaussian_cdf)])
def test_added_noise_has_the_scale_that_epsilon_asks_for(kind, cdf, source):
    mechanism = number(kind)
    noise = mechanism.decode(mechanism.perturb(np.full(40_000, 0.5), SOURCES[source]())) - 0.5
    scale = 4.0 if kind is LocalLaplace else 4.0 * mechanism.ratio
    assert_scale(noise, cdf, scale)


@each_source
@pytest.mark.parametrize("value", [-1.0, 2.0])
def test_two_points_are_tossed_as_epsilon_says(source, value):
    mechanism, n = TwoPoint(-1, 3, 1), 200_000
    ones = int(mechanism.perturb(np.full(n, value), SOURCES[source]()).sum())

    def rate(e: float) -> float:
        rare = 1 / (1 + math.exp(e))
        return rare + (value + 1) / 4 * (1 - 2 * rare)

    assert_rate(ones, n, rate, 1.0)


@each_source
def test_piecewise_reports_fall_into_the_window_as_often_as_epsilon_says(source):
    mechanism, n = Piecewise(0, 1, 2), 200_000
    start = 2**40 // 4
    reports = mechanism.perturb(np.full(n, 0.25), SOURCES[source]())
    inside = (reports >= start) & (reports < start + mechanism.width)

    def rate(e: float) -> float:
        odds = math.exp(e) * mechanism.width / 2**40
        return odds / (1 + odds)

    assert_rate(int(inside.sum()), n, rate, 2.0)
    # Inside and outside, every number is equally likely.
    within = (reports[inside] - start) / mechanism.width
    assert stats.kstest(within, "uniform").pvalue > LEVEL
    out = reports[~inside]
    assert stats.kstest((out - mechanism.width * (out >= start)) / 2**40, "uniform").pvalue > LEVEL


def test_the_mixture_draws_each_part_as_often_as_it_says():
    mechanism, n = Hybrid(0, 1, 1), 200_000
    reports = mechanism.perturb(np.full(n, 1.0), system())
    flat = int((reports <= mechanism.piecewise.most).sum())
    assert stats.binomtest(flat, n, float(mechanism.mix.probability)).pvalue > LEVEL
    ones = int((reports == mechanism.most).sum())
    assert_rate(ones, n - flat, lambda e: 1 / (1 + math.exp(-e)), 1.0)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("kind", NUMERIC)
def test_means_are_unbiased_and_err_as_stated_for_every_value(kind, epsilon):
    mechanism, n = number(kind, epsilon=epsilon), 200_000
    for value in (-1.0, 0.3, 1.0, 3.0):
        decoded = mechanism.decode(mechanism.perturb(np.full(n, value), seeded_for_simulation(9)))
        expected = mechanism.variance(1, value)
        assert abs(decoded.mean() - value) < SIX_SIGMA * math.sqrt(expected / n) + mechanism.grid.step
        assert decoded.var() == pytest.approx(expected, rel=0.03)
        assert expected <= mechanism.expected_error(1) * (1 + 1e-9)


def test_values_beyond_the_bounds_count_as_the_bounds():
    for kind in NUMERIC:
        mechanism = number(kind, epsilon=8)
        decoded = mechanism.decode(mechanism.perturb(np.full(50_000, 1e9), system()))
        assert abs(decoded.mean() - 3.0) < SIX_SIGMA * math.sqrt(mechanism.variance(50_000))


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", NUMERIC)
def test_intervals_of_means_hold_at_least_as_often_as_they_say(kind):
    people, times = 300, 2000
    mechanism = number(kind, epsilon=2)
    values = np.tile(np.linspace(-1, 1.4, people), times)
    reports = mechanism.perturb(values, seeded_for_simulation(10))
    hits = 0
    for part in np.split(reports, times):
        interval = mechanism.estimate(part).interval(0.95)
        hits += bool(interval.low <= 0.2 <= interval.high)
    assert 0.93 < hits / times < 0.99


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", NUMERIC)
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_intervals_hold_where_everybody_is_at_an_end_and_few_reports_go_far(kind, share):
    """Read off the scatter alone, 90 of 100 held: with no far report, mean and scatter are both too small."""
    people, times = 400, 2000
    mechanism = number(kind, epsilon=8)
    low, high = mechanism.grid.low, mechanism.grid.high
    values = np.where(np.arange(people) < share * people, high, low)
    reports = mechanism.perturb(np.tile(values, times), seeded_for_simulation(12))
    hits = 0
    for part in np.split(reports, times):
        interval = mechanism.estimate(part).interval(0.95)
        hits += bool(interval.low <= values.mean() <= interval.high)
    assert stats.binomtest(hits, times, 0.95, alternative="less").pvalue > 1e-6
