"""Bounds of columns and where they come from: somebody declared them, or a part of the budget bought them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import numpy as np

from thebes.learning.budget import FitBudget, Floats
from thebes.learning.rows import Box
from thebes.privacy.exact import EPSILON_STEP
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.bounds import NoBounds, estimate_bounds

TARGET = "y"
EVERY = "*"  #: stands for every feature column that has no bounds of its own


def given_box(bounds: Any, width: int, names: Any, *, with_target: bool) -> Box:
    """Declared bounds by column name or index, "*" for all others, and "y" for the target, as one box."""
    if not isinstance(bounds, Mapping):
        raise Mistake("bounds", 'must be a mapping {column name or index: (low, high)} or "estimate"')
    position = {name: j for j, name in enumerate(() if names is None else names)}
    pairs: list[tuple[float, float] | None] = [None] * (width + with_target)
    for key, pair in bounds.items():
        if key == EVERY:
            continue
        if with_target and isinstance(key, str) and key == TARGET:
            place = width
        elif isinstance(key, str) and key in position:
            place = position[key]
        elif isinstance(key, (int, np.integer)) and not isinstance(key, bool) and 0 <= key < width:
            place = int(key)
        elif isinstance(key, str) and key == TARGET:
            continue  # a classifier has no use for it, and a caller may share one mapping
        else:
            raise Mistake("bounds", f"name a column that X does not have: {key!r}")
        if pairs[place] is not None:
            raise Mistake("bounds", f"name one column twice: {key!r}")
        pairs[place] = _pair(key, pair)
    if EVERY in bounds:
        rest = _pair(EVERY, bounds[EVERY])
        pairs[:width] = [rest if pair is None else pair for pair in pairs[:width]]
    for place, known in enumerate(pairs):
        if known is None:
            name = TARGET if place == width else place if names is None else str(names[place])
            raise Mistake("bounds", f'are missing for {name!r}: add {name!r}: (low, high), or say bounds="estimate"')
    box = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return Box(box[:, 0].copy(), box[:, 1].copy())


def _pair(key: Any, pair: Any) -> tuple[float, float]:
    try:
        low, high = (float(edge) for edge in pair)
    except (TypeError, ValueError, OverflowError):
        raise Mistake("bounds", f"of {key!r} must be a pair of numbers (low, high)") from None
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(high - low)):
        raise Mistake("bounds", f"of {key!r} must be finite")
    if not low < high:
        raise Mistake("bounds", f"of {key!r} are reversed or equal: low must be smaller than high")
    return low, high


def estimated_box(columns: Floats, budget: FitBudget, epsilon: Decimal, *, names: list[Any]) -> Box:
    """A box from one private histogram over powers of two per column, each with an equal part of `epsilon` (pure).

    A missing number is in no bin. Where the number of rows is public and all are missing, one 0 stands in: the
    histogram of nothing is then that of one row, and a neighbour has one row with another value, as ever.
    Where no range stands out of the noise, that (released) fact is the answer: the fit stops and the part is spent.
    """
    each = (epsilon / columns.shape[1]).quantize(EPSILON_STEP, ROUND_FLOOR)
    pairs = []
    for column, name in zip(columns.T, names, strict=True):
        known = column[~np.isnan(column)]
        if not len(known) and budget.counts_are_public:
            known = np.zeros(1)
        found = estimate_bounds(known, epsilon=each, adjacency=budget.adjacency, randomness=budget.randomness).value
        if isinstance(found, NoBounds):
            raise Mistake("bounds", f"of {name!r} could not be estimated. {found.sentence}")
        pairs.append((found.low, found.high))
    box = np.array(pairs, dtype=np.float64)
    return Box(box[:, 0].copy(), box[:, 1].copy())
