"""The noise in what pipelines train has the scale that the promise asks for, and rows are sampled by honest coins."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from thebes.learning import moments, network, odds
from thebes.learning.budget import FitBudget
from thebes.learning.features import Categories, Features, Range
from thebes.privacy.accounting.calibration import ratio_for_rounds, sampled_ratio
from thebes.privacy.accounting.gaussian import ratio_for
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import Randomness, system
from thebes.privacy.stability import Change
from thebes.testing.statistics import LEVEL, assert_size

FEATURES = Features([Categories("kind", tuple(range(12))), Range("size", 0.0, 1.0)])
RNG = np.random.default_rng(2)
ROWS = np.column_stack([RNG.integers(0, 12, 400), RNG.uniform(0, 1, 400)]).astype(np.float64)
TARGETS = np.clip(RNG.normal(0, 0.3, 400), -1, 1)
EPSILON, DELTA = 0.7, 1e-6


class Recorder(Randomness):
    """Another's draws, written down."""

    def __init__(self, inner: Randomness) -> None:
        self.inner = inner
        self.noise: list[Any] = []
        self.chosen: list[int] = []

    def words(self, count: int) -> Any:
        return self.inner.words(count)

    def laplace(self, values: Any, *, scale: float) -> Any:
        return self.inner.laplace(values, scale=scale)

    def gaussian(self, values: Any, *, scale: float) -> Any:
        said = self.inner.gaussian(values, scale=scale)
        self.noise.append((said - values).astype(np.float64))
        return said

    def toss(self, coin: Any, count: int) -> Any:
        heads = self.inner.toss(coin, count)
        self.chosen.append(int(heads.sum()))
        return heads


def budget(randomness: Randomness, rows: int) -> FitBudget:
    return FitBudget(epsilon=EPSILON, delta=DELTA, adjacency="add-remove-one", randomness=randomness, rows=rows)


@pytest.mark.parametrize("rows", [1, 3])
def test_moments_get_the_stated_noise(rows: int) -> None:
    recorder = Recorder(system())
    inputs = FEATURES.of(ROWS)
    for _ in range(8):
        moments.fitted(FEATURES, (-1, 1), lambda: [(inputs, TARGETS)], count=400, budget=budget(recorder, rows))
    reach = 5 * math.ceil(0.8 * (FEATURES.usual + 1) * 2**20) * rows
    noise = np.concatenate(recorder.noise[1::2])  # the first of each fit is that of the target's middle and spread
    assert noise.size == 8 * 15 * 16 / 2
    assert_size(noise, "gaussian", reach * ratio_for(EPSILON, DELTA) / math.sqrt(0.9))


class Overheard(FitBudget):
    """A budget that writes down what it adds to counts."""

    heard: list[Any]

    def gaussian_counts(self, counts: Any, *, reach: Any, share: Any) -> Any:
        released = super().gaussian_counts(counts, reach=reach, share=share)
        self.heard.append(released.value - counts)
        return released


@pytest.mark.parametrize("rows", [1, 2])
def test_histograms_by_class_and_what_mends_them_get_the_stated_noise(rows: int) -> None:
    heard: list[Any] = []
    for _ in range(24):
        paid = Overheard(epsilon=EPSILON, delta=DELTA, adjacency="add-remove-one", randomness=system(), rows=rows)
        paid.heard = heard
        odds.fitted(FEATURES, [(ROWS, (TARGETS > 0).astype(float))], count=400, budget=paid, steps=1)
    counts, sums = np.concatenate(heard[::2]), np.concatenate(heard[1::2])  # of each fit: a histogram, then what is off
    assert (counts.size, sums.size) == (24 * 2 * (12 + 20), 24 * (12 + 20))
    unit = ratio_for(EPSILON, DELTA) / math.sqrt(0.4) * math.sqrt(2) * rows
    assert_size(counts, "gaussian", unit)
    assert_size(sums, "gaussian", unit * odds._CUT)


@pytest.mark.slow
@pytest.mark.parametrize("each", [1, 4])
def test_networks_get_the_stated_noise_and_sample_units_by_honest_coins(each: int) -> None:
    recorder, steps, rate = Recorder(system()), 30, 0.25
    sampling = network.Sampling.of(EPSILON, DELTA, steps=steps, rate=rate)
    network.fitted(
        FEATURES,
        [(ROWS, TARGETS, np.arange(400) // each)],
        ends=(-1.0, 1.0),
        layers=(2,),
        sampling=sampling,
        count=400,
        change=Change(Adjacency.ADD_REMOVE_ONE, each, Unit.PERSON),
        randomness=recorder,
    )
    terms: Any = {"rate": rate, "rounds": steps, "epsilon": EPSILON}
    ratio = ratio_for_rounds(**terms, delta=DELTA * 0.999, adjacency="add-remove-one")
    assert ratio < 0.97 * sampled_ratio(**terms, delta=DELTA)  # a loss distribution asks for less than a curve
    noise = np.concatenate(recorder.noise)
    assert noise.size == steps * (13 * 2 + 2 + 2 + 1)
    finer = sampling.finer(ratio * 2**20, noise.size // steps)
    assert finer >= 1
    assert_size(noise / finer, "gaussian", ratio * 2**20)
    assert binomtest(sum(recorder.chosen), 400 // each * steps, rate).pvalue > LEVEL
    assert len(set(recorder.chosen)) > 5  # not the same number each time
