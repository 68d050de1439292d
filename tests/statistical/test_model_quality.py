"""The figure of a model, drawn often: useless models are not called better, intervals hold, noise has its scale."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom

from thebes import learning
from thebes.privacy.loss_quality import of_losses
from thebes.privacy.mechanisms.additive import Gaussian, Laplace
from thebes.privacy.model_quality import CLAIM, LEVEL, Worth, of_table
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import seeded_for_simulation, system
from thebes.privacy.stability import Change
from thebes.privacy.transformations.counts import HistogramCounts
from thebes.privacy.transformations.losses import LossBesideGuess
from thebes.testing.recorder import Recorder
from thebes.testing.statistics import assert_size

ROWS = Change(Adjacency.REPLACE_ONE)
FITS = 2_000
OFTEN = ("even", "near a tie", "one is frequent")


def shares_of(classes: int, how: str):
    """The share of each class."""
    even = np.full(classes, 1 / classes)
    if how == "near a tie":
        even[0] += 0.02
    elif how == "one is frequent":
        even[0] += 0.7
    return even / even.sum()


def noise_of(classes: int, epsilon: float, kind: str):
    maker = Laplace(epsilon) if kind == "laplace" else Gaussian(epsilon, "1e-5")
    return maker.noise(HistogramCounts(2 * classes).sensitivity(ROWS))


def judged(table, noise, chance):
    noisy = noise.add(table.reshape(-1).astype(np.int64), chance).reshape(-1, 2)
    return of_table(noisy, noise, share=0.1, epsilon=1.0, of="rows")


@pytest.mark.few(1, slow=4)
@pytest.mark.parametrize("how", OFTEN)
@pytest.mark.parametrize("says", [0.0, 0.5, 0.95, 1.0])
@pytest.mark.parametrize(("classes", "rows", "epsilon"), [(2, 300, 1), (2, 3000, 8), (3, 50, 8), (3, 3000, 1)])
def test_a_useless_model_is_not_called_better_than_guessing(classes, rows, epsilon, says, how) -> None:
    """It says the most frequent class to `says` of the rows, and one by chance to the others."""
    draw, chance, shares = np.random.default_rng(rows + classes), seeded_for_simulation(rows), shares_of(classes, how)
    told = says * np.eye(classes)[0] + (1 - says) * shares
    cells = np.stack([shares * told, shares * (1 - told)], axis=1).reshape(-1)
    noise = noise_of(classes, epsilon, "laplace")
    better = sum(
        judged(table, noise, chance).verdict is Worth.BETTER for table in draw.multinomial(rows, cells, size=FITS)
    )
    assert beta.ppf(0.99, better + 1, FITS - better) <= CLAIM


@pytest.mark.few(1, slow=3)
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
@pytest.mark.parametrize("right", [0.5, 0.7, 0.97])
@pytest.mark.parametrize(("classes", "rows", "epsilon"), [(2, 300, 1), (2, 3000, 8), (10, 300, 8), (3, 3000, 1)])
def test_the_interval_holds_the_accuracy_over_everybody(classes, rows, epsilon, right, kind) -> None:
    draw, chance, shares = np.random.default_rng(rows), seeded_for_simulation(classes), shares_of(classes, "even")
    cells = np.stack([shares * right, shares * (1 - right)], axis=1).reshape(-1)
    noise, times = noise_of(classes, epsilon, kind), 400
    bars = [judged(table, noise, chance).interval for table in draw.multinomial(rows, cells, size=times)]
    held = sum(bar.low <= right <= bar.high for bar in bars)
    assert held >= binom.ppf(1e-6, times, LEVEL)


@pytest.mark.few(1)
@pytest.mark.parametrize("explained", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(("rows", "epsilon"), [(300, 8), (3000, 1), (20_000, 8)])
def test_the_interval_holds_the_squared_error_and_none_that_explains_nothing_is_called_better(
    rows, epsilon, explained
) -> None:
    """Numbers are 0 or 1 with even odds, which is the widest spread; the model knows some of it."""
    draw, chance, sums = np.random.default_rng(rows), seeded_for_simulation(rows), LossBesideGuess()
    noise, times = Laplace(epsilon).noise(sums.sensitivity(ROWS)), 500
    expected, held, better, off = 0.25 * (1 - explained), 0, 0, 0.5 * np.sqrt(1 - explained)
    part = 0
    for _ in range(times):
        truth = draw.integers(0, 2, rows).astype(float)
        guess = np.clip(truth + np.where(truth > 0, -off, off), 0, 1)
        cells = noise.add(sums.total(np.column_stack([(truth - guess) ** 2, truth])), chance)
        told = {"steps": sums.steps, "width": 1.0, "share": 0.1, "epsilon": 1.0, "of": "rows"}
        found, of_part = (of_losses(cells, noise, **told, explained=asked) for asked in (False, True))
        assert of_part.interval.low <= of_part.value <= of_part.interval.high <= 1
        assert of_part.verdict is found.verdict
        part += of_part.interval.low <= explained <= of_part.interval.high
        held += found.interval.low <= expected <= found.interval.high
        better += found.verdict is Worth.BETTER
    assert min(held, part) >= binom.ppf(1e-6, times, LEVEL)
    assert better == 0 or explained > 0
    assert better == times or rows * epsilon < 3000 or explained < 0.9


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize("name", ["GaussianNB", "LogisticRegression", "RandomForestClassifier"])
def test_fits_to_labels_that_have_nothing_to_do_with_the_columns_all_warn(name, adjacency) -> None:
    draw = np.random.default_rng(3)
    for seed in range(60):
        X, y = draw.uniform(-1, 1, (400, 3)), draw.integers(0, 2, 400)
        model = getattr(learning, name)(
            epsilon=8.0, delta=1e-5, adjacency=adjacency, bounds={"*": (-1.0, 1.0)}, classes=[0, 1],
            random_state=seed, quality=True,
        )  # fmt: skip
        with pytest.warns(UserWarning, match="guessing"):
            model.fit(X, y)


@pytest.mark.parametrize(("adjacency", "moved"), [("replace-one", (2, 3)), ("add-remove-one", (1, 2))])
def test_the_test_adds_noise_of_the_scale_that_its_epsilon_asks_for(adjacency, moved) -> None:
    X, y, epsilon, source = np.zeros((20, 1)), np.arange(20) % 2, 0.02, Recorder(1)
    source.source = system()
    box = {"epsilon": 8.0, "delta": 1e-5, "adjacency": adjacency, "bounds": {"*": (-1.0, 1.0), "y": (-1.0, 1.0)}}
    for model, distance in (
        (learning.GaussianNB(**box, classes=[0, 1], random_state=1).fit(X, y), moved[0]),
        (learning.LinearRegression(**box, random_state=1).fit(X, y), moved[1] * LossBesideGuess().steps),
    ):
        source.sums.clear()
        source.answers.clear()
        for _ in range(500):
            model.tested(X, y, epsilon=epsilon, adjacency=adjacency, randomness=source)
        assert_size(np.array(source.answers) - np.array(source.sums), "laplace", distance / epsilon)
