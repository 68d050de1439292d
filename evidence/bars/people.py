"""Statistics of people who trust a server, through the code that answers their tasks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from evidence.bars.asked import Ask, BarAnswer, Barred, Ends
from evidence.bars.rows import Floats, bounds_of, rows_of, sample_quantiles
from thebes.privacy.randomness import Randomness
from thebes.tasks import registry
from thebes.tasks.basic.kind import BasicDocument
from thebes.tasks.basic.statistics import StatisticAnswer, answer, count_of, histogram_of
from thebes.tasks.missing_values import EpsilonShares

_LEVEL = 0.95
_SMOOTH = ("normal", "lognormal")
_TIED = (*_SMOOTH, "whole numbers", "two lumps")
_MORE_ROWS = (100, 400, 1_000, 2_000, 10_000, 20_000, 100_000)
_DELTA = {"delta": 1e-6}
_PRIVATE = {"missing": "count"}


def barred() -> list[Barred]:
    """List every statistic with declared bounds, with a delta, with a private number of people, and without bounds."""
    made = [
        Barred("count", "people", ("normal",), partial(_asked, "count", {}), _high),
        Barred("histogram, one bin", "people", ("normal",), partial(_asked, "histogram", {"bins": 4}), _first),
        Barred("sum", "people", _SMOOTH, partial(_asked, "sum", {}), _one(np.sum)),
        Barred("sum", "people, with a delta", ("normal",), partial(_asked, "sum", _DELTA), _one(np.sum)),
    ]
    for name, exact, tight in (("mean", np.mean, 1.25), ("variance", np.var, 2.5), ("std", np.std, 2.5)):
        for way, more in (
            ("people", {}),
            ("people, with a delta", _DELTA),
            ("people, some without a value", _PRIVATE),
        ):
            laws = _SMOOTH if not more else ("normal",)
            made.append(Barred(name, way, laws, partial(_asked, name, more), _one(exact), tight))
    for name, fields, alpha in (("median", {}, 0.5), ("quantile", {"quantile": 0.9}, 0.9)):
        between = partial(sample_quantiles, alpha=alpha)
        made.append(Barred(name, "people", _TIED, partial(_asked, name, fields), between, 40.0, _MORE_ROWS))
        private = partial(_asked, name, {**fields, **_PRIVATE})
        made.append(Barred(name, "people, some without a value", _SMOOTH, private, between, 40.0))
    made.append(Barred("iqr", "people", _TIED, partial(_asked, "iqr", {}), _between_quartiles, 60.0))
    long = ("lognormal", "uniform", "exponential")
    for name, exact in (("mean", np.mean), ("std", np.std)):
        asked = partial(_asked, name, {"bounds": None})
        made.append(Barred(name, "people, no bounds", long, asked, _one(exact), 120.0))
    asked = partial(_asked, "median", {"bounds": None})
    made.append(Barred("median", "people, no bounds", long, asked, partial(sample_quantiles, alpha=0.5), 40.0))
    return made


def _asked(aggregator: str, more: dict[str, Any], law: str, n: int, epsilon: float) -> Ask:
    low, high = bounds_of(law)
    fields = {
        "type": "basic",
        "epsilon": epsilon,
        "min_count": 11,
        "featurizer": "SELECT x FROM p.t",
        "aggregator": aggregator,
        "bounds": {"x": {"type": "range", "low": low, "high": high}},
    }
    document = registry.check({**fields, **more, **(_PRIVATE if aggregator == "count" else {})})
    assert isinstance(document, BasicDocument)
    return partial(_answered, document, rows_of(law, n))


def _answered(document: BasicDocument, rows: Floats, randomness: Randomness) -> BarAnswer:
    epsilon, nobody = EpsilonShares.of(document).answer, np.zeros(len(rows), dtype=np.bool_)
    if document.aggregator == "count":
        return _first_of(count_of(document, rows <= np.median(rows), epsilon, randomness))
    if document.aggregator == "histogram":
        return _first_of(histogram_of(document, rows, nobody, epsilon, randomness))
    return _first_of(answer(document, rows[:, None], nobody, epsilon, randomness))


def _first_of(found: StatisticAnswer) -> BarAnswer:
    """The answer, of a histogram the count of its first key."""
    bar, value = found.intervals.get(_LEVEL), found.value
    if isinstance(value, dict):
        value = next(iter(value.values()))
        bar = None if bar is None else type(bar)(bar.level, float(np.ravel(bar.low)[0]), float(np.ravel(bar.high)[0]))
    return BarAnswer(float("nan") if value is None else float(value), bar)


def _one(exact: Callable[[Floats], Any]) -> Callable[[Floats], Ends]:
    return lambda rows: (float(exact(rows)), float(exact(rows)))


def _high(rows: Floats) -> Ends:
    return _one(lambda these: (these > np.median(these)).sum())(rows)


def _first(rows: Floats) -> Ends:
    return _one(lambda these: (these < 25).sum())(rows)


def _between_quartiles(rows: Floats) -> Ends:
    (low, high), (lower, upper) = sample_quantiles(rows, 0.25), sample_quantiles(rows, 0.75)
    return lower - high, upper - low
