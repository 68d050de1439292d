"""The audit's rows of statistics of people who trust a server: what everybody is told, and the noise on it."""

from __future__ import annotations

from typing import Any

from thebes.tasks.audit.case import Case
from thebes.tasks.audit.people import RANGE, SET, drawn, told
from thebes.tasks.release import Release

_DRAWS = 1500
_NUMBER = {"type": "basic", "featurizer": "SELECT x FROM p.t", "bounds": {"x": RANGE}}
_CATEGORY = {"type": "basic", "featurizer": "SELECT g FROM p.t", "bounds": {"g": SET}, "aggregator": "histogram"}
_TWO = {**_CATEGORY, "bounds": {"g": {**SET, "values": SET["values"][::2]}}}


def cases() -> list[Case]:
    """List releases of every statistic; and the noise of those that add any, which half of it must not do for."""
    return [
        told("basic, mean", _number("mean"), _value, draws=_DRAWS),
        told("basic, median", _number("median"), _value, draws=_DRAWS),
        told("basic, histogram", _CATEGORY, _counts, draws=_DRAWS),
        told("basic, mean with delta", {**_number("mean"), "delta": 1e-2}, _value, draws=_DRAWS),
        drawn("basic, sum", _number("sum"), used=0.99),
        drawn("basic, mean", _number("mean"), used=0.99),
        drawn("basic, variance", _number("variance"), used=0.6),
        drawn("basic, mean over a range that is looked for", {**_number("mean"), "bounds": {}}, used=0.29),
        drawn("basic, histogram", _CATEGORY, used=0.99),
        drawn("basic, histogram of two values", _TWO, used=0.99),
        drawn("basic, histogram with delta", {**_CATEGORY, "epsilon": 0.3, "delta": 1e-2}, used=0.99),
    ]


def _number(aggregator: str) -> dict[str, Any]:
    return {**_NUMBER, "aggregator": aggregator}


def _value(release: Release) -> list[float]:
    return [float(release.value)]


def _counts(release: Release) -> list[float]:
    return [float(count) for count in release.value.values()]
