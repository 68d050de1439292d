"""Arithmetic over what was released: a value and the ends between which the exact one lies.

What must stay true: ends are those of interval arithmetic over the statistics' own, each of which holds so surely that
all that one column uses hold together (union bound); where an operation has no bound, there are none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

Ends = tuple[float, float]
NONE: Ends = (-math.inf, math.inf)


@dataclass(frozen=True)
class BarredValue:
    """A number with its ends, or a key of the group (text, truth), which is exact."""

    value: Any
    ends: Ends = NONE

    @property
    def number(self) -> float:
        return float(self.value)

    @property
    def barred(self) -> bool:
        """Return whether it has ends."""
        return all(map(math.isfinite, self.ends))


Group = Mapping[str, BarredValue]  #: keys and statistics of one group by their names


@dataclass(frozen=True)
class Arithmetic:
    """An expression over the statistics and keys of a group. `uses` names the statistics, each once."""

    uses: frozenset[str]
    of: Callable[[Group], BarredValue]


def constant(value: Any) -> Arithmetic:
    ends = (float(value), float(value)) if isinstance(value, (int, float)) else NONE
    return Arithmetic(frozenset(), lambda group: BarredValue(value, ends))


def statistic(name: str) -> Arithmetic:
    return Arithmetic(frozenset({name}), lambda group: group[name])


def key(name: str) -> Arithmetic:
    return Arithmetic(frozenset(), lambda group: group[name])


def joined(parts: list[Arithmetic], made: Callable[[list[BarredValue]], BarredValue]) -> Arithmetic:
    """Return what is made of several parts."""
    uses = frozenset(name for part in parts for name in part.uses)
    return Arithmetic(uses, lambda group: made([part.of(group) for part in parts]))


def corners(function: Callable[[float, float], float]) -> Callable[[list[BarredValue]], BarredValue]:
    """Apply +, - or *: the ends lie among what the parts' ends give."""

    def made(parts: list[BarredValue]) -> BarredValue:
        one, other = parts
        value = function(one.number, other.number)
        if not (one.barred and other.barred):
            return BarredValue(value)
        found = [function(x, y) for x, y in product(one.ends, other.ends)]
        return BarredValue(value, (min(found), max(found)))

    return made


def divided(parts: list[BarredValue]) -> BarredValue:
    """Divide; without ends where the divisor may be 0, and no number where it is."""
    one, other = parts
    if other.number == 0:
        return BarredValue(math.nan)
    value = one.number / other.number
    if not (one.barred and other.barred) or other.ends[0] <= 0 <= other.ends[1]:
        return BarredValue(value)
    found = [x / y for x, y in product(one.ends, other.ends)]
    return BarredValue(value, (min(found), max(found)))


def rising(
    function: Callable[[float], float], *, least: float = -math.inf
) -> Callable[[list[BarredValue]], BarredValue]:
    """Apply a function that rises from `least` on: what noise took below counts as `least`."""

    def made(parts: list[BarredValue]) -> BarredValue:
        (part,) = parts
        value = _safe(function, max(part.number, least))
        if not part.barred or part.ends[1] < least:
            return BarredValue(value)
        return BarredValue(
            value, (_safe(function, max(part.ends[0], least)), _safe(function, max(part.ends[1], least)))
        )

    return made


def absolute(parts: list[BarredValue]) -> BarredValue:
    (part,) = parts
    low, high = part.ends
    near = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return BarredValue(abs(part.number), (near, max(abs(low), abs(high))) if part.barred else NONE)


def power(parts: list[BarredValue]) -> BarredValue:
    """Raise to a power; ends where the base is not negative and the exponent is exact and above 0."""
    base, exponent = parts
    raised = exponent.number
    value = _safe(lambda x: x**raised, base.number)
    exactly = exponent.ends == (raised, raised) and raised > 0
    if not exactly or not base.barred:
        return BarredValue(value)
    low, high = base.ends
    if low >= 0:
        return BarredValue(value, (_safe(lambda x: x**raised, low), _safe(lambda x: x**raised, high)))
    if raised == 2:
        return BarredValue(value, (0.0 if high >= 0 else high * high, max(low * low, high * high)))
    return BarredValue(value)


def filled(parts: list[BarredValue]) -> BarredValue:
    """Take the second where the first is no number. The exact one may be either, so the ends hold both."""
    one, other = parts
    if not isinstance(one.value, float):
        return one
    value = other.number if math.isnan(one.number) else one.number
    if not one.barred:
        return BarredValue(value)
    return BarredValue(value, (min(one.ends[0], other.number), max(one.ends[1], other.number)))


def compared(function: Callable[[Any, Any], bool]) -> Callable[[list[BarredValue]], BarredValue]:
    return lambda parts: BarredValue(bool(function(parts[0].value, parts[1].value)))


def _safe(function: Callable[[float], Any], value: float) -> float:
    try:
        found = function(value)
    except (ValueError, OverflowError, ZeroDivisionError):
        return math.nan
    return float(found) if isinstance(found, (int, float)) else math.nan
