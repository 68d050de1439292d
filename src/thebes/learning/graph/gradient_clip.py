"""The treatment, in the owner's own process, of gradients that came from a model it does not trust: make finite, then
clip."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure

LEAST = 1e-200  #: of a length to clip to: numbers near it still have all their digits
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
    if norm < LEAST:
        raise Mistake("norm", f"must be at least {figure(LEAST)}")
    values = np.ascontiguousarray(finite(gradients))  # a row is added up in one order, however many lie beside it
    if values.ndim != 2:
        raise Mistake("gradients", "must have one row per example")
    # Squares of what is larger would be infinite, and of what is smaller 0: then nothing would be shortened.
    largest = np.max(np.abs(values), axis=1, initial=0.0, keepdims=True)
    scale = np.where((largest > 1e100) | ((largest < 1e-100) & (largest > 0)), largest, 1.0)
    scaled = values / scale
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    with np.errstate(over="ignore"):  # to infinity: such a row is far shorter than that
        long = lengths > norm / scale * _SHRINK
    factors = np.where(long, norm * _SHRINK / np.where(lengths > 0, lengths, 1.0), scale)
    return scaled * factors
