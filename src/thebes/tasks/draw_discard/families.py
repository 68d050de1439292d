"""Generalised linear models with their own link: what they predict, and the gradient of their negative log-likelihood,
which for all of them is (predicted - seen) times the features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.distributions import expit
from thebes.tasks.draw_discard.features import PeopleBatch

Floats = NDArray[np.float64]

_STEEPEST = 30.0  #: no linear predictor of a Poisson model counts for more: e^30 is far above any range


def predicted(family: str, linear: Floats) -> Floats:
    """The expected output, as the family counts it; the last axis of `linear` has one entry for each predictor."""
    if family == "linear":
        return linear
    if family == "poisson":
        return np.exp(np.minimum(linear, _STEEPEST))
    if family == "logistic":
        return np.asarray(expit(linear))
    odds = np.exp(linear - linear.max(axis=-1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=-1, keepdims=True))


def gradients(family: str, weights: Floats, batch: PeopleBatch) -> Floats:
    """One gradient for each person, at that person's own line of `weights` (or at the only one)."""
    people, _, width = batch.x.shape
    models = weights.reshape(len(weights), -1, width)
    with np.errstate(over="ignore", invalid="ignore"):
        errors = predicted(family, np.matmul(batch.x, models.transpose(0, 2, 1)))
        if family == "multinomial":
            errors = errors - (batch.y[:, :, None] == np.arange(models.shape[1]))
        else:
            errors = errors - batch.y[:, :, None]
        errors *= batch.share[:, :, None]
        return np.asarray(np.matmul(errors.transpose(0, 2, 1), batch.x).reshape(people, -1))
