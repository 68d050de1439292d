"""Least squares from noisy second moments of rows that come in batches: one pass in bounded memory, however many.

Must stay true: a row is scaled, shortened and rounded to whole numbers by itself; sums of whole numbers are exact, so
here a matrix product may stand where elsewhere in this room none does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thebes.learning.budget import FitBudget, Reach
from thebes.learning.features import Features
from thebes.learning.scaler import SQUARE_WEIGHT
from thebes.privacy.faults import Mistake

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
#: a fresh pass over the rows: (features, target) of some rows at a time, targets in [-1, 1]
Pass = Callable[[], Iterable[tuple[Floats, Floats]]]

#: Steps to which 1 is cut: sums of products over 8,192 rows are exact in 64-bit floats, over 2^27 in 64-bit integers.
_STEPS = 2**10
#: What a product of two different columns counts over a square: 7/5 is just below sqrt 2.
_SQUARE, _PRODUCT = 5, 7
_ROWS = 2**13
_TARGET_SHARE = Fraction(1, 10)
#: Spreads of the target beyond which it is cut off, and what one spread counts beside a feature.
_FARTHEST, _PULLED = 5.0, 0.4
#: A row's greatest squared length over what rows of such features usually have.
_SHORTENED = 0.8


@dataclass(frozen=True, slots=True)
class LinearModel:
    """The model that least squares found: a weight for each feature, and the target's bounds, which no prediction
    leaves."""

    features: Features
    weights: Floats
    intercept: float
    low: float
    high: float

    def predicted(self, features: Floats) -> Floats:
        """The expected target of rows of features."""
        return np.asarray(np.clip(features @ self.weights + self.intercept, self.low, self.high))

    def predict(self, rows: Any) -> Floats:
        """The expected target of the rows of a table, or as a batch has them (the features' `columns` in order)."""
        return self.predicted(self.features.of(self.features.batch(rows)))

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": "LinearModel",
            "features": self.features.as_json(),
            "weights": self.weights.tolist(),
            "intercept": self.intercept,
            "low": self.low,
            "high": self.high,
        }

    @classmethod
    def of_json(cls, told: Any) -> Self:
        """Read what `as_json` gave; a Mistake where it is something else."""
        features = Features.of_json(told.get("features"))
        try:
            weights = np.array(told["weights"], dtype=np.float64)
            numbers = [float(told[name]) for name in ("intercept", "low", "high")]
        except (KeyError, TypeError, ValueError):
            raise Mistake("model", "is not as Thebes writes it") from None
        if weights.shape != (features.width,) or not np.isfinite(weights).all() or not np.isfinite(numbers).all():
            raise Mistake("model", "has weights that do not fit its features")
        return cls(features, weights, *numbers)


def fitted(
    features: Features,
    ends: tuple[float, float],
    rows: Pass,
    *,
    count: float,
    budget: FitBudget,
    targets: Callable[[], Iterable[Floats]] | None = None,
) -> LinearModel:
    """Least squares on one noisy sum of v v', v = (features, 1, scaled target), beside a tenth of the budget that finds
    the target's middle and spread. `count` is the public number of rows, `ends` the target's bounds; `targets` a pass
    over the targets alone, where that is quicker.

    Reach: |v|^2 is a whole number of at most `longest` after shortening, and the upper triangle of v v', squares
    counted 5 times and products 7 times, is at most 5 |v|^2 long: 25 sum v_i^4 + 49 sum_(i<j) v_i^2 v_j^2 is at most
    25 |v|^4. Two of them are at most twice that apart. A row that is shortened, target and all, is a row of less
    weight. Sufficient statistics as in AdaSSP (Wang 2018), but solved as `_solved` says.
    """
    alone = targets() if targets is not None else (target for _, target in rows())
    middle, spread = _of_target(alone, count, budget, _TARGET_SHARE)
    longest = _longest(features)
    width = features.width + 2
    totals = np.zeros((width, width), dtype=np.int64)
    for inputs, target in rows():
        for start in range(0, len(inputs), _ROWS):
            part = slice(start, start + _ROWS)
            scaled = np.clip((target[part] - middle) / spread, -_FARTHEST, _FARTHEST) * _PULLED
            whole = _whole_rows(inputs[part], scaled, longest)
            totals += (whole.T @ whole).astype(np.int64)
    upper = np.triu_indices(width)
    times = np.where(upper[0] == upper[1], _SQUARE, _PRODUCT)
    reach = float(_SQUARE * longest)
    released = budget.gaussian_counts(totals[upper] * times, reach=Reach(reach, 2 * reach), share=1 - _TARGET_SHARE)
    unit = float(_STEPS) ** 2
    moments = np.zeros((width, width))
    moments[upper] = released.value / times / unit
    moments = moments + moments.T - np.diag(np.diag(moments))
    found = _solved(_mended(moments, features), released.scale / _PRODUCT / unit) / _PULLED
    low, high = ends
    half = (high - low) / 2
    return LinearModel(
        features, found[:-1] * spread * half, low + (middle + spread * float(found[-1]) + 1) * half, low, high
    )


def _longest(features: Features) -> int:
    """The greatest squared length of a row in steps. Rows that are longer count less: were the guess wrong for all of
    them, they would all count less, which is no harm."""
    return math.ceil(_SHORTENED * (features.usual + 1) * _STEPS**2)


def _whole_rows(inputs: Floats, target: Floats, longest: int) -> Floats:
    """Rows (features, 1, target) in whole steps, none of them longer than `longest` (squared), as floats."""
    row = np.empty((len(inputs), inputs.shape[1] + 2))
    row[:, :-2] = inputs
    row[:, -2] = 1.0
    row[:, -1] = target
    row *= _STEPS
    np.rint(row, out=row)
    length = np.einsum("ij,ij->i", row, row)  # whole numbers below 2^53: exact in any order
    late = np.flatnonzero(length > longest)
    if late.size:
        row[late] = np.trunc(row[late] * np.sqrt(longest / length[late])[:, None])
        while (still := late[(row[late] * row[late]).sum(axis=1) > longest]).size:
            row[still] -= np.sign(row[still])
    return row


def _of_target(targets: Iterable[Floats], count: float, budget: FitBudget, share: Fraction) -> tuple[float, float]:
    """Private middle and spread of a target in [-1, 1]; the wider, the less noise lets them be known."""
    sums = budget.gaussian(
        (np.column_stack([target, SQUARE_WEIGHT * target * target]) for target in targets),
        width=2,
        reach=Reach(math.sqrt(1 + SQUARE_WEIGHT**2), 2.0),
        share=share,
    )
    doubt = sums.scale / count
    middle = float(np.clip(sums.value[0] / count, -1, 1))
    square = float(sums.value[1]) / SQUARE_WEIGHT / count - middle**2
    return middle, float(np.clip(math.sqrt(max(square, doubt)), 0.01, 1.0))


def _mended(moments: Floats, features: Features) -> Floats:
    """Noisy moments, corrected where features are 0 and 1: two different ones of a column are never both 1, and the
    square of each is itself, so that its square and its product with 1 are two noisy copies of one number."""
    mended = moments.copy()
    one = features.width
    for start, stop in features.marks:
        own = slice(start, stop)
        copies = np.diag(moments)[own], moments[own, one]
        weight = (_SQUARE / _PRODUCT) ** 2  # of the first, whose noise is 7/5 of the other's
        both = (weight * copies[0] + copies[1]) / (weight + 1)
        mended[own, own] = np.diag(both)
        mended[own, one] = mended[one, own] = both
    return mended


def _solved(moments: Floats, deviation: float) -> Floats:
    """Weights of the features and of 1, for noisy sums S, c with noise of this deviation in each entry.

    Tikhonov's (S S + k k)^-1 S c with k the size of the noise's spectrum, or more where c is mostly noise: a direction
    of which the rows say much more than the noise is solved as least squares would, one of which they say less is left
    at 0. Unlike a ridge on S it needs no bound on the least eigenvalue, which noise may make negative.
    """
    square, cross = moments[:-1, :-1], moments[:-1, -1]
    noise = deviation * math.sqrt(len(square))
    noise *= 1 + 2 * min(1.0, noise**2 / float(cross @ cross))
    return np.asarray(np.linalg.solve(square @ square + noise**2 * np.eye(len(square)), square @ cross))
