"""Odds by categories: sensitivity, what is learned, and models as data."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from thebes.learning import odds
from thebes.learning.budget import Budget
from thebes.learning.features import Categories, Features, Range
from thebes.learning.odds import OddsModel, fitted
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import seeded_for_simulation

FEATURES = Features([Categories("kind", (0, 1, 2, 3)), Range("age", 0.0, 100.0), Categories("wet", (False, True))])


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    numbers = np.column_stack([draw.integers(0, 4, count), draw.uniform(0, 100, count), draw.integers(0, 2, count)])
    logit = -1 + 2.0 * (numbers[:, 0] == 2) + 2.0 * (np.abs(numbers[:, 1] - 50) < 20) - 0.5 * numbers[:, 2]
    return numbers, (draw.random(count) < 1 / (1 + np.exp(-logit))).astype(np.float64)


def budget(epsilon: float, adjacency: str = "add-remove-one") -> Any:
    return Budget(epsilon=epsilon, delta=1e-6, adjacency=adjacency, randomness=seeded_for_simulation(5))


@pytest.mark.parametrize(("epsilon", "least"), [(20.0, 0.74), (1.0, 0.73), (0.05, 0.45)])
def test_classes_are_told_apart_as_well_as_the_budget_allows(epsilon: float, least: float) -> None:
    numbers, truth = rows(8000)
    model = fitted(FEATURES, [(numbers[:6000], truth[:6000])], count=6000, budget=budget(epsilon), steps=40)
    said = model.predict(numbers[6000:])
    assert ((said >= 0) & (said <= 1)).all()
    assert np.mean((said > 0.5) == truth[6000:]) > least


def test_the_whole_fit_costs_one_gaussian_release() -> None:
    numbers, truth = rows(500)
    paid = budget(1.0)
    fitted(FEATURES, [(numbers, truth)], count=500, budget=paid, steps=10)
    assert sum(event.ratio**-2 for event in paid.events) == pytest.approx(paid.ratio(1) ** -2, rel=1e-9)


def test_one_row_adds_one_to_one_cell_of_each_column() -> None:
    numbers, truth = rows(50)
    cells, classes = FEATURES.cells(numbers), truth.astype(np.int8)
    moved = odds._counts(FEATURES, cells, classes) - odds._counts(FEATURES, cells[:-1], classes[:-1])
    assert moved.sum() == (moved**2).sum() == len(FEATURES.pieces)


def test_what_has_no_cell_says_nothing() -> None:
    numbers, truth = rows(2000)
    model = fitted(FEATURES, [(numbers, truth)], count=2000, budget=budget(5.0), steps=20)
    nothing = np.full((1, 3), np.nan)
    assert model.predict(nothing)[0] == pytest.approx(1 / (1 + np.exp(-model.intercept)))
    beyond = np.array([[9.0, np.nan, np.nan]])
    assert model.predict(beyond)[0] == model.predict(nothing)[0]


def test_no_rows_at_all_give_a_model_of_noise() -> None:
    model = fitted(FEATURES, [], count=1, budget=budget(1.0), steps=5)
    assert np.isfinite(model.predict(np.zeros((1, 3)))).all()


def test_a_model_is_data() -> None:
    numbers, truth = rows(1000)
    model = fitted(FEATURES, [(numbers[:400], truth[:400]), (numbers[400:], truth[400:])], count=1000,
                   budget=budget(3.0), steps=20)  # fmt: skip
    again = OddsModel.of_json(json.loads(json.dumps(model.as_json())))
    assert np.array_equal(again.predict(numbers), model.predict(numbers))
    with pytest.raises(Mistake, match="fit its features"):
        OddsModel.of_json({**model.as_json(), "weights": [1.0]})
