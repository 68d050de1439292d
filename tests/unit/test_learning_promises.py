"""What estimators promise holds for whatever labels and hyperparameters they are given."""

from __future__ import annotations

import numpy as np
import pytest

from thebes.learning.budget import Budget, Reach, _summed
from thebes.learning.linear import Ridge
from thebes.learning.logistic import LogisticRegression
from thebes.learning.naive_bayes import GaussianNB
from thebes.privacy.randomness import seeded_for_simulation

UNIT = {"*": (0.0, 1.0), "y": (0.0, 1.0)}


def test_declared_classes_decide_what_a_label_is_whatever_labels_are_there() -> None:
    X = np.full((30, 1), 0.5)
    for y in (np.zeros(30), np.where(np.arange(30) == 7, 0.5, 0.0)):
        made = GaussianNB(epsilon=1.0, adjacency="add-remove-one", bounds=UNIT, classes=[0.0, 0.5], random_state=1)
        assert made.fit(X, y).classes_.tolist() == [0.0, 0.5]


def test_a_row_that_floats_cannot_hold_adds_nothing_to_a_sum() -> None:
    lost = np.array([[np.nan, 1.0], [np.inf, -np.inf], [1.0, 1.0]])
    assert _summed([lost], 2, 0.5, Reach(2.0, 4.0)).tolist() == [2, 4]


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
        Budget(epsilon=1, delta=1e-6, adjacency="replace-one", randomness=seeded_for_simulation(5)) for _ in range(2)
    ]
    reach = Reach(1.0, 2.0)
    clean, lost = (
        each.gaussian([np.array([[0.5], [value]])], width=1, reach=reach, share=1).value[0]
        for each, value in zip(budget, (0.0, np.nan), strict=True)
    )
    assert clean == lost
