"""The cost of accounting: ten thousand events, one more event on a long history, and dp-accounting beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from thebes.privacy.accounting import distribution, gaussian, renyi, report
from thebes.privacy.events import Event, GaussianEvent, LaplaceEvent, PoissonGaussianEvent, Repeated
from thebes.privacy.losses import repeat

DELTA = 1e-6
EVENTS = 10_000
RATIOS = [float(r) for r in np.linspace(100, 400, EVENTS)]


def run() -> dict[str, Any]:
    """Milliseconds, figures, and ratios to dp-accounting called directly in the same run."""
    gaussian.epsilon_of(1.0, DELTA)  # imports are paid for elsewhere
    return {
        "10000 different Gaussians": _gaussians(),
        "one more event on a Renyi curve": _increment(),
        "10000 rounds of sampled Gaussian noise": _rounds(),
        "mixed report of 210 events": _mixed(),
    }


def _timed(job: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """The least milliseconds of some tries, and the last result."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = job()
        times.append(1000 * (time.perf_counter() - start))
    return min(times), result


def _total(events: Event | list[Event], delta: float = DELTA) -> report.Total:
    return report.total(events, adjacency="add-remove-one", delta=delta, unit="event")


def _gaussians() -> dict[str, float]:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    events: list[Event] = [GaussianEvent(ratio) for ratio in RATIOS]

    def theirs() -> float:
        accountant = RdpAccountant()
        for ratio in RATIOS:
            accountant.compose(dp_accounting.GaussianDpEvent(ratio))
        return float(accountant.get_epsilon(DELTA))

    exact_ms, exact = _timed(lambda: gaussian.price([GaussianEvent(r) for r in RATIOS], delta=DELTA), 5)
    total_ms, total = _timed(lambda: _total(events), 3)
    theirs_ms, renyi_epsilon = _timed(theirs)
    return {
        "exact ms (goal below 50)": exact_ms,
        "best of all accountants ms": total_ms,
        "dp-accounting Renyi ms": theirs_ms,
        "dp-accounting ms / exact ms": theirs_ms / exact_ms,
        "exact epsilon": float(exact.epsilon),
        "reported epsilon": float(total.epsilon),
        "dp-accounting Renyi epsilon": renyi_epsilon,
    }


def _increment() -> dict[str, float]:
    one = renyi.price(LaplaceEvent(30.0), adjacency="add-remove-one")

    def microseconds_after(history: int) -> float:
        running = repeat(one, history)

        def many() -> None:
            for _ in range(1000):
                _ = running + one

        return _timed(many, 5)[0]

    after_ten, after_many = microseconds_after(10), microseconds_after(1_000_000)
    return {
        "us after 10 events": after_ten,
        "us after 1000000 events": after_many,
        "ratio (goal about 1)": after_many / after_ten,
    }


def _rounds() -> dict[str, float]:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    def theirs() -> float:
        accountant = PLDAccountant()
        accountant.compose(dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.1)), EVENTS)
        return float(accountant.get_epsilon(1e-5))

    ours_ms, ours = _timed(lambda: _total(Repeated(PoissonGaussianEvent(0.01, 1.1), EVENTS), 1e-5))
    theirs_ms, epsilon = _timed(theirs)
    return {
        "ms": ours_ms,
        "dp-accounting distribution ms": theirs_ms,
        "ms / dp-accounting ms": ours_ms / theirs_ms,
        "epsilon": float(ours.epsilon),
        "dp-accounting epsilon": epsilon,
    }


def _mixed() -> dict[str, float]:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    scales = [float(r) for r in np.linspace(20, 400, 200)]

    def theirs() -> float:
        accountant = PLDAccountant()
        for scale in scales:
            accountant.compose(dp_accounting.LaplaceDpEvent(scale))
        accountant.compose(dp_accounting.GaussianDpEvent(30.0), 10)
        return float(accountant.get_epsilon(DELTA))

    distribution._once.cache_clear()  # otherwise a second run would time the cache
    events: list[Event] = [*(LaplaceEvent(scale, 2**30) for scale in scales), Repeated(GaussianEvent(30.0), 10)]
    ours_ms, ours = _timed(lambda: _total(events))
    theirs_ms, epsilon = _timed(theirs)
    return {
        "ms": ours_ms,
        "dp-accounting distribution ms": theirs_ms,
        "ms / dp-accounting ms": ours_ms / theirs_ms,
        "epsilon": float(ours.epsilon),
        "dp-accounting epsilon": epsilon,
        "epsilon by sums alone": float(ours.considered["approximate"]),
    }
