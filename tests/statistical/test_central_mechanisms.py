"""Counts, sums, means, variances and histograms: the scale under each adjacency, coverage, support, nobody there."""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from tests.support.opendp_noise import OpenDP
from thebes.privacy.events import ApproximateEvent, GaussianEvent, LaplaceEvent
from thebes.privacy.mechanisms.additive import Laplace
from thebes.privacy.mechanisms.count import count
from thebes.privacy.mechanisms.histogram import (
    Threshold,
    by_key,
    histogram,
    histogram_of_unknown_keys,
    not_negative,
    on_simplex,
)
from thebes.privacy.mechanisms.mean import mean, share_between
from thebes.privacy.mechanisms.sum import sum_
from thebes.privacy.mechanisms.variance import variance
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import seeded_for_simulation, system
from thebes.privacy.stability import Change, Sensitivity
from thebes.testing.statistics import LEVEL, assert_scale, gaussian_cdf, laplace_cdf

RUNS = 5_200  #: `assert_scale` refuses to judge where odds above 1e-6 let a scale pass that is 30 % off
SEED = 20
VALUES = np.clip(np.random.default_rng(1).normal(30, 9, 400), 0, 90)
BOUNDS = (0.0, 90.0)
ADD, REPLACE = "add-remove-one", "replace-one"
POPULATIONS = {"add-remove": (ADD, None), "replace": (REPLACE, None), "replace, n public": (REPLACE, VALUES.size)}


def repeated(mechanism, runs=RUNS, randomness=None):
    """Outcomes with one repeatable stream: few enough to be quick, and nothing flakes."""
    source = randomness or seeded_for_simulation(SEED)
    return [mechanism(source) for _ in range(runs)]


def smeared(noise):
    """Whole-number noise made continuous, to be compared with a continuous law at scales well above 1."""
    return np.asarray(noise) + np.random.default_rng(0).uniform(-0.5, 0.5, len(noise))


# --- the scale that is drawn ----------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_counts_have_noise_of_scale_one_over_epsilon(adjacency):
    marks = VALUES > 30
    results = repeated(lambda r: count(marks, epsilon="0.02", adjacency=adjacency, randomness=r).value)
    assert_scale(smeared(np.array(results) - marks.sum()), laplace_cdf, 50.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("population", "scale"), [("add-remove", 90.0), ("replace", 90.0), ("replace, n public", 60.0)]
)
def test_sums_have_noise_of_the_scale_that_bounds_and_adjacency_ask_for(population, scale):
    adjacency, n = POPULATIONS[population]
    values = np.clip(VALUES, 30, 90)
    results = repeated(lambda r: sum_(values, bounds=(30, 90), epsilon=1, adjacency=adjacency, n=n, randomness=r).value)
    assert_scale(np.array(results) - values.sum(), laplace_cdf, scale)


@pytest.mark.slow
def test_means_with_public_n_have_noise_of_scale_range_over_n_epsilon():
    results = repeated(
        lambda r: mean(VALUES, bounds=BOUNDS, epsilon=1, adjacency=REPLACE, n=VALUES.size, randomness=r).value
    )
    assert_scale(np.array(results) - VALUES.mean(), laplace_cdf, 90 / VALUES.size)


@pytest.mark.slow
@pytest.mark.parametrize(("population", "scale"), [("add-remove", 1.0), ("replace", 2.0)])
def test_means_with_private_n_have_two_noises_of_the_scale_that_adjacency_asks_for(population, scale):
    adjacency, n = POPULATIONS[population]
    values = np.tile(VALUES, 10)
    share = values.mean() / 90
    results = repeated(lambda r: mean(values, bounds=BOUNDS, epsilon=1, adjacency=adjacency, n=n, randomness=r).value)

    def cdf_at(b):
        p, q = 1 - share, share

        def cdf(x):  # of p a - q b for independent Laplace noise of scale b
            far = np.abs(x) / b
            tail = (p**2 * np.exp(-far / p) - q**2 * np.exp(-far / q)) / (p**2 - q**2) / 2
            return np.where(np.asarray(x) < 0, tail, 1 - tail)

        return cdf

    # To first order the error is ((1-s) a - s b) range / n.
    assert_scale((np.array(results) - values.mean()) * values.size / 90, cdf_at, scale)


@pytest.mark.slow
@pytest.mark.parametrize(("population", "scale"), [("add-remove", 1.0), ("replace", 2.0), ("replace, n public", 3.125)])
def test_variances_have_noise_of_the_scale_that_adjacency_asks_for(population, scale):
    """By its linearisation over many rows; the sum of its Laplace parts is simulated with numpy, scale by scale."""
    adjacency, n = POPULATIONS[population]
    values = np.tile(VALUES, 20)
    size, first, second = values.size, (values / 90).mean(), ((values / 90) ** 2).mean()
    results = repeated(
        lambda r: (
            variance(
                values, bounds=BOUNDS, epsilon=1, adjacency=adjacency, n=None if n is None else size, randomness=r
            ).value
        ),
    )
    noise = (np.array(results) / 90**2 - values.var() / 90**2) * size
    if n is None:  # cells b0, b1, b2 -> d(second - first^2)
        weights = np.array(
            [2 * first**2 - second, 2 * first**2 - second - first, 1 - second - 2 * first + 2 * first**2]
        )
    else:  # sums of u and 2 u^2 -> t = (1+u)/2
        weights = np.array([0.5 - first, 0.125])
    reference = np.random.default_rng(5).laplace(size=(400_000, weights.size)) @ weights
    ordered = np.sort(reference)
    assert_scale(noise, lambda b: lambda x: np.searchsorted(ordered, np.asarray(x) / b) / ordered.size, scale)


@pytest.mark.parametrize(("adjacency", "scale"), [(ADD, 20.0), (REPLACE, 40.0)])
def test_histograms_have_noise_of_the_scale_that_adjacency_asks_for(adjacency, scale):
    keys = list(range(16_000))
    rows = np.arange(16_000).repeat(2)
    measured = histogram(rows, keys=keys, epsilon="0.05", adjacency=adjacency, randomness=system())
    assert_scale(smeared(measured.value - 2), laplace_cdf, scale)


@pytest.mark.parametrize(("adjacency", "factor"), [(ADD, 1.0), (REPLACE, math.sqrt(2))])
def test_histograms_with_delta_have_gaussian_noise_where_it_is_less(adjacency, factor):
    keys = list(range(8_000))
    rows = np.arange(8_000)
    measured = histogram(rows, keys=keys, epsilon="0.01", delta="0.05", adjacency=adjacency, randomness=system())
    assert isinstance(measured.event, GaussianEvent)
    assert_scale(measured.value - 1, gaussian_cdf, measured.event.ratio * factor)


@pytest.mark.slow
@pytest.mark.parametrize(("adjacency", "scale"), [(ADD, 5.0), (REPLACE, 10.0)])
def test_thresholded_histograms_have_noise_of_the_scale_that_adjacency_asks_for(adjacency, scale):
    rows = np.repeat([f"key {i:03}" for i in range(800)], 450)
    parts = [
        histogram_of_unknown_keys(rows, epsilon="0.2", delta=1e-6, adjacency=adjacency, randomness=system())
        for _ in range(20)
    ]
    assert all(part.value.size == 800 for part in parts)
    assert_scale(smeared(np.concatenate([part.value for part in parts]) - 450), laplace_cdf, scale)


@pytest.mark.slow
def test_gaussian_counts_have_noise_of_the_ratio_that_is_priced():
    marks = VALUES > 30
    measured = repeated(lambda r: count(marks, epsilon="0.01", delta="0.1", adjacency=ADD, randomness=r), 4_000)
    noise = np.array([m.value for m in measured]) - marks.sum()
    assert isinstance(measured[0].event, GaussianEvent)
    assert_scale(noise, gaussian_cdf, measured[0].event.ratio)


# --- intervals ------------------------------------------------------------------------------------------


def assert_covers(hits, runs, level):
    assert hits >= binom.ppf(LEVEL, runs, level), f"{hits} of {runs} at level {level}"


MEASURES = {
    "count": (
        lambda v, n, a, d, r: count(v > 30, epsilon=0.5, delta=d, adjacency=a, randomness=r),
        lambda v: (v > 30).sum(),
    ),
    "sum": (lambda v, n, a, d, r: sum_(v, bounds=BOUNDS, epsilon=1, delta=d, adjacency=a, n=n, randomness=r), np.sum),
    "mean": (lambda v, n, a, d, r: mean(v, bounds=BOUNDS, epsilon=1, delta=d, adjacency=a, n=n, randomness=r), np.mean),
    "variance": (
        lambda v, n, a, d, r: variance(v, bounds=BOUNDS, epsilon=1, delta=d, adjacency=a, n=n, randomness=r),
        np.var,
    ),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("rows", [1, 5, 400])
@pytest.mark.parametrize("delta", [0, 0.2])
def test_intervals_hold_the_answer_as_often_as_they_say(measure, population, rows, delta):
    run, truth_of = MEASURES[measure]
    adjacency, n = POPULATIONS[population]
    values = VALUES[:rows]
    truth = truth_of(values)
    step = 1e-4 * rows  # rounding of every row to the grid
    runs = 120
    measured = repeated(lambda r: run(values, None if n is None else rows, adjacency, delta, r), runs)
    for level in (0.5, 0.9):
        intervals = [m.interval(level) for m in measured]
        assert_covers(sum(i.low - step <= truth <= i.high + step for i in intervals), runs, level)
    for m in measured[:30]:
        wide, narrow = m.interval(0.99), m.interval(0.8)
        assert narrow.low <= m.value <= narrow.high
        if (narrow.low, narrow.high) not in ((0, 90), (0, 2025)):  # else no answer fits such noise at this level
            assert wide.low <= narrow.low
            assert wide.high >= narrow.high


@pytest.mark.parametrize("edge", [0.0, 90.0])
def test_mean_intervals_hold_at_the_edge_of_the_bounds_where_the_quotient_is_least_regular(edge):
    values = np.full(5, edge)
    measured = repeated(lambda r: mean(values, bounds=BOUNDS, epsilon=1, adjacency=ADD, randomness=r), 800)
    assert_covers(sum(m.interval(0.9).low <= edge <= m.interval(0.9).high for m in measured), 800, 0.9)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.1, 0.35, 0.4999, 0.5, 0.8])
def test_the_quotient_interval_is_neither_too_short_nor_much_too_long(share):
    """Against numpy's own noise: with many rows the coverage is the level itself."""
    noise = Laplace(1).noise(Sensitivity(2**20, 2**40, 2))
    draws = np.random.default_rng(3).laplace(scale=noise.scale, size=(1_500, 2))
    tokens = 2**20 * 1_000
    hits = 0
    for a, b in draws:
        first, last = share_between((1 - share) * tokens + b, share * tokens + a, noise=noise, level=0.8)
        hits += first <= share <= last
    assert_covers(hits, 1_500, 0.8)
    assert hits <= binom.ppf(1 - LEVEL, 1_500, 0.8 if 0 < share < 1 else 0.91)


def test_a_quotient_without_a_positive_count_may_be_anything():
    noise = Laplace(1).noise(Sensitivity(2**20, 2**40, 2))
    assert share_between(-5.0, 3.0, noise=noise, level=0.9) == (0.0, 1.0)


@pytest.mark.few(1)
@pytest.mark.parametrize("values", [np.full(60, 10.0), np.tile([0.0, 90.0], 30), np.zeros(60), np.full(60, 90.0)])
@pytest.mark.parametrize("population", POPULATIONS)
def test_variance_intervals_hold_for_columns_at_the_ends_of_what_is_possible(values, population):
    adjacency, n = POPULATIONS[population]
    n = None if n is None else values.size
    measured = repeated(
        lambda r: variance(values, bounds=BOUNDS, epsilon=3, adjacency=adjacency, n=n, randomness=r), 150
    )
    hits = sum(m.interval(0.9).low - 1e-9 <= values.var() <= m.interval(0.9).high + 1e-9 for m in measured)
    assert_covers(hits, 150, 0.9)


def test_variance_intervals_become_short_with_many_rows():
    values = np.tile(VALUES, 500)
    for adjacency, n in ((ADD, None), (REPLACE, values.size)):
        (measured,) = repeated(
            lambda r, a=adjacency, n=n: variance(values, bounds=BOUNDS, epsilon=1, adjacency=a, n=n, randomness=r), 1
        )
        interval = measured.interval(1 - LEVEL)
        assert interval.low <= values.var() <= interval.high
        interval = measured.interval()
        assert interval.high - interval.low < 0.5


@pytest.mark.parametrize("delta", [0, 0.2])
def test_histogram_intervals_hold_for_each_key(delta):
    keys = list(range(4_000))
    measured = histogram(np.arange(4_000), keys=keys, epsilon="0.1", delta=delta, adjacency=ADD, randomness=system())
    interval = measured.interval(0.9)
    assert_covers(int(((interval.low <= 1) & (interval.high >= 1)).sum()), 4_000, 0.9)


def test_shown_keys_miss_their_interval_no_more_often_than_stated():
    rows = np.repeat([f"{i:04}" for i in range(2_000)], 25)
    measured = histogram_of_unknown_keys(rows, epsilon=1, delta=1e-6, adjacency=REPLACE, randomness=system())
    interval = measured.interval(0.9)
    missed = int(((interval.low > 25) | (interval.high < 25)).sum())
    assert 0 < measured.value.size < 2_000
    assert missed <= binom.ppf(1 - LEVEL, 2_000, 0.1)


# --- what an outcome can be -----------------------------------------------------------------------------


@pytest.mark.parametrize("population", POPULATIONS)
def test_sums_of_neighbours_lie_on_the_same_grid(population):
    adjacency, n = POPULATIONS[population]
    one, other = VALUES, np.append(VALUES[:-1], 89.99999)
    steps = [
        np.array(
            repeated(
                lambda r, v=v: sum_(v, bounds=BOUNDS, epsilon=1, adjacency=adjacency, n=n, randomness=r).value, 200
            )
        )
        / (180 / 2**20)
        for v in (one, other)
    ]
    for s in steps:
        np.testing.assert_allclose(s, np.rint(s), atol=1e-6)


@pytest.mark.slow
def test_small_noise_on_neighbouring_counts_reaches_the_same_set_of_outcomes():
    """Every outcome seen in one world is seen in the other: nothing is ruled out by one row."""
    marks = np.array([True, True, False])
    outcomes = [
        set(repeated(lambda r, m=m: count(m, epsilon=2, adjacency=ADD, randomness=r).value, 4_000))
        for m in (marks, marks[1:])
    ]
    near = {float(k) for k in range(-1, 5)}
    assert near <= outcomes[0]
    assert near <= outcomes[1]
    assert all(float(v).is_integer() for v in outcomes[0] | outcomes[1])


def test_answers_stay_inside_what_is_possible():
    for source in (system(), system()):
        for _ in range(50):
            assert 0 <= mean(VALUES[:2], bounds=BOUNDS, epsilon=0.1, adjacency=ADD, randomness=source).value <= 90
            assert 0 <= variance(VALUES[:2], bounds=BOUNDS, epsilon=0.1, adjacency=ADD, randomness=source).value <= 2025


@pytest.mark.slow
@pytest.mark.parametrize("values", [np.array([]), np.array([0.0]), np.array([90.0])])
def test_with_nobody_or_one_row_every_answer_is_a_number_and_looks_alike(values):
    """The odds of an answer in the upper half of what is possible differ by at most the factor epsilon allows."""
    runs, epsilon = 1_000, 0.5
    for run in (mean, variance):
        upper = 45 if run is mean else 1012
        shares = []
        for rows in (np.array([]), values):
            results = repeated(
                lambda r, rows=rows, run=run: (
                    run(rows, bounds=BOUNDS, epsilon=epsilon, adjacency=ADD, randomness=r).value
                ),
                runs,
            )
            assert np.isfinite(results).all()
            shares.append(np.mean(np.array(results) > upper))
        noise = 6.1 * math.sqrt(0.25 / runs)
        assert shares[0] - noise <= math.exp(epsilon) * (shares[1] + noise)
        assert shares[1] - noise <= math.exp(epsilon) * (shares[0] + noise)


def test_an_empty_table_has_a_count_a_sum_and_a_histogram():
    assert abs(count([], epsilon=5, adjacency=ADD, randomness=system()).value) < 20
    assert abs(sum_([], bounds=(0, 1), epsilon=5, adjacency=ADD, randomness=system()).value) < 20
    assert histogram([], keys=["a", "b"], epsilon=5, adjacency=ADD, randomness=system()).value.shape == (2,)
    nobody = histogram_of_unknown_keys([], epsilon=5, delta=1e-6, adjacency=ADD, randomness=system())
    assert (nobody.value.size, nobody.parameters["keys"]) == (0, ())


# --- unknown keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "5"])
@pytest.mark.parametrize("delta", [1e-3, 1e-9])
def test_the_threshold_is_the_lowest_whose_odds_of_showing_a_single_row_are_within_delta(adjacency, epsilon, delta):
    change = Change(Adjacency(adjacency))
    threshold = Threshold.calibrated(epsilon=epsilon, delta=delta, change=change)
    scale = (1 if adjacency == ADD else 2) / float(epsilon)
    q = math.exp(-1 / scale)

    def odds(least):
        return q ** (least - 1) / (1 + q)

    assert threshold.noise.scale == pytest.approx(scale)
    assert odds(threshold.least) <= float(threshold.delta) <= delta
    assert float(threshold.delta) == pytest.approx(odds(threshold.least), rel=1e-6)
    assert threshold.least == 2 or odds(threshold.least - 1) > delta * (1 - 1e-6)


def outcome_odds(data, threshold):
    """{outcome: probability} of the thresholded histogram of {key: count}, exactly; outcomes are (key, value) pairs."""
    scale, least = threshold.noise.scale, threshold.least
    q = math.exp(-1 / scale)
    reach = least + 40 * max(1, int(scale))
    outcomes = {(): 1.0}
    for key, rows in sorted(data.items()):
        shown = {k: (1 - q) / (1 + q) * q ** abs(k - rows) for k in range(least, reach)}
        hidden = 1 - sum(shown.values())
        outcomes = {
            outcome if k is None else (*outcome, (key, k)): p * weight
            for outcome, p in outcomes.items()
            for k, weight in ((None, hidden), *shown.items())
        }
    return outcomes


NEIGHBOURS = {
    ADD: [({"u": 1}, {}), ({"u": 2}, {"u": 1}), ({"u": 1, "v": 3}, {"v": 3}), ({"u": 9}, {"u": 8})],
    REPLACE: [
        ({"u": 1}, {"v": 1}),
        ({"u": 1, "v": 4}, {"v": 5}),
        ({"u": 2, "v": 4}, {"u": 1, "v": 5}),
        ({"u": 2}, {"u": 1, "v": 1}),
        ({"u": 1, "v": 1}, {"v": 2}),
    ],
}


@pytest.mark.parametrize("epsilon", [0.8, 2.0])
@pytest.mark.parametrize("delta", [0.2, 0.01])
@pytest.mark.parametrize("adjacency", [ADD, REPLACE])
def test_the_exact_divergence_of_every_kind_of_neighbours_is_within_epsilon_and_delta(adjacency, epsilon, delta):
    threshold = Threshold.calibrated(epsilon=epsilon, delta=delta, change=Change(Adjacency(adjacency)))
    worst = 0.0
    for one, other in NEIGHBOURS[adjacency]:
        p, q = outcome_odds(one, threshold), outcome_odds(other, threshold)
        for here, there in ((p, q), (q, p)):
            excess = sum(max(0.0, w - math.exp(epsilon) * there.get(outcome, 0.0)) for outcome, w in here.items())
            worst = max(worst, excess)
    assert worst <= float(threshold.delta) + 1e-9
    assert worst >= 0.99 * float(threshold.delta) - 1e-9


def test_a_key_of_one_row_is_shown_as_often_as_delta_says():
    keys = 30_000  # each decided by a coin of its own; 30 % more of them would be ten standard errors off
    rows = [f"key {number}" for number in range(keys)]
    shown = histogram_of_unknown_keys(rows, epsilon=1, delta=0.2, adjacency=ADD, randomness=system()).value.size
    exact_odds = float(Threshold.calibrated(epsilon=1, delta=0.2, change=Change(Adjacency.ADD_REMOVE_ONE)).delta)
    assert binom.cdf(shown, keys, exact_odds) > LEVEL
    assert binom.sf(shown - 1, keys, exact_odds) > LEVEL
    assert binom.cdf(shown, keys, exact_odds * 1.3) < LEVEL
    assert binom.sf(shown - 1, keys, exact_odds * 0.7) < LEVEL


def test_common_keys_are_shown_in_sorted_order_with_what_they_cost():
    rows = ["b"] * 500 + ["a"] * 700 + ["rare"]
    measured = histogram_of_unknown_keys(rows, epsilon=1, delta=1e-9, adjacency=REPLACE, randomness=system())
    assert measured.parameters["keys"] == ("a", "b")
    assert by_key(measured)["a"] == pytest.approx(700, abs=60)
    assert isinstance(measured.event, ApproximateEvent)
    assert 0 < measured.event.delta <= 1e-9


# --- what may be done to a histogram afterwards, and what it counts --------------------------------------


def test_public_keys_are_counted_in_their_order_and_other_values_nowhere():
    for rows, keys in (
        (["b", "a", "c", "a"], ["a", "x", "b"]),
        (np.array([7, -(2**63), 5, -(2**63), 2**63 - 1]), [-(2**63), 11, 7]),
        (np.array([7, 3, 5, 3, -9]), [3, 4, 7]),
        ([2.5, 1.0, None, 1], [1, 3, 2.5]),
        (np.array([True, False, False]), [False, 9, True]),
    ):
        measured = histogram(rows, keys=keys, epsilon=100, adjacency=ADD, randomness=system())
        np.testing.assert_array_equal(measured.value, [2, 0, 1])
        assert by_key(measured)[keys[2]] == 1
        assert measured.event == LaplaceEvent(measured.event.ratio, 1)


def test_projection_finds_the_nearest_counts_that_are_possible():
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 40):
        counts, total = rng.normal(3, 10, size), 25.0
        nearest = on_simplex(counts, total=total)
        assert (nearest >= 0).all()
        assert nearest.sum() == pytest.approx(total)
        for _ in range(200):
            other = rng.dirichlet(np.ones(size)) * total
            assert np.sum((nearest - counts) ** 2) <= np.sum((other - counts) ** 2) + 1e-9
    np.testing.assert_allclose(on_simplex(np.array([5.0, 3.0, 2.0]), total=10.0), [5, 3, 2])
    np.testing.assert_array_equal(on_simplex(np.array([-5.0, 3.0]), total=0.0), [0, 0])
    np.testing.assert_array_equal(not_negative(np.array([-5.0, 3.0])), [0, 3])


def test_a_seeded_release_says_that_it_is_simulated_and_a_real_one_who_drew():
    for run, drawn_by, simulated in ((seeded_for_simulation(1), "thebes (seeded)", True), (system(), "thebes", False)):
        for measured in (
            count(VALUES > 3, epsilon=1, adjacency=ADD, randomness=run),
            mean(VALUES, bounds=BOUNDS, epsilon=1, adjacency=ADD, randomness=run),
            variance(VALUES, bounds=BOUNDS, epsilon=1, adjacency=ADD, randomness=run),
            histogram([1], keys=[1, 2], epsilon=1, adjacency=ADD, randomness=run),
        ):
            assert (measured.simulated, measured.parameters["drawn_by"]) == (simulated, drawn_by)
            assert measured.adjacency is Adjacency.ADD_REMOVE_ONE


@pytest.mark.slow
def test_opendp_and_own_noise_give_means_of_the_same_spread():
    spreads = {}
    for name, source in (("own", system()), ("opendp", OpenDP())):
        results = repeated(
            lambda r: mean(VALUES, bounds=BOUNDS, epsilon=1, adjacency=ADD, randomness=r).value, 1_000, source
        )
        spreads[name] = np.std(results)
    ratio = math.log(spreads["own"] / spreads["opendp"])
    assert abs(ratio) < norm.isf(LEVEL) * math.sqrt(2 * 5 / 4 / 1_000)
