"""Answers of people about a model, drawn often: reports have their odds, useless models fail, bars hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta

from thebes.privacy.gain_quality import ANSWERS, GainResponse
from thebes.privacy.model_quality import CLAIM, LEVEL, Worth
from thebes.privacy.randomness import seeded_for_simulation
from thebes.testing.statistics import assert_odds

TIMES = 3_000


@pytest.mark.parametrize("gain", [-1.0, 0.0, 0.25, 1.0])
def test_a_report_has_its_odds_and_no_others(gain: float) -> None:
    def odds(epsilon: float) -> list[float]:
        hold, stray = math.exp(epsilon), 1.0
        true = np.array([max(-gain, 0), 1 - abs(gain), max(gain, 0)])
        return list((hold * true + stray * (1 - true)) / (hold + 2 * stray))

    told = GainResponse(1.0).perturb(np.full(400_000, gain), seeded_for_simulation(1))
    assert_odds(np.bincount(told, minlength=ANSWERS), odds, 1.0)


def judged(epsilon: float, people: int, chances: list[float], seed: int) -> list:
    """The figures of a model that loses, ties and gains with these chances, from so many people, drawn often."""
    response, draw = GainResponse(epsilon), np.random.default_rng(seed)
    gains = draw.choice([-1, 0, 1], size=TIMES * people, p=chances)
    reports = response.perturb(gains, seeded_for_simulation(seed)).reshape(TIMES, people)
    told = np.stack([(reports == answer).sum(axis=1) for answer in range(ANSWERS)], axis=1)
    return [response.figure(each, share=0.1, of="people") for each in told]


@pytest.mark.few(6)
@pytest.mark.parametrize(("epsilon", "people"), [(0.1, 200), (1.0, 20), (1.0, 2_000), (8.0, 200)])
@pytest.mark.parametrize("differs", [0.02, 0.5, 1.0])
def test_a_useless_model_is_not_called_better_and_its_bar_holds_zero(epsilon, people, differs) -> None:
    found = judged(epsilon, people, [differs / 2, 1 - differs, differs / 2], people)
    better = sum(each.verdict is Worth.BETTER for each in found)
    outside = sum(not each.interval.low <= 0 <= each.interval.high for each in found)
    assert beta.ppf(1e-6, max(better, 1), TIMES - better + 1) <= CLAIM
    assert beta.ppf(1e-6, max(outside, 1), TIMES - outside + 1) <= 1 - LEVEL


@pytest.mark.few(1)
@pytest.mark.parametrize(("epsilon", "people", "least"), [(8.0, 2_000, 0.99), (2.0, 2_000, 0.8), (1.0, 20_000, 0.99)])
def test_a_model_that_is_right_of_six_in_ten_is_called_better(epsilon, people, least) -> None:
    """The guess is right of five in ten, independently."""
    found = judged(epsilon, people, [0.2, 0.5, 0.3], people)
    better = sum(each.verdict is Worth.BETTER for each in found)
    outside = sum(not each.interval.low <= 0.1 <= each.interval.high for each in found)
    assert beta.ppf(1 - 1e-6, better + 1, max(TIMES - better, 1)) >= least
    assert beta.ppf(1e-6, max(outside, 1), TIMES - outside + 1) <= 1 - LEVEL
    assert abs(np.mean([each.value for each in found]) - 0.1) < 0.01


def test_a_gain_is_rounded_at_random_and_keeps_its_mean() -> None:
    response, gains = GainResponse(3.0), np.array([0.3, -0.7, 0.01])
    told = response.perturb(np.repeat(gains, 200_000), seeded_for_simulation(2)).reshape(3, -1)
    means = (told.mean(axis=1) - 1) / response.kept
    assert np.abs(means - gains).max() < 6 / (response.kept * math.sqrt(200_000))
