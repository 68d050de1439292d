"""What the owner's own process does to gradients that came from a model it does not trust: make finite, then clip."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake

_SHRINK = 1.0 - 1e-12  # keeps a clipped row inside the ball whatever way float64 rounds


def finite(gradients: NDArray[Any]) -> NDArray[np.float64]:
    """Float64, with every NaN and infinity replaced by 0."""
    values = np.asarray(gradients, dtype=np.float64)
    return np.where(np.isfinite(values), values, 0.0)


def clip_rows(gradients: NDArray[Any], norm: float) -> NDArray[np.float64]:
    """Each row scaled down to Euclidean length at most `norm`, after NaN and infinity became 0.

    Two rows of the result differ by at most 2 `norm` whatever the gradients held; that bound is the sensitivity a
    mechanism may rely on.
    """
    if isinstance(norm, bool) or not isinstance(norm, (int, float)) or not math.isfinite(norm) or norm <= 0:
        raise Mistake("norm", "must be a positive finite number")
    values = finite(gradients)
    if values.ndim != 2:
        raise Mistake("gradients", "must have one row per example")
    # Lengths of rows near the largest float32 stay far inside float64; of larger float64 they would not.
    largest = np.max(np.abs(values), axis=1, initial=0.0, keepdims=True)
    scale = np.where(largest > 1e100, largest, 1.0)
    lengths = np.linalg.norm(values / scale, axis=1, keepdims=True)
    allowed = norm / scale
    factors = np.where(lengths > allowed * _SHRINK, allowed * _SHRINK / np.where(lengths > 0, lengths, 1.0), 1.0)
    return values * factors
