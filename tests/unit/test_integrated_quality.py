"""A document says by which figure its model is judged, and what cannot be is refused before anybody is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import thebes
from thebes.privacy.model_quality import Worth
from thebes.tasks import registry
from thebes.tasks.document import InvalidDocument

RANGE = {"type": "range", "low": 0, "high": 10}
DRAW = np.random.default_rng(5)
HOURS = DRAW.uniform(0, 10, 6000)
SPENT = np.clip(HOURS + DRAW.normal(0, 1, 6000), 0, 10)


def document(model: str, quality: Any, *, labels: tuple[int, ...] = (0, 1), **more: Any) -> dict[str, Any]:
    output = RANGE if model.endswith(("Regression", "Regressor")) and model[:3] != "Log" else None
    return {
        "type": "integrated", "epsilon": 4.0, "delta": 1e-5, "model": model, "inputs": ["hours"], "output": "y",
        "featurizer": "SELECT hours, y FROM p.t", "quality": quality,
        "bounds": {"hours": RANGE, "y": output or {"type": "set", "values": list(labels)}}, **more,
    }  # fmt: skip


@pytest.mark.parametrize("model", ["GaussianNB", "LogisticRegression"])
def test_a_model_of_two_labels_is_judged_by_the_order_of_its_scores(model: str) -> None:
    people = {"hours": HOURS, "y": (SPENT > 8).astype(int)}
    found = thebes.simulate(document(model, "auc"), people, seed=1).quality
    assert (found.metric, found.verdict, found.share) == ("auc", Worth.BETTER, 0.1)
    assert 0.6 < found.interval.low < found.value <= found.interval.high


@pytest.mark.parametrize("model", ["LinearRegression", "RandomForestRegressor"])
def test_a_model_of_numbers_is_judged_by_what_it_explains(model: str) -> None:
    people = {"hours": HOURS, "y": SPENT}
    release = thebes.simulate(document(model, "r2", epsilon=8.0), people, seed=1)
    assert (release.quality.metric, release.quality.verdict, release.quality.guessing) == ("r2", Worth.BETTER, 0.0)
    assert "its R2" in str(release)
    same = thebes.simulate(document(model, True, epsilon=8.0), people, seed=1).quality
    assert same.metric == "mse"
    assert release.quality.value == pytest.approx(1 - same.value / same.guessing, abs=1e-9)


@pytest.mark.parametrize(
    ("model", "quality", "labels"),
    [
        ("GaussianNB", "r2", (0, 1)),
        ("GaussianNB", "auc", (0, 1, 2)),
        ("LinearRegression", "auc", (0, 1)),
        ("GaussianNB", "f1", (0, 1)),
    ],
)
def test_a_figure_that_the_model_does_not_have_is_refused(model: str, quality: str, labels: tuple[int, ...]) -> None:
    with pytest.raises(InvalidDocument, match="quality"):
        registry.check(document(model, quality, labels=labels))


def test_labels_that_nobody_declared_have_no_area_under_a_curve() -> None:
    asked = document("GaussianNB", "auc")
    del asked["bounds"]["y"]
    with pytest.raises(InvalidDocument, match="auc unless bounds declare two values"):
        registry.check(asked)


def test_what_stood_in_documents_before_means_the_same() -> None:
    """A document is known by its digest, which tells a truth from a word."""
    digests = {registry.check(document("GaussianNB", asked)).digest for asked in (True, False, "auc")}
    assert len(digests) == 3
    assert registry.check(document("GaussianNB", True)).quality is True
