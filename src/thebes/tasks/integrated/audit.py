"""The audit's rows of models of people who trust a server. Other models are attacked beside all estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

from thebes.tasks.audit.case import Case
from thebes.tasks.audit.people import ABSENT, LABEL, RANGE, drawn, told

_DRAWS = 400
_MODEL: dict[str, Any] = {
    "type": "integrated", "inputs": ["x"], "output": "y", "featurizer": "SELECT x, y FROM p.t",
    "bounds": {"x": RANGE, "y": LABEL}, "quality": False,
}  # fmt: skip
_NUMBERS = {**_MODEL, "bounds": {"x": RANGE, "y": RANGE}}
_BAYES = {**_MODEL, "model": "GaussianNB"}
_OPEN = {column: {k: v for k, v in RANGE.items() if k != "default"} for column in "xy"}
_COUNTED = {**_MODEL, "missing": "count", "bounds": {**_OPEN, "y": {"type": "set", "values": [0, 1]}}}


def cases() -> list[Case]:
    """List what everybody is told of a model, and the noise of every one, which half of it must not do for."""
    linear = {**_NUMBERS, "model": "LinearRegression", "delta": 1e-2}
    return [
        told("integrated, naive Bayes", _BAYES, _bayes, draws=_DRAWS),
        told("integrated, naive Bayes with what it is worth", {**_BAYES, "quality": True}, _worth, draws=_DRAWS),
        drawn("integrated, naive Bayes", _BAYES, used=0.99),
        drawn("integrated, naive Bayes with delta", {**_BAYES, "delta": 1e-2}, used=0.6),
        drawn("integrated, naive Bayes with what it is worth", {**_BAYES, "quality": True}, used=0.99),
        drawn("integrated, linear with what it is worth", {**linear, "quality": True}, used=0.5),
        drawn("integrated, naive Bayes with its area under the curve", {**_BAYES, "quality": "auc"}, used=0.99),
        drawn("integrated, linear with what it explains", {**linear, "quality": "r2"}, used=0.5),
        drawn("integrated, forest", {**_MODEL, "model": "RandomForestClassifier"}, used=0.99),
        drawn("integrated, forest of numbers", {**_NUMBERS, "model": "RandomForestRegressor"}, used=0.9),
        drawn("integrated, logistic", {**_MODEL, "model": "LogisticRegression", "delta": 1e-2}, used=0.5),
        drawn("integrated, linear", linear, used=0.5),
        *_of_somebody_who_may_be_absent(),
    ]


def _of_somebody_who_may_be_absent() -> list[Case]:
    """List the noise of models where the fifth may have no value at all, which costs no more than another one does."""
    numbers = {**_COUNTED, "bounds": _OPEN, "model": "LinearRegression", "delta": 1e-2}
    models = {
        "naive Bayes": ({**_COUNTED, "model": "GaussianNB"}, 0.7),
        "naive Bayes with delta": ({**_COUNTED, "model": "GaussianNB", "delta": 1e-2}, 0.4),
        "naive Bayes with what it is worth": ({**_COUNTED, "model": "GaussianNB", "quality": True}, 0.4),
        "forest": ({**_COUNTED, "model": "RandomForestClassifier"}, 0.4),
        "forest of numbers": ({**_COUNTED, "bounds": _OPEN, "model": "RandomForestRegressor"}, 0.3),
        "logistic": ({**_COUNTED, "model": "LogisticRegression", "delta": 1e-2}, 0.3),
        "linear": (numbers, 0.3),
    }
    return [
        drawn(f"integrated, {name}, or nobody", fields, used=used, there=ABSENT)
        for name, (fields, used) in models.items()
    ]


def _bayes(release: Any) -> list[float]:
    model = release.model
    parts = (model.means_, model.variances_, model.class_prior_)
    return [float(number) for part in parts for number in np.ravel(np.asarray(part, dtype=np.float64))]


def _worth(release: Any) -> list[float]:
    return [*_bayes(release), release.quality.value, release.quality.guessing, release.quality.people]
