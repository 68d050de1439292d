"""Rows that bars are measured over: smooth ones, long tails, ties, and two lumps with the median between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: (rows of a law, the declared high end; the low end is 0)
LAWS: dict[str, tuple[Callable[[int, np.random.Generator], Floats], float]] = {
    "normal": (lambda n, r: r.normal(50, 15, n), 100.0),
    "lognormal": (lambda n, r: r.lognormal(3, 1, n), 1000.0),
    "whole numbers": (lambda n, r: r.binomial(10, 0.4, n).astype(np.float64), 10.0),
    "two lumps": (lambda n, r: np.where(np.arange(n) % 2 == 0, 10.0, 90.0), 100.0),
    "uniform": (lambda n, r: r.uniform(0, 100, n), 100.0),
    "exponential": (lambda n, r: r.exponential(1, n), 100.0),
}


@lru_cache(maxsize=64)
def rows_of(law: str, n: int) -> Floats:
    """The rows of a law, always the same ones, within its bounds."""
    make, high = LAWS[law]
    rows = np.clip(make(n, np.random.default_rng(n)), 0, high)
    rows.setflags(write=False)
    return rows


def bounds_of(law: str) -> tuple[float, float]:
    """The declared bounds of a law."""
    return 0.0, LAWS[law][1]


def sample_quantiles(rows: Floats, alpha: float) -> tuple[float, float]:
    """The lowest and the highest value with at most alpha n rows below it and (1 - alpha) n above."""
    ordered, rank = np.sort(rows), alpha * rows.size
    first, last = int(np.ceil(rank - 1e-9)) - 1, int(np.floor(rank + 1e-9))
    return float(ordered[max(first, 0)]), float(ordered[min(last, rows.size - 1)])
