"""The sum of several independent noises, against draws; and the error bars of a correlation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from thebes.privacy.faults import Fault
from thebes.privacy.mechanisms.additive import Additive, Gaussian, Laplace
from thebes.privacy.mechanisms.correlation import correlation
from thebes.privacy.mechanisms.summed_noise import Several, parts_of, together, weighed_width, weighed_widths
from thebes.privacy.randomness import seeded_for_simulation, system
from thebes.privacy.stability import Sensitivity
from thebes.testing.statistics import LEVEL

DRAWS = 100_000
STEP = Laplace(1).noise(Sensitivity(1, 1))


def laplace(*scales: float) -> tuple[Additive, ...]:
    return tuple(replace(STEP, drawn_scale=float(scale)) for scale in scales)


def gaussian(*distances: int) -> tuple[Additive, ...]:
    return tuple(Gaussian(1, 1e-5).noise(Sensitivity(d, d * d)) for d in distances)


#: noises, and whether what is drawn counts as continuous (else a statement holds more often than it says)
CASES: dict[str, tuple[tuple[Additive, ...], bool]] = {
    "two small": (laplace(1.0, 1.0), False),
    "tiny": (laplace(0.3, 0.3, 0.3), False),
    "fifteen": (laplace(*[2.0] * 15), False),
    "unequal": (laplace(40.0, 7.0, 300.0), True),
    "large": (laplace(1e6, 3e6, 2e5), True),
    "very large": (laplace(*[2.0**45] * 4), True),
    "gaussian": (gaussian(1, 5, 2), True),
    "both kinds": ((*laplace(30.0, 60.0), *gaussian(10)), False),
}


def drawn(noises: tuple[Additive, ...], coordinates: int) -> np.ndarray:
    source, zeros = system(), np.zeros((coordinates, DRAWS), dtype=np.int64)
    return np.sum([noise.add(zeros.reshape(-1), source).reshape(zeros.shape) for noise in noises], axis=0)


def assert_held(hits: int, level: float, *, closely: bool) -> None:
    assert binomtest(hits, DRAWS, level, alternative="less").pvalue > LEVEL
    if closely:
        assert hits <= DRAWS * (1 - (1 - level) * 0.8), "needlessly wide"


@pytest.mark.parametrize("case", CASES)
def test_their_sum_lies_within_its_width_as_often_as_it_says(case) -> None:
    noises, smooth = CASES[case]
    hidden = together(noises)
    (noise,) = drawn(noises, 1)
    for level in (0.5, 0.9, 0.99):
        width = hidden.width(level)
        hits = int((np.abs(noise) <= width).sum())
        assert_held(hits, level, closely=smooth)
        if case not in ("both kinds", "gaussian"):  # a tenth narrower lies nine standard errors off or more
            assert binomtest(int((np.abs(noise) <= width * 0.9 - 1).sum()), DRAWS, level, "less").pvalue < LEVEL


@pytest.mark.parametrize("case", ["unequal", "large", "very large", "gaussian", "both kinds", "two small"])
def test_weighed_sums_lie_within_their_widths_as_often_as_they_say(case) -> None:
    noises, smooth = CASES[case]
    hidden = together(noises)
    a, b = drawn(noises, 2)
    for share in (0.0, 0.13, 0.5, 0.87, 1.0):
        pair = np.abs((1 - share) * a - share * b)
        for level in (0.5, 0.95):
            assert_held(int((pair <= hidden.pair_width(share, level)).sum()), level, closely=False)
            width = weighed_width(hidden, np.array([1 - share, -share]), level)
            assert_held(int((pair <= width).sum()), level, closely=smooth)
            bound = weighed_widths(noises, np.array([1 - share, share]), np.array([[1, 1]]), level)
            assert_held(int((pair <= bound[0]).sum()), level, closely=False)


@pytest.mark.few(2)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [1, 3])
def test_vectors_of_them_lie_in_their_ball_as_often_as_it_says(case, size) -> None:
    noises, smooth = CASES[case]
    length = np.sqrt((drawn(noises, size) ** 2).sum(axis=0))
    for level in (0.5, 0.95):
        ball = together(noises).ball(size, level)
        assert ball.norm == 2
        assert_held(int((length <= ball.radius).sum()), level, closely=smooth and case != "unequal")


def test_many_counts_weighed_alike_stay_within_the_bound() -> None:
    noises, weights, times = laplace(2.0, 3.0), np.array([0.3, 1.0]), np.array([[400, 20], [0, 7]])
    source = system()
    for row, bound in zip(times, weighed_widths(noises, weights, times, 0.95), strict=True):
        cells = np.concatenate([np.full(n, w) for w, n in zip(weights, row, strict=True)])
        zeros = np.zeros(4000 * len(cells), dtype=np.int64)
        noise = sum(each.add(zeros, source).reshape(4000, -1) for each in noises) @ cells
        assert np.mean(np.abs(noise) <= bound) >= 0.95
        assert bound <= 4 * noise.std()


def test_one_noise_is_itself_and_none_is_a_bug() -> None:
    (one,) = laplace(5.0)
    assert together([one]) is one
    assert parts_of(one) == (one,)
    assert parts_of(Several((one, one))) == (one, one)
    assert Several((*laplace(1.0), *gaussian(1))).kind == "gaussian and laplace"
    with pytest.raises(Fault):
        together([])


RNG = np.random.default_rng(5)
X = np.clip(RNG.normal(0.2, 0.5, 700), -1, 1)
Y = np.clip(0.8 * X + RNG.normal(0, 0.3, 700), -1, 1)
TRUTH = float(np.corrcoef(X, Y)[0, 1])


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"delta": 0.1}], ids=["laplace", "gaussian"])
def test_the_error_bars_of_a_correlation_hold_it(more) -> None:
    source, inside, near, tries = seeded_for_simulation(1), 0, 0, 250
    for _ in range(tries):
        measured = correlation(
            X,
            Y,
            bounds=(-1, 1),
            other_bounds=(-1, 1),
            epsilon=1,
            adjacency="add-remove-one",
            randomness=source,
            **more,
        )
        bar = measured.interval(0.9)
        inside += bar.low <= TRUTH <= bar.high
        near += abs(measured.value - TRUTH) < 0.08
        assert -1 <= bar.low <= measured.value <= bar.high <= 1
    assert binomtest(inside, tries, 0.9, alternative="less").pvalue > LEVEL
    assert near > 0.9 * tries


def test_a_correlation_without_noise_to_speak_of_is_numpys() -> None:
    for x, y, expected in ((X, Y, TRUTH), (X, -X, -1.0), (X, X, 1.0), (X, 0 * X, 0.0)):
        for adjacency in ("add-remove-one", "replace-one"):
            measured = correlation(
                x,
                y,
                bounds=(-1, 1),
                other_bounds=(-2, 2),
                epsilon=1e5,
                adjacency=adjacency,
                randomness=seeded_for_simulation(1),
            )
            assert measured.value == pytest.approx(expected, abs=2e-3)
            assert measured.mechanism == "correlation with laplace noise"
    nobody = correlation(
        [], [], bounds=(0, 1), other_bounds=(0, 1), epsilon=1, adjacency="add-remove-one", randomness=system()
    )
    assert -1 <= nobody.interval().low <= nobody.value <= nobody.interval().high <= 1
