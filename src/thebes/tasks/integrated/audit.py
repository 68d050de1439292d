"""The audit's rows of models of people who trust a server. Other models are attacked beside all estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

from thebes.tasks.audit.case import Case
from thebes.tasks.audit.people import LABEL, RANGE, drawn, told

_DRAWS = 400
_MODEL: dict[str, Any] = {
    "type": "integrated", "inputs": ["x"], "output": "y", "featurizer": "SELECT x, y FROM p.t",
    "bounds": {"x": RANGE, "y": LABEL},
}  # fmt: skip
_NUMBERS = {**_MODEL, "bounds": {"x": RANGE, "y": RANGE}}
_BAYES = {**_MODEL, "model": "GaussianNB"}


def cases() -> list[Case]:
    """List what everybody is told of a model, and the noise of every one, which half of it must not do for."""
    linear = {**_NUMBERS, "model": "LinearRegression", "delta": 1e-2}
    return [
        told("integrated, naive Bayes", _BAYES, _bayes, draws=_DRAWS),
        drawn("integrated, naive Bayes", _BAYES, used=0.99),
        drawn("integrated, naive Bayes with delta", {**_BAYES, "delta": 1e-2}, used=0.6),
        drawn("integrated, forest", {**_MODEL, "model": "RandomForestClassifier"}, used=0.99),
        drawn("integrated, logistic", {**_MODEL, "model": "LogisticRegression", "delta": 1e-2}, used=0.5),
        drawn("integrated, linear", linear, used=0.5),
    ]


def _bayes(release: Any) -> list[float]:
    model = release.model
    parts = (model.means_, model.variances_, model.class_prior_)
    return [float(number) for part in parts for number in np.ravel(np.asarray(part, dtype=np.float64))]
