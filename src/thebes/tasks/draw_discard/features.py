"""A row as the numbers a generalised linear model multiplies its weights with; public, the same at every owner.

The intercept comes first, then each input in order: a set of m values as m - 1 columns of 0 and 1 (the last value is
the reference), a range scaled to [0, 1]; then every cross, the products of both inputs' columns. So a new model needs
no change at any owner.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.tasks.document import Range, Values
from thebes.tasks.draw_discard.kind import MOST_ROWS, DrawDiscardDocument

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

INTERCEPT = "intercept"


@dataclass(frozen=True)
class DesignColumns:
    """The columns of a design, as the document describes them."""

    document: DrawDiscardDocument

    @cached_property
    def blocks(self) -> dict[str, slice]:
        """The columns of a design that each input has to itself."""
        found, start = {}, 1
        for column in self.document.inputs:
            stop = start + len(self._own(column))
            found[column], start = slice(start, stop), stop
        return found

    @property
    def count(self) -> int:
        """The number of columns that a design has, without naming them."""
        wide: dict[str, int] = {column: block.stop - block.start for column, block in self.blocks.items()}
        return 1 + sum(wide.values()) + sum(wide[a] * wide[b] for a, b in self.document.pairs)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The name of each column: `d`, `b=1`, `b=1 x d`."""
        crossed = (f"{x} x {y}" for a, b in self.document.pairs for x in self._own(a) for y in self._own(b))
        return (INTERCEPT, *(name for column in self.document.inputs for name in self._own(column)), *crossed)

    def _own(self, column: str) -> tuple[str, ...]:
        bound = self.document.bounds[column]
        return tuple(f"{column}={v}" for v in bound.values[:-1]) if isinstance(bound, Values) else (column,)

    def design(self, columns: list[NDArray[Any]]) -> Floats:
        """One line for each row: `columns` are categories' numbers and scaled ranges, in the order of the inputs."""
        rows = len(columns[0])
        table = np.empty((rows, self.count))
        table[:, 0] = 1.0
        for column, values in zip(self.document.inputs, columns, strict=True):
            bound, block = self.document.bounds[column], self.blocks[column]
            if isinstance(bound, Values):
                table[:, block] = values[:, None] == np.arange(len(bound.values) - 1)
            else:
                table[:, block.start] = values
        start = 1 + sum(block.stop - block.start for block in self.blocks.values())
        for a, b in self.document.pairs:
            crossed = table[:, self.blocks[a], None] * table[:, None, self.blocks[b]]
            stop = start + crossed.shape[1] * crossed.shape[2]
            table[:, start:stop] = crossed.reshape(rows, -1)
            start = stop
        return table


@dataclass(frozen=True)
class PeopleBatch:
    """`x[i, r]` and `y[i, r]` are person i's row r; `share[i, r]` is what it counts for in the person's gradient, 0 for
    a row that is not there or has no output."""

    x: Floats
    y: Floats
    share: Floats

    def some(self, span: slice) -> PeopleBatch:
        return PeopleBatch(self.x[span], self.y[span], self.share[span])


class Encoded:
    """Many people's rows, read once: only the design, which is wide, is made again for whoever is wanted."""

    def __init__(self, features: DesignColumns, rows: Rows) -> None:
        kept = rows.at_most(MOST_ROWS)
        document = features.document
        self._features = features
        self._columns = [encoded(document, kept, column) for column in document.inputs]
        self._output, usable = output_of(document, kept)
        starts = np.searchsorted(kept.person, np.arange(kept.people + 1))
        self._first, self._rows = starts[:-1], np.diff(starts)
        counted = np.bincount(kept.person[usable], minlength=kept.people)
        each = np.ones(kept.people) if document.reduce == "sum" else 1.0 / np.maximum(counted, 1)
        self._share = np.where(usable, each[kept.person], 0.0) if len(usable) else np.zeros(0)

    def rows_of(self, people: Integers) -> int:
        """The most rows that one of these has; at least 1, as whoever has none counts with a zero gradient."""
        return max(1, int(self._rows[people].max(initial=0)))

    def batch(self, people: Integers, start: int = 0, stop: int | None = None) -> PeopleBatch:
        """The rows `start` to `stop` of each of these people."""
        deep = np.arange(start, self.rows_of(people) if stop is None else stop)
        there = deep < self._rows[people][:, None]
        if not len(self._share):  # nobody has a row
            width = self._features.count
            return PeopleBatch(np.zeros((len(people), len(deep), width)), np.zeros(there.shape), np.zeros(there.shape))
        where = np.where(there, self._first[people][:, None] + deep, 0)
        flat = where.reshape(-1)
        x = self._features.design([column[flat] for column in self._columns])
        return PeopleBatch(x.reshape(*where.shape, -1), self._output[where], np.where(there, self._share[where], 0.0))


def encoded(document: DrawDiscardDocument, rows: Rows, column: str) -> NDArray[Any]:
    """An input as whole numbers of categories or as a share of its range; a missing value takes the default, else the
    last category or the middle."""
    bound = document.bounds[column]
    if isinstance(bound, Values):
        index, missing = rows.categories(column, bound.values)
        stand_in = len(bound.values) - 1 if bound.default is None else bound.values.index(bound.default)
        return np.where(missing, stand_in, index)
    numbers, missing = rows.numbers(column)
    return scaled(bound, np.where(missing, bound.middle if bound.default is None else bound.default, numbers))


def scaled(bound: Range, numbers: Floats) -> Floats:
    """Numbers as shares of their range, clamped to it."""
    return np.asarray((np.clip(numbers, bound.low, bound.high) - bound.low) / (bound.high - bound.low))


def output_of(document: DrawDiscardDocument, rows: Rows) -> tuple[Floats, NDArray[np.bool_]]:
    """(the output as the family counts it, which rows have one)."""
    bound = document.bounds[document.output]
    if isinstance(bound, Values):
        index, missing = rows.categories(document.output, bound.values)
        if bound.default is not None:
            index, missing = np.where(missing, bound.values.index(bound.default), index), np.zeros_like(missing)
        return index.astype(np.float64), ~missing
    numbers, missing = rows.numbers(document.output)
    if bound.default is not None:
        numbers, missing = np.where(missing, bound.default, numbers), np.zeros_like(missing)
    clamped = np.clip(np.where(missing, bound.low, numbers), bound.low, bound.high)
    counted = clamped / bound.high if document.family == "poisson" else scaled(bound, clamped)
    return counted, ~missing
