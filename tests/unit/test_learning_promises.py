"""Promises of estimators hold for whatever labels and hyperparameters they are given."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from thebes.learning import (
    DecisionTreeClassifier,
    KMeans,
    LinearRegression,
    RandomForestClassifier,
    RandomForestRegressor,
)
from thebes.learning.budget import FitBudget, Reach, _summed
from thebes.learning.linear import Ridge
from thebes.learning.logistic import LogisticRegression
from thebes.learning.naive_bayes import GaussianNB
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import seeded_for_simulation
from thebes.privacy.stability import LARGEST_TOTAL

UNIT = {"*": (0.0, 1.0), "y": (0.0, 1.0)}


def test_declared_classes_decide_what_a_label_is_whatever_labels_are_there() -> None:
    X = np.full((30, 1), 0.5)
    for y in (np.zeros(30), np.where(np.arange(30) == 7, 0.5, 0.0)):
        made = GaussianNB(epsilon=1.0, adjacency="add-remove-one", bounds=UNIT, classes=[0.0, 0.5], random_state=1)
        assert made.fit(X, y).classes_.tolist() == [0.0, 0.5]


def test_a_row_that_floats_cannot_hold_adds_nothing_to_a_sum() -> None:
    lost = np.array([[np.nan, 1.0], [np.inf, -np.inf], [1.0, 1.0]])
    assert _summed([lost], 2, 0.5).tolist() == [2, 4]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "wild",
    [
        lambda **given: Ridge(alpha=1e12, method="descent", **given),
        lambda **given: LogisticRegression(l2=1e10, classes=[0, 1], **given),
    ],
)
def test_a_diverging_descent_does_not_tell_whether_the_number_of_rows_is_odd(wild) -> None:
    ends = []
    for rows in (100, 101):
        X = np.random.default_rng(rows).uniform(size=(rows, 2))
        made = wild(epsilon=1.0, delta=1e-6, adjacency="add-remove-one", bounds=UNIT, random_state=3)
        ends.append(abs(made.fit(X, (X[:, 0] > 0.5).astype(int)).weights_.ravel()[-1]))
    assert max(ends) < 1e4


def test_the_noise_of_a_sum_is_the_same_with_and_without_lost_rows() -> None:
    budget = [
        FitBudget(epsilon=1, delta=1e-6, adjacency="replace-one", randomness=seeded_for_simulation(5)) for _ in range(2)
    ]
    reach = Reach(1.0, 2.0)
    clean, lost = (
        each.gaussian([np.array([[0.5], [value]])], width=1, reach=reach, share=1).value[0]
        for each, value in zip(budget, (0.0, np.nan), strict=True)
    )
    assert clean == lost


ALL = {
    "naive bayes": lambda **kw: GaussianNB(classes=[0, 1], **kw),
    "logistic": lambda **kw: LogisticRegression(classes=[0, 1], **kw),
    "forest": lambda **kw: RandomForestClassifier(classes=[0, 1], n_estimators=3, **kw),
    "forest of numbers": lambda **kw: RandomForestRegressor(**kw),
    "tree": lambda **kw: DecisionTreeClassifier(classes=[0, 1], **kw),
    "linear": lambda **kw: LinearRegression(**kw),
    "ridge": lambda **kw: Ridge(**kw),
    "clusters": lambda **kw: KMeans(n_clusters=2, **kw),
}


@pytest.mark.parametrize("name", ALL)
def test_where_rows_come_and_go_none_at_all_give_a_model_of_noise_like_any_other(name: str) -> None:
    """Refusing would tell an empty table from one with a single row for certain."""
    bounds = {0: (0, 1), 1: (0, 1), **({"y": (0, 1)} if name in ("forest of numbers", "linear", "ridge") else {})}
    fitted = []
    for rows in (0, 1):
        model = ALL[name](epsilon=1, delta=1e-5, adjacency="add-remove-one", bounds=bounds, random_state=4)
        fitted.append(model.fit(np.ones((rows, 2)), np.ones(rows, dtype=int)))
        assert np.isfinite(fitted[-1].predict(np.zeros((3, 2)))).all()
        assert fitted[-1].certificate_.contributors is None
    assert set(fitted[0].to_json()) == set(fitted[1].to_json())
    assert set(fitted[0].certificate_.as_json()) == set(fitted[1].certificate_.as_json())


@pytest.mark.parametrize("name", ALL)
def test_where_the_number_of_rows_is_public_none_is_a_plain_mistake(name: str) -> None:
    bounds = {0: (0, 1), 1: (0, 1), **({"y": (0, 1)} if name in ("forest of numbers", "linear", "ridge") else {})}
    model = ALL[name](epsilon=1, delta=1e-5, adjacency="replace-one", bounds=bounds)
    with pytest.raises(Mistake) as refused:
        model.fit(np.ones((0, 2)), np.ones(0, dtype=int))
    assert str(refused.value) == "X: has no rows; there is nothing to work on"


def test_how_many_rows_there_are_is_no_refusal_where_sums_outgrow_their_numbers() -> None:
    """They are cut off, which brings no two of them farther apart."""
    large = np.full((4, 2), [2.0**60, -1.0])
    assert _summed([large, large], 2, 1.0).tolist() == [LARGEST_TOTAL, -8]
    assert _summed([large, -large], 2, 1.0).tolist() == [0, 0]
    budget = FitBudget(epsilon=1, delta=1e-17, adjacency="add-remove-one", randomness=seeded_for_simulation(1))
    counts = np.array([2**62, 5], dtype=np.int64)
    released = budget.gaussian_counts(counts, reach=Reach(1, 1), share=Fraction(1))
    assert 0 < released.value[0] < 2.0**62
    assert abs(released.value[1] - 5) < 200
