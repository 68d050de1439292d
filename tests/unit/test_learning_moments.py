"""Least squares over batches: whole rows, exact sums, sensitivity, and models as data."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import pytest

from thebes.learning import moments
from thebes.learning.budget import FitBudget
from thebes.learning.features import Bins, Categories, Features, Range
from thebes.learning.moments import LinearModel, _longest, _whole_rows, fitted
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import seeded_for_simulation

FEATURES = Features(
    [Bins("way", (0.0, 1.0, 2.0, 5.0)), Categories("hour", (0, 1, 2)), Categories("wet", (False, True))]
)


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    numbers = np.column_stack([draw.uniform(0, 5, count), draw.integers(0, 3, count), draw.integers(0, 2, count)])
    truth = 0.1 + 0.2 * (numbers[:, 0] >= 2) + 0.1 * (numbers[:, 1] == 1) - 0.05 * numbers[:, 2]
    return numbers, np.clip(2 * (truth + draw.normal(0, 0.02, count)) - 1, -1, 1)


class Spy(FitBudget):
    """Releases exact sums and keeps what was to be noised."""

    def gaussian_counts(self, counts, *, reach, share):  # type: ignore[no-untyped-def]
        self.heard = counts.copy()
        self.moved = reach.under(self.adjacency)
        return super().gaussian_counts(counts, reach=reach, share=share)


def cut(inputs: Any, target: Any, size: int = 10**6) -> list[tuple[Any, Any]]:
    return [(inputs[i : i + size], target[i : i + size]) for i in range(0, len(inputs), size)]


def budget(epsilon: float = 1.0, kind: type[FitBudget] = FitBudget) -> Any:
    randomness = seeded_for_simulation(3)
    return kind(epsilon=epsilon, delta=1e-6, adjacency="add-remove-one", randomness=randomness)


def test_features_hold_no_row_longer_than_they_say() -> None:
    numbers, _ = rows(500)
    numbers[:10, 0] = [np.nan, -3, 0, 1, 2, 5, 7, 4.9, 1.999, 2.0]
    table = FEATURES.of(numbers)
    assert table.shape == (500, FEATURES.width) == (500, 3 + 3 + 1)
    assert ((table**2).sum(axis=1) <= FEATURES.most).all()
    assert table[0, :3].sum() == 0  # no value: no bin
    assert table[1, 0] == table[2, 0] == 1
    assert table[5, 2] == table[6, 2] == 1
    assert FEATURES.names == ("way<1", "way<2", "way<5", "hour=0", "hour=1", "hour=2", "wet=True")


def test_features_are_written_down_and_read_again() -> None:
    told = Features([*FEATURES.pieces, Range("age", 0.0, 90.0)])
    again = Features.of_json(json.loads(json.dumps(told.as_json())))
    assert again.names == told.names
    columns = {"way": [0.5, None], "hour": [2, "noon"], "wet": [True, False], "age": [45, 200]}
    assert np.array_equal(again.of_columns(columns), told.of_columns(columns))
    assert again.of_columns(columns).tolist() == [[1, 0, 0, 0, 0, 1, 1, 0.5], [0, 0, 0, 0, 0, 0, 0, 1]]
    with pytest.raises(Mistake, match="no column 'hour'"):
        told.of_columns({"way": [1.0]})
    with pytest.raises(Mistake, match="features"):
        Features.of_json([{"kind": "eval", "column": "way"}])


def test_whole_rows_are_never_longer_than_the_sensitivity_says() -> None:
    draw = np.random.default_rng(1)
    inputs = draw.uniform(0, 1, (3000, FEATURES.width))
    longest = _longest(FEATURES)
    whole = _whole_rows(inputs, draw.uniform(-2, 2, 3000), longest)
    assert (whole == np.rint(whole)).all()
    assert ((whole * whole).sum(axis=1) <= longest).all()
    assert ((whole * whole).sum(axis=1) > 0.99 * longest).any()


def test_one_row_moves_the_noised_sums_by_no_more_than_was_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    # What was released before is the same in both worlds.
    monkeypatch.setattr(moments, "_of_target", lambda *_: (0.0, 0.3))
    numbers, target = rows(300)
    inputs = FEATURES.of(numbers)
    heard = []
    for count in (300, 299):
        spy = budget(kind=Spy)
        fitted(FEATURES, (0, 1), partial(cut, inputs[:count], target[:count]), count=300, budget=spy)
        heard.append(spy.heard)
    moved = float(np.sqrt(((heard[0] - heard[1]).astype(np.float64) ** 2).sum()))
    assert 0.3 * spy.moved < moved <= spy.moved


def test_rows_may_come_in_any_batches() -> None:
    numbers, target = rows(20_000)
    inputs = FEATURES.of(numbers)
    heard = []
    for size in (20_000, 777):
        spy = budget(kind=Spy)
        fitted(FEATURES, (0, 1), partial(cut, inputs, target, size), count=20_000, budget=spy)
        heard.append(spy.heard)
    assert np.array_equal(*heard)


def test_with_much_budget_it_is_least_squares() -> None:
    numbers, target = rows(30_000)
    inputs = FEATURES.of(numbers)
    model = fitted(FEATURES, (0, 1), lambda: [(inputs, target)], count=30_000, budget=budget(50.0))
    beside = np.hstack([inputs, np.ones((len(inputs), 1))])
    plain = beside @ np.linalg.lstsq(beside, (target + 1) / 2, rcond=None)[0]
    assert np.abs(model.predicted(inputs) - plain).max() < 0.005


def test_where_noise_drowns_everything_the_model_says_about_the_middle() -> None:
    numbers, target = rows(200)
    inputs = FEATURES.of(numbers)
    model = fitted(FEATURES, (0, 1), lambda: [(inputs, target)], count=200, budget=budget(0.01))
    assert np.isfinite(model.weights).all()
    assert ((model.predicted(inputs) >= 0) & (model.predicted(inputs) <= 1)).all()


def test_no_rows_at_all_give_a_model_of_noise() -> None:
    model = fitted(FEATURES, (0, 1), list, count=1, budget=budget())
    assert np.isfinite(model.predicted(np.zeros((1, FEATURES.width)))).all()


def test_the_whole_fit_costs_one_gaussian_release() -> None:
    numbers, target = rows(1000)
    inputs = FEATURES.of(numbers)
    paid = budget()
    fitted(FEATURES, (0, 1), lambda: [(inputs, target)], count=1000, budget=paid)
    total = sum(event.ratio**-2 for event in paid.events)
    assert total == pytest.approx(paid.ratio(1) ** -2, rel=1e-9)


def test_a_model_is_data() -> None:
    numbers, target = rows(5000)
    inputs = FEATURES.of(numbers)
    model = fitted(FEATURES, (10, 20), lambda: [(inputs, target)], count=5000, budget=budget(8.0))
    again = LinearModel.of_json(json.loads(json.dumps(model.as_json())))
    assert np.array_equal(again.predict(numbers), model.predict(numbers))
    assert 10 <= again.predict(numbers).min() < again.predict(numbers).max() <= 20
    with pytest.raises(Mistake, match="weights"):
        LinearModel.of_json({**model.as_json(), "weights": [1.0]})
