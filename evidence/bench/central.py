"""Central statistics of a million rows beside opendp called directly, and our sampler beside opendp's, in one run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from thebes.privacy.mechanisms.histogram import histogram
from thebes.privacy.mechanisms.mean import mean
from thebes.privacy.mechanisms.quantile import median
from thebes.privacy.mechanisms.variance import variance
from thebes.privacy.randomness import system

ROWS, CATEGORIES, DRAWS, EPSILON = 1_000_000, 50, 1_000_000, 1.0
GOAL = 1.3
ROUNDS = 5


def _alternating(*works: Callable[[], Any]) -> list[float]:
    # Best of several turns taken in alternation, so that a busy machine slows all of them alike.
    best = [math.inf] * len(works)
    for _ in range(ROUNDS):
        for i, work in enumerate(works):
            start = time.perf_counter()
            work()
            best[i] = min(best[i], time.perf_counter() - start)
    return best


def _beside(ours: Callable[[], Any], theirs: Callable[[], Any]) -> dict[str, Any]:
    mine, other = _alternating(ours, theirs)
    return {
        "seconds": round(mine, 4),
        "opendp_seconds": round(other, 4),
        "ratio": round(mine / other, 2),
        "goal_met": mine <= GOAL * other,
    }


def run() -> dict[str, Any]:
    """Seconds and ratios; a ratio below 1 is faster than opendp."""
    import opendp.prelude

    dp: Any = opendp.prelude  # most of it has no types
    dp.enable_features("contrib")
    rng = np.random.default_rng(0)
    ages = np.clip(rng.normal(40, 12, ROWS), 0, 100)
    codes = rng.integers(0, CATEGORIES, ROWS)
    names = [f"category {c}" for c in range(CATEGORIES)]
    texts = [names[c] for c in codes]
    real, zeros = system(), np.zeros(DRAWS, dtype=np.int64)

    rows = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    sized = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=ROWS), dp.symmetric_distance()
    whole = dp.vector_domain(dp.atom_domain(T="i64")), dp.symmetric_distance()
    words = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()

    count = whole >> dp.t.then_count() >> dp.m.then_laplace(scale=2 / EPSILON)
    steps = 2**20
    total = whole >> dp.t.then_clamp((-steps // 2, steps // 2)) >> dp.t.then_sum() >> dp.m.then_laplace(steps / EPSILON)

    def their_mean() -> float:  # private n: whole-number sum (opendp's sum of floats keeps 2^20 rows only) and count
        quantised = np.rint((np.clip(ages, 0, 100) - 50) / 100 * steps).astype(np.int64)
        return float(total(quantised) / steps * 100 / max(count(quantised), 1) + 50)

    public = sized >> dp.t.then_clamp((0.0, 100.0)) >> dp.t.then_mean() >> dp.m.then_laplace(100 / ROWS / EPSILON)
    spread = sized >> dp.t.then_clamp((0.0, 100.0)) >> dp.t.then_variance() >> dp.m.then_laplace(1e4 / ROWS / EPSILON)
    grid = np.linspace(0, 100, 1_025).tolist()
    middle = dp.m.make_private_quantile(*rows, dp.max_divergence(), candidates=grid, alpha=0.5, scale=1 / EPSILON)
    of_codes = whole >> dp.t.then_count_by_categories(categories=list(range(CATEGORIES)), TOA="i64")
    of_texts = words >> dp.t.then_count_by_categories(categories=names, TOA="i64")
    of_codes, of_texts = (c >> dp.m.then_laplace(1 / EPSILON) for c in (of_codes, of_texts))
    vector = dp.vector_domain(dp.atom_domain(T="i64"), size=DRAWS // 10)
    laplace = dp.m.make_laplace(vector, dp.l1_distance(T="i64"), scale=1000.0)
    gaussian = dp.m.make_gaussian(vector, dp.l2_distance(T=float), scale=1000.0)

    said: dict[str, Any] = {"epsilon": EPSILON, "adjacency": "add-remove-one", "randomness": real}
    with_n: dict[str, Any] = {**said, "adjacency": "replace-one"}
    within = (0.0, 100.0)
    report: dict[str, Any] = {
        "rows": ROWS,
        "mean_private_n": _beside(lambda: mean(ages, bounds=within, **said), their_mean),
        "mean_public_n": _beside(lambda: mean(ages, bounds=within, **with_n, n=ROWS), lambda: public(ages)),
        "variance_public_n": _beside(lambda: variance(ages, bounds=within, **with_n, n=ROWS), lambda: spread(ages)),
        "median_of_1025_points": _beside(lambda: median(ages, bounds=within, **said, bits=10), lambda: middle(ages)),
        "histogram_of_numbers": _beside(
            lambda: histogram(codes, keys=list(range(CATEGORIES)), **said), lambda: of_codes(codes)
        ),
        "histogram_of_texts": _beside(lambda: histogram(texts, keys=names, **said), lambda: of_texts(texts)),
    }
    own = system()
    for name, theirs in (("laplace", laplace), ("gaussian", gaussian)):
        draw = getattr(own, name)
        mine, other = _alternating(partial(draw, zeros, scale=1000.0), partial(theirs, zeros[: DRAWS // 10]))
        report[f"{name}_draws"] = {
            "million_seconds": round(mine, 3),
            "opendp_million_seconds": round(other * 10, 3),
            "times_faster": round(other * 10 / mine, 1),
        }
    return report
