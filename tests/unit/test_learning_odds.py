"""Odds by categories: sensitivity, what is learned, and models as data."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from thebes.learning import odds
from thebes.learning.budget import FitBudget
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
    return FitBudget(epsilon=epsilon, delta=1e-6, adjacency=adjacency, randomness=seeded_for_simulation(5))


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


def test_what_mends_the_tables_moves_by_no_more_than_is_noised() -> None:
    """One row more, and one row that becomes the worst other one, against the reach that is declared."""
    numbers, truth = rows(60)
    cells, classes = FEATURES.cells(numbers), truth.astype(np.int8)
    draw = np.random.default_rng(1)
    tables = tuple(draw.normal(0, 2, piece.cell_count) for piece in FEATURES.pieces)
    pieces = len(FEATURES.pieces)

    def off(which: Any, told: Any) -> Any:
        return odds._off(FEATURES, which, told, tables, -1.0, 2.0)

    whole, longest = off(cells, classes), 0.0
    for row in range(60):
        left = np.delete(np.arange(60), row)
        moved = whole - off(cells[left], classes[left])
        assert np.count_nonzero(moved) <= pieces
        longest = max(longest, float(np.sqrt((moved**2).sum())))
        turned = classes.copy()
        turned[row] = 1 - turned[row]
        assert np.sqrt(((whole - off(cells, turned)) ** 2).sum()) <= 2 * odds._CUT * np.sqrt(pieces)
    assert 0.9 * odds._CUT * np.sqrt(pieces) < longest <= odds._CUT * np.sqrt(pieces) * (1 + 1e-12)


def test_what_columns_say_together_is_mended() -> None:
    """Two columns that only say something together: their own odds are the same for every value."""
    draw = np.random.default_rng(4)
    both = draw.integers(0, 2, 40_000)
    other = np.where(draw.random(40_000) < 0.9, both, 1 - both)
    third = draw.integers(0, 2, 40_000)
    # What follows from `both` is taken back by `other`, which goes with it.
    truth = (draw.random(40_000) < 1 / (1 + np.exp(-(2.0 * both - 2.0 * other + 0.5 * third)))).astype(np.float64)
    features = Features([Categories(name, (0, 1)) for name in ("both", "other", "third")])
    numbers = np.column_stack([both, other, third]).astype(np.float64)
    model = fitted(features, [(numbers, truth)], count=40_000, budget=budget(20.0), steps=60)
    apart = (both == 1) & (other == 0)
    assert np.mean(model.predict(numbers[apart])) > 0.7  # by their own odds alone they would say about a half


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
