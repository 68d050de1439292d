"""The model of a bounded task that people check: linear in a row's vector, as the release fits it, and the guess.

It travels as numbers: whoever checks it computes nothing but sums of products.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.tasks.bounded.encoder import categories, coordinates, vector
from thebes.tasks.bounded.kind import BoundedDocument
from thebes.tasks.document import Range, Values
from thebes.tasks.model_check import gains_of_labels, unusable

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]


def kind_of(document: BoundedDocument) -> str:
    """Return which of the release's models is checked."""
    return "logistic" if isinstance(document.bounds[str(document.predicted)], Values) else "linear"


def shown(release: Any) -> dict[str, Any]:
    """Return the fitted model, and the guess by the release's own numbers: the most frequent value, or the mean."""
    document: BoundedDocument = release.document
    name, bound = str(document.predicted), document.bounds[str(document.predicted)]
    model = release.fit(kind_of(document), output=name).model
    if isinstance(bound, Range):
        guess = float(np.clip(release.moments.mean[release.moments.block(name)[0]], -1, 1))
        return {"weights": [model.coef_.tolist()], "starts": [float(model.intercept_)], "guess": guess}
    shares = [release.frequencies[name][value] for value in bound.values]
    weights, starts, classes = model.coef_, model.intercept_, model.classes_.tolist()
    if len(classes) == 2:
        weights, starts = np.stack([-weights[0], weights[0]]) / 2, np.array([-starts[0], starts[0]]) / 2
    told = {"weights": weights.tolist(), "starts": starts.tolist(), "guess": int(np.argmax(shares))}
    return {**told, "classes": [int(each) for each in classes]}


def gains(document: BoundedDocument, told: Mapping[str, Any], columns: Columns, present: Columns) -> Floats:
    """Return what a model, as it is shown, gains on its guess on each row: right or not for a set; for a range the
    difference of the squared distances, each cut to the range and as a share of its square. Who has no value gains
    nothing."""
    name = str(document.predicted)
    inputs = tuple(column for column in document.gives if column != name)
    bound, rows = document.bounds[name], vector(document, columns, inputs)
    size = sum(1 for axis in coordinates(document) if axis.column != name)
    classes = len(categories(bound)) if isinstance(bound, Values) else 1
    try:
        weights = np.array(told["weights"], dtype=np.float64)
        starts, guess = np.array(told["starts"], dtype=np.float64), float(told["guess"])
        labels = np.array(told["classes"], dtype=np.int64) if isinstance(bound, Values) else np.zeros(1, dtype=np.int64)
    except (LookupError, TypeError, ValueError, OverflowError):
        raise unusable() from None
    fits = weights.shape == (len(labels), size) and starts.shape == (len(labels),) and 1 <= len(labels) <= classes
    if not fits or not (np.abs(weights) < 1e100).all() or not (np.abs(starts) < 1e100).all() or not abs(guess) < 1e6:
        raise unusable()
    scores = rows @ weights.T + starts
    if isinstance(bound, Values):
        return gains_of_labels(labels[np.argmax(scores, axis=1)], int(guess), columns[name])
    true = vector(document, columns, (name,))[:, 0]
    off, guessed = (np.square((true - np.clip(said, -1, 1)) / 2) for said in (scores[:, 0], guess))
    return np.where(present[name], np.clip(guessed - off, -1, 1), 0.0)
