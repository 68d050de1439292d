"""The choice of the mechanism that answers a statistic: the one with the least expected error within (epsilon, delta).

Contributions are replace-one neighbours. Where nobody is missing their number is public; where missing values are
counted, one person may also have no row, which every mechanism covers with the whole of epsilon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.accounting import pure
from thebes.privacy.faults import Mistake
from thebes.privacy.grid import Grid
from thebes.privacy.measurement import Interval, Measurement
from thebes.privacy.mechanisms.count import count
from thebes.privacy.mechanisms.histogram import by_key, histogram, histogram_of_unknown_keys, names_of_bins
from thebes.privacy.mechanisms.mean import mean
from thebes.privacy.mechanisms.quantile import iqr, median, quantile
from thebes.privacy.mechanisms.sample_aggregate import IN_PARTS, sample_and_aggregate
from thebes.privacy.mechanisms.sum import sum_
from thebes.privacy.mechanisms.variance import std, variance
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.tasks.basic.kind import BasicDocument
from thebes.tasks.basic.ranges import Ends, ranges_of, told_of
from thebes.tasks.document import Range, Values
from thebes.tasks.missing_values import middle_of, never_empty, told
from thebes.tasks.release import LEVEL, intervals_of


def _width(ends: Ends) -> float:
    return ends[1] - ends[0]


#: where the results of a function of subsets are looked for, from the columns' ranges alone; other functions
#: give a value of the column itself. Results outside are taken for the nearer end.
_RESULTS: Mapping[str, Callable[[list[Ends]], Ends]] = {
    "std": lambda r: (0.0, _width(r[0]) / 2),
    "iqr": lambda r: (0.0, _width(r[0])),
    "mad": lambda r: (0.0, _width(r[0]) / 2),
    "skewness": lambda r: (-10.0, 10.0),
    "kurtosis": lambda r: (-3.0, 30.0),
    "correlation": lambda r: (-1.0, 1.0),
    "rank_correlation": lambda r: (-1.0, 1.0),
    "slope": lambda r: (-2 * _width(r[1]) / _width(r[0]), 2 * _width(r[1]) / _width(r[0])),
}

Floats = NDArray[np.float64]
REPLACE = Adjacency.REPLACE_ONE
_MANY = 10_000  #: people, times epsilon
_COARSE, _FINE = 12, 24  #: bits of the steps of a range for a quantile of few people, and for a spread of many


@dataclass(frozen=True)
class StatisticAnswer:
    """A statistic's value with its error bars; `value` is None where no range could be found."""

    value: Any
    mechanism: str
    parameters: Mapping[str, Any]
    intervals: Mapping[float, Interval]
    delta: float
    bounds: Mapping[str, Any] | None
    estimated: tuple[str, ...] = ()
    explanation: str | None = None
    note: str | None = None  #: why there is no error bar, or of what it is
    beside: Mapping[str, Any] = field(default_factory=dict)  #: what else is told of an estimated range
    missing: Mapping[str, Any] | None = None  #: the people without a value, where the answer itself says how many


def answer(
    document: BasicDocument,
    everyone: Floats,
    missing: NDArray[np.bool_],
    epsilon: Decimal,
    randomness: Randomness,
) -> StatisticAnswer:
    """Compute a statistic of numbers (one row for everyone) for `epsilon`. Rows that are `missing` do not count; their
    number is public, 0, only where the document refuses them."""
    found = ranges_of(document, everyone[~missing], epsilon, randomness, everybody=document.missing == "refuse")
    if found.refused:
        return StatisticAnswer(None, found.mechanism, found.parameters, {}, 0.0, None, ("bounds",), found.refused)
    measured = _over_range(document, everyone, missing, found.ends, epsilon - found.spent, randomness)
    bounds = {c: {"type": "range", "low": r[0], "high": r[1]} for c, r in zip(document.gives, found.ends, strict=True)}
    made = made_of(document, measured, bounds, ("bounds",) if found.unknown else ())
    if not found.unknown:
        return made if measured.mechanism != IN_PARTS else replace(made, note=_of_parts(document, measured))
    told = told_of(document, found, measured)
    parameters = {**made.parameters, "range": dict(found.parameters)}
    return replace(made, intervals=told.intervals, note=told.note, beside=told.beside, parameters=parameters)


def _of_parts(document: BasicDocument, measured: Measurement) -> str:
    """Say of what the bar of a statistic is that was computed in parts, which may all differ from everybody."""
    parts = f"the middle one of {measured.parameters['blocks']} groups' results"
    return f"The interval is of {parts}; the {document.aggregator} of everybody may lie outside it."


def count_of(
    document: BasicDocument, missing: NDArray[np.bool_], epsilon: Decimal, randomness: Randomness
) -> StatisticAnswer:
    """Count the people who have a value: all who contributed, whose number is public, less those who have none."""
    measured = count(~missing, epsilon=epsilon, delta=document.delta, adjacency=REPLACE, randomness=randomness)
    without = replace(measured, value=len(missing) - measured.value)
    return replace(made_of(document, measured, None), missing=told(without))


def _over_range(
    document: BasicDocument,
    everyone: Floats,
    missing: NDArray[np.bool_],
    ranges: list[Ends],
    epsilon: Decimal,
    randomness: Randomness,
) -> Measurement:
    name, values = document.aggregator, everyone[~missing, 0]
    n = len(values) if document.missing == "refuse" and len(values) else None
    additive: Mapping[str, Callable[..., Measurement]] = {"sum": sum_, "mean": mean, "variance": variance, "std": std}
    if name in additive and document.subsets is None:
        # Of many people rounding would be most of a spread's error bar.
        fine = {"bits": _FINE} if name in ("variance", "std") and _bits(n, epsilon) > _COARSE else {}
        return additive[name](
            values,
            bounds=ranges[0],
            epsilon=epsilon,
            delta=document.delta,
            adjacency=REPLACE,
            n=n,
            randomness=randomness,
            **fine,
        )
    ordered: Mapping[str, Callable[..., Measurement]] = {
        "median": median,
        "quantile": partial(quantile, alpha=document.quantile or 0.5),
        "iqr": iqr,
    }
    if name in ordered and document.subsets is None:
        return ordered[name](
            never_empty(values, middle_of(ranges[0])),
            bounds=ranges[0],
            epsilon=epsilon,
            adjacency=REPLACE,
            randomness=randomness,
            n=n,
            bits=_bits(n, epsilon),
            level=LEVEL,
        )
    # Blocks are made of everyone, whose number is public: who has no row changes one block, as who has another does.
    everyone, there = never_empty(everyone), never_empty((~missing).astype(np.float64)) > 0
    subsets = document.subsets or max(3, min(1000, round(len(everyone) ** 0.5)))
    within = np.column_stack([np.clip(np.nan_to_num(everyone[:, i]), *ends) for i, ends in enumerate(ranges)])
    return sample_and_aggregate(
        within if len(ranges) > 1 else within[:, 0],
        function=name,
        blocks=min(subsets, len(everyone)),
        bounds=_RESULTS[name](ranges) if name in _RESULTS else ranges[0],
        epsilon=epsilon,
        adjacency=REPLACE,
        randomness=randomness,
        level=LEVEL,
        there=there,
    )


def _bits(n: int | None, epsilon: Decimal) -> int:
    """Into how many steps (2^bits) to cut the range for a quantile: finer ones where noise would not hide them. More
    grid points are more that can be drawn far away, so few people are asked by a coarse grid."""
    return 16 if n is not None and n * epsilon >= _MANY else _COARSE


def histogram_of(
    document: BasicDocument,
    values: NDArray[Any],
    missing: NDArray[np.bool_],
    epsilon: Decimal,
    randomness: Randomness,
) -> StatisticAnswer:
    """Count the people by value: by declared ones, bins of a range, or the common ones among unknown ones.

    Everybody who contributed is in one of the cells, where missing values are counted in one of their own, which costs
    nothing: one person who changes moves two cells by 1, however many there are.
    """
    bound, delta = (document.bounds or {}).get(document.column), document.delta
    if bound is None:
        measured = histogram_of_unknown_keys(
            values[~missing], epsilon=epsilon, delta=delta, adjacency=REPLACE, randomness=randomness
        )
        return made_of(document, measured, None, ("categories",))
    if isinstance(bound, Values):
        size, found = len(bound.values), values[~missing].astype(np.int64)
        bounds: dict[str, Any] = {"type": "set", "values": list(bound.values)}
    else:
        size, grid = document.bins or 1, Grid(bound.low, bound.high)
        found = np.minimum(grid.integers(values[~missing]) * size // grid.steps, size - 1)
        bounds = {"type": "range", "low": bound.low, "high": bound.high}
    cells = size + (document.missing == "count")
    place = np.full(len(values), size, dtype=np.int64)
    place[~missing] = found
    measured = histogram(
        place,
        keys=list(range(cells)),
        epsilon=epsilon,
        delta=delta,
        adjacency=REPLACE,
        randomness=randomness,
        complete=True,
    )
    made = made_of(document, replace(measured, value=measured.value[:size]), {document.column: bounds})
    if cells == size:
        return made
    return replace(made, missing=told(replace(measured, value=float(measured.value[size]))))


def labels_of(document: BasicDocument) -> list[str] | None:
    """Name a histogram's keys."""
    bound = (document.bounds or {}).get(document.column)
    if isinstance(bound, Values):
        return [str(v) for v in bound.values]
    if isinstance(bound, Range) and document.bins is not None:
        return names_of_bins(np.linspace(bound.low, bound.high, document.bins + 1).tolist())
    return None


def made_of(
    document: BasicDocument,
    measured: Measurement,
    bounds: Mapping[str, Any] | None,
    estimated: tuple[str, ...] = (),
) -> StatisticAnswer:
    value = measured.value
    if document.aggregator == "histogram":
        names = labels_of(document)
        value = by_key(measured) if names is None else dict(zip(names, measured.value.tolist(), strict=True))
    parameters = {k: v for k, v in measured.parameters.items() if k != "keys"}
    delta = 0.0 if _is_pure(measured) else document.delta
    return StatisticAnswer(value, measured.mechanism, parameters, intervals_of(measured), delta, bounds, estimated)


def _is_pure(measured: Measurement) -> bool:
    """Return whether the event has a pure price: then no delta was spent."""
    try:
        pure.price(measured.event, adjacency=measured.adjacency)
    except Mistake:
        return False
    return True
