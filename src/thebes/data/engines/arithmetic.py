"""The whole numbers that a row turns into, as expressions that every engine computes alike.

Numbers are clamped by comparison, divided and floored in double precision (each step is rounded as IEEE 754 says, so
the same everywhere); quotients of whole numbers are below 2^53 and by powers of two, hence exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import narwhals.stable.v2 as nw

from thebes.data.engines.engine import PRIME
from thebes.data.filter import Among, Compared, Condition, Either, Every, Present
from thebes.data.schema import Column
from thebes.data.table import Factor

FINE = 26  #: bits of the grid by which rows of a batch are told apart
ONE, OTHER = 48_271, 69_621  #: multipliers of generators modulo this prime
_COUNTED = 16  # so many bins are found by comparing with every edge


def holds(condition: Condition, beside: str) -> nw.Expr:
    """A condition, true or false for every row: false where the column that is asked has no value. `beside` is any
    column there is: what asks none (`age = 17.5` of whole numbers) must still say so of every row."""
    if isinstance(condition, (Every, Either)):
        parts = [holds(part, beside) for part in condition.parts]
        parts = parts or [nw.col(beside).is_null(), ~nw.col(beside).is_null()]
        every = isinstance(condition, Every) is bool(condition.parts)  # a column without a value and with one: never
        return folded((lambda a, b: a & b) if every else (lambda a, b: a | b), parts)
    column = nw.col(condition.column)
    there = ~column.is_null()
    if isinstance(condition, Present):
        return there if condition.there else column.is_null()
    if isinstance(condition, Among):
        inside = column.is_in(list(condition.values))
        return there & (inside if condition.inside else ~inside)
    return there & _compared(column, condition)


def _compared(column: nw.Expr, condition: Compared) -> nw.Expr:
    value = condition.value
    if condition.operator == "=":
        return column == value
    if condition.operator == "<>":
        return column != value
    if condition.operator == "<":
        return column < value
    if condition.operator == "<=":
        return column <= value
    return column > value if condition.operator == ">" else column >= value


def clamped(name: str, column: Column) -> nw.Expr:
    """A number within its bounds."""
    number = nw.col(name).cast(nw.Float64)
    return (
        nw.when(number < column.low).then(nw.lit(column.low)).when(number > column.high).then(nw.lit(column.high))
    ).otherwise(number)


def steps(number: nw.Expr, column: Column, bits: int) -> nw.Expr:
    """The grid step of a clamped number: floor((x - low) / (high - low) * 2^bits + 1/2)."""
    grid = column.grid(bits)
    return ((number - grid.low) / (grid.high - grid.low) * float(grid.steps) + 0.5).floor().cast(nw.Int64)


def share(factor: Factor, step: nw.Expr, bits: int) -> nw.Expr:
    """Return how many of its 2^bits tokens a row gives to this place (see `Factor`)."""
    whole = 1 << bits
    if factor.degree == 1:
        return step if factor.place == 1 else whole - step
    square = (step * step / whole).floor().cast(nw.Int64)
    mixed = (2 * step * (whole - step) / whole).floor().cast(nw.Int64)
    return (whole - square - mixed, mixed, square)[factor.place]


def bin_of(name: str, column: Column, edges: Sequence[float]) -> nw.Expr:
    """Find the bin between `edges` in which a column's clamped number lies; the last one has both its ends. Few bins
    are counted, as many as begin at or below the number: what lies beyond a bound is in the bin at its end then. Many
    bins of one width are not searched but reckoned: the first guess may be one off, and an edge is its number times the
    width, rounded as `edges` were."""
    bins, low = len(edges) - 1, edges[0]
    if bins <= _COUNTED:
        number = nw.col(name).cast(nw.Float64)
        begun = [(number >= edge).cast(nw.Int64) for edge in edges[1:-1]]
        return folded(lambda a, b: a + b, begun) if begun else nw.lit(0).cast(nw.Int64)
    number = clamped(name, column)
    width = (edges[-1] - low) / bins
    wide = width > 4 * max(math.ulp(low), math.ulp(edges[-1]))
    if wide and all(edge == place * width + low for place, edge in enumerate(edges[:-1])):
        guess = ((number - low) / width).floor()
        guess = nw.when(guess > bins - 1).then(nw.lit(float(bins - 1))).otherwise(guess)
        below = (number < guess * width + low).cast(nw.Int64)
        above = ((number >= (guess + 1.0) * width + low) & (guess < bins - 1)).cast(nw.Int64)
        return guess.cast(nw.Int64) - below + above

    def among(first: int, last: int) -> nw.Expr:
        if first == last:
            return nw.lit(first)
        middle = (first + last + 1) // 2
        return nw.when(number >= edges[middle]).then(among(middle, last)).otherwise(among(first, middle - 1))

    return among(0, len(edges) - 2).cast(nw.Int64)


def scattered(numbers: Sequence[nw.Expr], multiplier: int = ONE) -> nw.Expr:
    """Portable numbers as one below 2^31, every step a product that fits into 63 bits. An engine may compute an
    expression again wherever it stands, so each number stands in it once."""
    factor, terms = 1, list[nw.Expr]()
    for number in numbers:
        factor = factor * multiplier % PRIME
        positive = nw.when(number < 0).then(-1 - number).otherwise(number)
        terms.append((positive % PRIME * factor + 11) % PRIME)
    return folded(lambda a, b: a + b, terms) % PRIME if terms else nw.lit(1).cast(nw.Int64)


def shuffled(numbers: Sequence[nw.Expr]) -> nw.Expr:
    """Portable numbers as one below 2^31 that says nothing about their order."""
    return (scattered(numbers) * scattered(numbers, OTHER)) % PRIME


def drawn(person: nw.Expr, numbers: Sequence[nw.Expr]) -> nw.Expr:
    """As `shuffled`, differently for every person: a x + b modulo a prime, where a and b are the two halves of the
    person's portable number, so that of two rows each comes first for half of all people."""
    upper = (person / 2**30).floor().cast(nw.Int64)
    return ((person - upper * 2**30 + 1) * scattered(numbers) + upper) % PRIME


def folded(combine: Callable[[nw.Expr, nw.Expr], nw.Expr], parts: Sequence[nw.Expr]) -> nw.Expr:
    """One expression of many, in halves of halves: engines refuse what is nested a thousand deep."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return combine(folded(combine, parts[:half]), folded(combine, parts[half:]))
