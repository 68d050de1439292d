"""Errors of one answer by who must keep their word: nobody, nobody who can join what they know, or one server.

Each line is simulated: the root of the mean squared distance from the truth about the same people, at the same promise
(epsilon at delta 1e-6). Mixed is told on the assumption that half of the others collude. Seconds are those of the
accountant, whose bound is held beside the same sum without shortcuts.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from thebes.privacy.accounting.mixing import MixedReports, ReportLaw
from thebes.simulation.sweeps import at_epsilon
from thebes.simulation.world import simulate
from thebes.tasks import registry
from thebes.tasks.release import Release

PEOPLE, EPSILONS, REPEATS, DELTA = (1_000, 10_000, 100_000), (0.5, 1.0), 8, 1e-6
_SQL = "SELECT v FROM t.t"
_TOKENS = {"anonymity": "token", "group": "town"}

Read = Callable[[Release], float]


def _share() -> tuple[dict[str, Any], dict[str, Any], Read, Read]:
    two = {"v": {"type": "set", "values": ["a", "b"], "default": "a"}}
    local = {"type": "bounded", "featurizer": _SQL, "bounds": two}
    trusted = {"type": "basic", "server": "trusted", "aggregator": "histogram", "featurizer": _SQL, "bounds": two}
    return (
        local,
        trusted,
        lambda release: float(release.frequencies["v"]["a"]),
        lambda release: float(release.value["a"]) / float(release.certificate.contributors or 1),
    )


def _mean() -> tuple[dict[str, Any], dict[str, Any], Read, Read]:
    unit = {"v": {"type": "range", "low": 0, "high": 1, "default": 0}}
    local = {"type": "bounded", "featurizer": _SQL, "bounds": unit}
    trusted = {"type": "basic", "server": "trusted", "aggregator": "mean", "featurizer": _SQL, "bounds": unit}
    return local, trusted, lambda release: float(release.mean("v")[0]), lambda release: float(release.value)


def _error(document: dict[str, Any], columns: dict[str, Any], read: Read, truth: float) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        off = [read(simulate(document, columns, seed=seed)) - truth for seed in range(REPEATS)]
    return math.sqrt(sum(each * each for each in off) / len(off))


def errors() -> Iterator[dict[str, Any]]:
    """Simulate one line for each answer, number of people and epsilon."""
    draw = np.random.Generator(np.random.PCG64(7))  # made-up people, not noise
    for name, (local, trusted, read, told) in (("share", _share()), ("mean of 0 to 1", _mean())):
        for people in PEOPLE:
            chosen = draw.random(people)
            values = np.where(chosen < 0.3, "a", "b") if name == "share" else chosen
            truth = float(np.mean(values == "a") if name == "share" else values.mean())
            columns = {"v": values}
            for epsilon in EPSILONS:
                asked = {**local, **_TOKENS, "min_count": people, "mixed": {"epsilon": epsilon, "delta": DELTA}}
                mixed = registry.check(asked)
                yield {
                    "answer": name,
                    "people": people,
                    "epsilon": epsilon,
                    "local_used": mixed.epsilon,
                    "local": _error(at_epsilon(local, epsilon), columns, read, truth),
                    "mixed": _error(mixed.as_json(), columns, read, truth),
                    "trusted": _error({**trusted, "epsilon": epsilon}, columns, told, truth),
                }


def _accountant(honest: int) -> dict[str, float]:
    start = time.perf_counter()
    found = MixedReports(ReportLaw.of_any(2.0), honest, delta=DELTA).epsilon_at(DELTA)
    return {"honest": honest, "epsilon": found, "seconds": time.perf_counter() - start}


def run() -> dict[str, Any]:
    """Errors, and how long the accountant takes from a hundred people to ten million."""
    return {"errors": list(errors()), "accountant": [_accountant(10**power) for power in range(2, 8)]}
