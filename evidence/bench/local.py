"""Time that local randomisers take for a million people, beside numpy drawing the same amount of (unsafe) noise."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from thebes.privacy.mechanisms.local import (
    AsymmetricUnaryEncoding,
    HadamardResponse,
    Hybrid,
    LocalGaussian,
    LocalLaplace,
    Piecewise,
    PrivUnit,
    RandomizedResponse,
    SubsetSelection,
    SymmetricUnaryEncoding,
    TwoPoint,
)
from thebes.privacy.randomness import system

PEOPLE, CATEGORIES, EPSILON = 1_000_000, 16, 1.0
ROWS, COLUMNS = 100_000, 10
ROUNDS = 3


def _seconds(work: Callable[[], Any]) -> float:
    best = math.inf
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def _entry(size: str, perturb: Callable[[], Any], read: Callable[[], Any], plain: Callable[[], Any]) -> dict[str, Any]:
    plain_seconds, seconds = _seconds(plain), _seconds(perturb)
    return {
        "size": size,
        "seconds": seconds,
        "numpy_seconds": plain_seconds,
        "ratio_to_numpy": seconds / plain_seconds,
        "estimate_seconds": _seconds(read),
    }


def run() -> dict[str, Any]:
    """Seconds to perturb with system entropy, the ratio to numpy's own generator, and seconds to estimate."""
    rng, ours = np.random.default_rng(0), system()
    n, k = PEOPLE, CATEGORIES
    categories, shares = rng.integers(0, k, n), rng.random(n)
    people = f"{n} people, {k} categories"

    def respond() -> Any:
        return np.where(rng.random(n) < 0.2, categories, rng.integers(0, k, n))

    def bits() -> Any:
        return rng.random((n, k)) < 0.3

    def subsets() -> Any:
        return np.argpartition(rng.random((n, k)), 4, axis=1)[:, :4]

    plain = {
        RandomizedResponse: respond,
        SymmetricUnaryEncoding: bits,
        AsymmetricUnaryEncoding: bits,
        SubsetSelection: subsets,
        HadamardResponse: respond,
    }
    results: dict[str, Any] = {}
    for kind, baseline in plain.items():
        mechanism = kind(k, EPSILON)
        reports = mechanism.perturb(categories, ours)
        results[mechanism.name] = _entry(
            people,
            partial(mechanism.perturb, categories, ours),
            partial(mechanism.estimate, reports),
            baseline,
        )
    numbers = {
        LocalLaplace(0, 1, EPSILON): lambda: shares + rng.laplace(size=n),
        LocalGaussian(0, 1, EPSILON, 1e-6): lambda: shares + rng.normal(size=n),
        TwoPoint(0, 1, EPSILON): lambda: rng.random(n) < shares,
        Piecewise(0, 1, EPSILON): lambda: np.where(rng.random(n) < 0.6, shares + rng.random(n), 2 * rng.random(n)),
        Hybrid(0, 1, EPSILON): lambda: np.where(rng.random(n) < 0.4, shares + rng.random(n), 2 * rng.random(n)),
    }
    for number, baseline in numbers.items():
        reports = number.perturb(shares, ours)
        results[number.name] = _entry(
            f"{n} people, one number",
            partial(number.perturb, shares, ours),
            partial(number.estimate, reports),
            baseline,
        )
    rows = rng.normal(size=(ROWS, COLUMNS)) / 5

    def directions() -> Any:
        drawn = rng.normal(size=(ROWS, COLUMNS + 1))
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    unit = PrivUnit(COLUMNS, 8)
    reports = unit.perturb(rows, ours)
    results[unit.name] = _entry(
        f"{ROWS} rows of {COLUMNS} columns",
        lambda: unit.perturb(rows, ours),
        lambda: unit.second_moment(reports),
        directions,
    )
    return results


if __name__ == "__main__":
    for name, found in run().items():
        print(
            f"{name:22s} {found['size']:34s} {found['seconds']:7.3f} s  {found['ratio_to_numpy']:6.2f} x numpy"
            f"   read in {found['estimate_seconds']:.3f} s"
        )
