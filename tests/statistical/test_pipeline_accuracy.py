"""Accuracy of ready pipelines on real samples, beside what is reached without privacy; floors, not promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from papers.sage import training
from papers.sage.training import LINEAR, LOGISTIC, NETWORK, Task

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def taxi() -> Iterator[Task]:
    yield _real(training.taxi())
    training.taxi.cache_clear()


@pytest.fixture(scope="module")
def criteo() -> Iterator[Task]:
    yield _real(training.criteo())
    training.criteo.cache_clear()


def _real(task: Task) -> Task:
    if task.made_up:
        pytest.skip(f"THEBES_DATA holds no {task.name}")
    return task


@pytest.mark.parametrize(
    ("rows", "epsilon", "most", "share"),
    [
        (300_000, 1.0, None, 1.02),
        (300_000, 0.05, 0.0040, None),
        (50_000, 1.0, 0.0030, None),
        (20_000, 1.0, 0.0036, None),
    ],
)
def test_durations_of_rides_are_told_nearly_as_well_as_without_privacy(
    taxi: Task, rows: int, epsilon: float, most: float | None, share: float | None
) -> None:
    scores, _ = training.timed(taxi, LINEAR, rows, epsilon, range(2))
    assert np.mean(scores) <= (most if most is not None else (share or 1) * taxi.plain(rows))
    assert np.mean(scores) < taxi.naive()


@pytest.mark.parametrize("epsilon", [0.25, 0.05])
def test_with_little_budget_rides_are_still_told_better_than_by_their_mean(taxi: Task, epsilon: float) -> None:
    scores, _ = training.timed(taxi, LINEAR, 50_000, epsilon, range(3))
    assert np.mean(scores) < taxi.naive()


@pytest.mark.parametrize(
    ("epsilon", "accuracy", "area"), [(1.0, 0.762, 0.73), pytest.param(0.25, 0.755, 0.72, marks=pytest.mark.heavy)]
)
def test_clicks_are_told_apart(criteo: Task, epsilon: float, accuracy: float, area: float) -> None:
    from sklearn.metrics import roc_auc_score

    found: list[Any] = []
    for seed in range(2):
        model = criteo.trained(LOGISTIC, 112_000, epsilon, seed)
        said = model.predict(criteo.test[list(criteo.document["inputs"])].to_numpy(dtype=np.float64))
        truth = criteo.test[criteo.output].to_numpy()
        found.append((np.mean((said > 0.5) == truth), roc_auc_score(truth, said)))
    reached = np.mean(found, axis=0)
    assert reached[0] >= accuracy  # of which the usual class is .7416 here
    assert reached[1] >= area


def test_a_network_learns_durations(taxi: Task) -> None:
    scores, _ = training.timed(taxi, NETWORK, 15_000, 1.0, range(1), {"steps": 100})
    assert scores[0] < 0.45 * taxi.naive()
