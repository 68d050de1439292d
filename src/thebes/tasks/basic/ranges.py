"""The ranges of a statistic's columns, declared or estimated, and what is told of values that an estimated one cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.figures import figure, percent
from thebes.privacy.measurement import Interval, Measurement
from thebes.privacy.mechanisms.bounds import NoBounds, estimate_bounds
from thebes.privacy.mechanisms.estimated_range import ASSUMED, EstimatedRange, estimate_range, of_all_values
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.tasks.basic.kind import BasicDocument
from thebes.tasks.basic.range_choice import BOUNDS_SHARE, RANGE_SHARE
from thebes.tasks.document import FARTHEST, Range
from thebes.tasks.missing_values import never_empty, part
from thebes.tasks.release import LEVEL, intervals_of

Ends = tuple[float, float]
MOST_OUTSIDE = 0.1  #: with more of the values outside there is none


@dataclass(frozen=True)
class FoundRanges:
    """The range of each column, and what it took to find those that nobody declared."""

    ends: list[Ends]
    unknown: tuple[str, ...] = ()
    spent: Decimal = Decimal(0)
    outside: EstimatedRange | None = None  #: where the values outside were counted
    refused: str = ""  #: why there is no answer
    mechanism: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ToldOfRange:
    """The facts that a release over an estimated range tells: error bars, of what they are, and what else is known."""

    intervals: Mapping[float, Interval]
    note: str
    beside: Mapping[str, Any] = field(default_factory=dict)


def ranges_of(
    document: BasicDocument, table: NDArray[np.float64], epsilon: Decimal, randomness: Randomness, *, everybody: bool
) -> FoundRanges:
    """Take the declared ranges, and estimate the others with a part of `epsilon`."""
    unknown = tuple(c for c in document.gives if c not in (document.bounds or {}))
    outward = document.aggregator in ASSUMED and document.subsets is None
    spent = part(epsilon, RANGE_SHARE if outward else BOUNDS_SHARE) if unknown else Decimal(0)
    ends: list[Ends] = []
    outside, parameters = None, dict[str, Any]()
    for place, column in enumerate(document.gives):
        bound = (document.bounds or {}).get(column)
        if isinstance(bound, Range):
            ends.append((bound.low, bound.high))
            continue
        values = never_empty(table[:, place])
        if outward:
            public = len(values) if everybody else None
            found = estimate_range(
                values, epsilon=spent, adjacency=Adjacency.REPLACE_ONE, n=public, randomness=randomness
            )
        else:
            found = estimate_bounds(
                values,
                epsilon=part(spent, Decimal(1) / len(unknown)),
                adjacency=Adjacency.REPLACE_ONE,
                randomness=randomness,
                false_positive=0.01,
            )
        seen = found.value
        if isinstance(seen, NoBounds):
            refused = seen.sentence
        else:
            parameters[column] = found.parameters
            outside = seen if isinstance(seen, EstimatedRange) else None
            bounds = seen if outside is None else outside.bounds
            ends.append((bounds.low, bounds.high))
            far = bounds.high - bounds.low > FARTHEST
            refused = f"The values of {column!r} reach too far. Say which range they have." if far else ""
        if refused:
            return FoundRanges([], unknown, spent, None, refused, found.mechanism, found.parameters)
    return FoundRanges(ends, unknown, spent, outside, parameters=parameters)


def told_of(document: BasicDocument, found: FoundRanges, measured: Measurement) -> ToldOfRange:
    """Say what is known of the values as they are, where the range was estimated and values outside were cut off.

    A quantile moves only if it lies outside itself. Cutting keeps the order of values and leaves those inside the range
    as they are; so where all quantiles of the cut values lie strictly inside, they are those of the values themselves,
    and a bar that encloses the ones encloses the others. A bar that reaches an end is left out: beyond it nothing was
    looked for. So of all draws no more than before show a bar that is wrong. What moves with far values has the bar of
    `of_all_values`, and anything else has none.
    """
    names, bars = " and ".join(map(repr, found.unknown)), intervals_of(measured)
    of = f"the range of {names} was estimated from the data, and values outside were cut off"
    advice = "Declare bounds to get an interval."
    if found.outside is not None:
        return _counted(document, found.outside, measured, names)
    if document.aggregator not in ("median", "quantile"):
        far = f"how far that moves the {document.aggregator} is not known"
        return ToldOfRange({}, f"No interval: {of}; {far}. {advice}")
    low, high = found.ends[0]
    if all(low < float(bar.low) and float(bar.high) < high for bar in bars.values()):
        return ToldOfRange(bars, f"About the values as they are: {of}, but the interval ends inside it.")
    return ToldOfRange({}, f"No interval: {of}; it would reach beyond that range. {advice}")


def _counted(document: BasicDocument, outside: EstimatedRange, measured: Measurement, names: str) -> ToldOfRange:
    """Tell of a statistic that far values move, where those outside the range were counted."""
    name, most = document.aggregator, outside.share(LEVEL)
    cut = f"values cut to {figure(outside.bounds.low)} .. {figure(outside.bounds.high)}"
    alone = measured.interval(LEVEL)
    assert alone is not None  # noqa: S101
    beside: dict[str, Any] = {
        "outside": {"upto": most},
        "cut_values": {"interval_of": "cut values", "interval": alone.as_json()},
    }
    if most > MOST_OUTSIDE:
        why = (
            f"the range of {names} was estimated from the data, and up to {percent(most)} of the values may lie outside"
        )
        note = f"No interval: {why}; this is the {name} of {cut}. Declare bounds to get an interval."
        return ToldOfRange({}, note, {**beside, "value_of": f"{name} of {cut}"})
    note = (
        f"The interval is of all values, also those outside: it holds if {ASSUMED[name]}. The range of {names} was "
        f"estimated from the data; at most {percent(most)} lie outside and were cut off. Of the {cut} alone the "
        f"interval is {figure(alone.low)} to {figure(alone.high)}. Declare bounds to get a shorter one."
    )
    return ToldOfRange(intervals_of(of_all_values(measured, outside, name)), note, beside)
