"""Models of noise are called better than guessing as often as the level says, at most; models that know something are.

Of n models that know nothing at most binomial(n, `LEVEL`) are called better, so that more than `most` of them are has a
chance below 1e-9; comparing without a margin calls about half of them so.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import thebes
from thebes.tasks.beside_guess import LEVEL, beyond_luck, of_labels, of_numbers, of_yes_or_no

SET = {"type": "set", "values": [0, 1]}
RANGE = {"type": "range", "low": -2.0, "high": 2.0}
KINDS: dict[str, dict[str, Any]] = {
    "naive Bayes": {"model": "GaussianNB", "bounds": {"x": RANGE, "y": SET}},
    "logistic": {"model": "LogisticRegression", "bounds": {"x": RANGE, "y": SET}, "delta": 1e-6},
    "linear": {"model": "LinearRegression", "bounds": {"x": RANGE, "y": RANGE}, "delta": 1e-6},
}
MODELS = 60  #: of each kind at each epsilon


def most(models: int) -> int:
    return int(binom.isf(1e-9, models, LEVEL))


def better(kind: str, epsilon: float, seed: int, *, knows: bool) -> bool | None:
    draw = np.random.default_rng((seed, len(kind)))
    x = draw.uniform(-2, 2, 600)
    told = x if knows else draw.uniform(-2, 2, 600)
    y = np.clip(told + draw.normal(0, 0.5, 600), -2, 2) if kind == "linear" else (told > 0).astype(int)
    document = {"type": "integrated", "epsilon": epsilon, "inputs": ["x"], "output": "y", **KINDS[kind]}
    document["featurizer"] = "SELECT x, y FROM p.t"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        aside = {"x": x[:300], "y": y[:300]}
        release = thebes.simulate(document, {"x": x[300:], "y": y[300:]}, seed=seed, aside=aside)
    found: bool | None = release.extra["beside_guess"]["better"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 20.0, 1e5])
@pytest.mark.parametrize("kind", KINDS)
def test_models_of_noise_are_not_called_better_than_guessing(kind: str, epsilon: float) -> None:
    called = sum(bool(better(kind, epsilon, seed, knows=False)) for seed in range(MODELS))
    assert called <= most(MODELS), f"{called} of {MODELS}"


@pytest.mark.parametrize("kind", KINDS)
def test_models_that_know_something_are_called_better(kind: str) -> None:
    assert all(better(kind, 20.0, seed, knows=True) for seed in range(10))


@pytest.mark.slow
@pytest.mark.parametrize("rows", [12, 100, 3000])
def test_the_level_holds_for_labels_of_any_number_of_rows(rows: int) -> None:
    """A model that tells labels by a coin beside each of two that are as frequent: the hardest case of all."""
    draw, models = np.random.default_rng(rows), 20_000
    called = 0
    for _ in range(models // 10):
        told = draw.integers(0, 2, rows)
        called += of_labels("y", draw.integers(0, 2, rows), told, aside=True).beyond
    assert called <= most(models // 10)
    signs = np.random.default_rng(rows + 1).choice([-1, 0, 1], (models, rows))
    lucky = sum(beyond_luck(each) for each in signs)
    assert lucky <= int(binom.isf(1e-9, models, LEVEL))


@pytest.mark.slow
@pytest.mark.parametrize(("people", "rows"), [(60, 20), (60, 200), (300, 50)])
def test_the_level_holds_where_a_person_has_many_rows(people: int, rows: int) -> None:
    """A person's labels are alike, and so is what a model that knows nothing says of them: luck comes by person."""
    draw, models = np.random.default_rng(people + rows), 1000
    whose = np.repeat(np.arange(people), rows)
    called = by_row = numbers = 0
    for _ in range(models):
        told, said = (np.repeat(draw.integers(0, 2, people), rows) for _ in range(2))
        called += of_labels("y", said, told, aside=True, whose=whose).beyond
        by_row += of_labels("y", said, told, aside=True).beyond
        own, guessed = (np.repeat(draw.normal(0, spread, people), rows) for spread in (1.0, 0.05))
        numbers += of_numbers("y", guessed, own, aside=True, whose=whose).beyond
    assert max(called, numbers) <= most(models)
    assert by_row > most(models), "counted by row, luck alone is called better more often than the level says"


@pytest.mark.parametrize("shape", ["normal", "skewed", "rare"])
def test_the_level_holds_for_numbers_however_they_are_spread(shape: str) -> None:
    draw = np.random.default_rng(1)
    called = 0
    for _ in range(4000):
        told = {
            "normal": lambda: draw.normal(0, 1, 200),
            "skewed": lambda: draw.exponential(1, 200),
            "rare": lambda: (draw.random(200) < 0.05) * 1.0,
        }[shape]()
        said = told.mean() + draw.normal(0, 0.05, 200)
        called += of_numbers("y", said, told, aside=True).beyond
    assert called <= most(4000)


def test_a_number_that_is_told_in_part_is_better_also_where_most_are_zero() -> None:
    draw = np.random.default_rng(1)
    x = draw.random(2000)
    told = (draw.random(2000) < 0.3 * x) * 1.0
    assert of_numbers("y", 0.3 * x, told, aside=True).better
    assert not of_numbers("y", np.full(2000, 0.15), told, aside=True).better


def test_several_labels_of_a_row_are_judged_together() -> None:
    draw = np.random.default_rng(1)
    told = draw.random((500, 3)) < [0.3, 0.5, 0.8]
    assert of_yes_or_no("y", told ^ (draw.random(told.shape) < 0.1), told, aside=True).better
    called = sum(
        of_yes_or_no("y", draw.random(told.shape) < [0.3, 0.5, 0.8], told, aside=True).beyond for _ in range(300)
    )
    assert called <= most(300)


@pytest.mark.parametrize("said", [np.full(50, np.nan), np.full(50, np.inf), np.full(50, 1e200)])
def test_what_is_no_number_is_never_better(said: Any) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        assert of_numbers("y", said, np.arange(50.0), aside=True).better is False
