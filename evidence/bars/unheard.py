"""Means and shares of people who trust nobody: each changes an own value at random before it leaves."""

from __future__ import annotations

from functools import partial

import numpy as np

from evidence.bars.asked import ROWS, Ask, BarAnswer, Barred, Ends
from evidence.bars.rows import Floats, bounds_of, rows_of
from thebes.privacy.measurement import Interval
from thebes.privacy.mechanisms.local.categories import CategoryMechanism
from thebes.privacy.mechanisms.local.choose import CATEGORICAL, NUMERIC
from thebes.privacy.mechanisms.local.numbers import NumberMechanism
from thebes.privacy.randomness import Randomness

_LEVEL = 0.95
_SIZE = 5  #: categories, fifths of the range


def barred() -> list[Barred]:
    """List every mechanism for one number and for one category."""
    numbers = [
        Barred(
            "mean", f"trusting nobody, {name}", ("normal", "two lumps"), partial(_number, name), _mean, 2.0, ROWS[:3]
        )
        for name in NUMERIC
    ]
    shares = [
        Barred(
            "share of a value", f"trusting nobody, {name}", ("normal",), partial(_category, name), _share, 2.0, ROWS[:3]
        )
        for name in CATEGORICAL
    ]
    return [*numbers, *shares]


def _mean(rows: Floats) -> Ends:
    return float(rows.mean()), float(rows.mean())


def _fifths(rows: Floats) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.minimum(rows * _SIZE // 100, _SIZE - 1).astype(np.int64)


def _share(rows: Floats) -> Ends:
    share = float((_fifths(rows) == 1).mean())
    return share, share


def _number(name: str, law: str, n: int, epsilon: float) -> Ask:
    low, high = bounds_of(law)
    return partial(_mean_of, NUMERIC[name](low, high, str(epsilon)), rows_of(law, n))


def _mean_of(mechanism: NumberMechanism, rows: Floats, randomness: Randomness) -> BarAnswer:
    found = mechanism.estimate(mechanism.perturb(rows, randomness))
    bar = found.interval(_LEVEL)
    return BarAnswer(float(found.value), Interval(_LEVEL, float(bar.low), float(bar.high)))


def _category(name: str, law: str, n: int, epsilon: float) -> Ask:
    return partial(_share_of, CATEGORICAL[name](_SIZE, str(epsilon)), _fifths(rows_of(law, n)))


def _share_of(
    mechanism: CategoryMechanism, places: np.ndarray[tuple[int, ...], np.dtype[np.int64]], randomness: Randomness
) -> BarAnswer:
    found = mechanism.estimate(mechanism.perturb(places, randomness))
    bar = found.interval(_LEVEL)
    return BarAnswer(
        float(found.value[1]), Interval(_LEVEL, float(np.asarray(bar.low)[1]), float(np.asarray(bar.high)[1]))
    )
