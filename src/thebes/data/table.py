"""A data set as the code of a task sees it: whole-number sums over its rows, or its columns as numbers.

What must stay true, whichever engine reads the rows: a row is clamped and rounded by itself before anything is summed,
of one person at most the declared number of rows counts, and nothing is written. Sums are of whole numbers, so every
engine gives the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from thebes.data.filter import RowFilter
from thebes.data.schema import Schema


@dataclass(frozen=True, slots=True)
class Axis:
    """The division of rows by one column: by its declared values, or by the bins between `edges` of a range (the first
    and last edge are the bounds). A row that is in none of the cells is left out, unless there is a last one for rows
    without a value (`missing`)."""

    column: str
    values: tuple[bool | int | float | str, ...] | None = None
    edges: tuple[float, ...] | None = None
    missing: bool = False

    @property
    def cells(self) -> int:
        filled = len(self.values) if self.values is not None else len(self.edges or ()) - 1
        return filled + self.missing


@dataclass(frozen=True, slots=True)
class Factor:
    """The rule by which a row shares out steps = 2^bits tokens by one column. With t its value's own step (0 to steps),
    of degree 1 the places get steps - t and t; of degree 2 the last gets t^2 / steps, the middle one 2t(steps - t) /
    steps, both rounded down, and the first what is left. The places of one column always add up to `steps`."""

    column: str
    degree: int
    place: int


@dataclass(frozen=True, slots=True)
class Term:
    """One whole number for each row: the product of its factors, which is 1 without any."""

    factors: tuple[Factor, ...] = ()


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums that are asked for: every term over the rows of every cell of the axes (in row-major order of their
    cells). A row counts where `where` is true and every column that is named has a value. Of `units` each counts once
    in a cell, however many of its rows are there."""

    terms: tuple[Term, ...]
    bits: int = 16
    axes: tuple[Axis, ...] = ()
    where: RowFilter | None = None
    units: bool = False

    @property
    def cells(self) -> int:
        return int(np.prod([axis.cells for axis in self.axes], dtype=np.int64)) if self.axes else 1

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that a row must have."""
        told = [axis.column for axis in self.axes if not axis.missing]
        return tuple(dict.fromkeys([*told, *(f.column for term in self.terms for f in term.factors)]))


@dataclass(frozen=True, slots=True)
class Batch:
    """Some rows: `numbers` has one column for each that was asked for, within its bounds (a value's number in its
    declared values where it has those); `people` says whose each row is, by numbers that mean nothing elsewhere.
    Rows of one person lie together and in one batch. A column of pictures or arrays is 0 there; its numbers are in
    `tensors`, one line for each row: 0 to 255 of a picture, 0 to 1 of an array, only zeros where it cannot be read."""

    numbers: NDArray[np.float64]
    people: NDArray[np.int64]
    tensors: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Misfits:
    """Of `rows` rows, how many hold in one column nothing of its type, nothing that is declared, or what lies beyond a
    bound and counts as it. Exact counts of private rows: for whoever owns them, and for simulations."""

    rows: int
    missing: int
    undeclared: int = 0
    above: int = 0
    below: int = 0


class Table(Protocol):
    """One data set, read-only."""

    @property
    def schema(self) -> Schema: ...

    def sums(self, wanted: Sums) -> NDArray[np.int64]:
        """One row of totals for each cell, one column for each term; clamped to what fits into 62 bits."""
        ...

    def batches(self, columns: Sequence[str], where: RowFilter | None = None, *, rows: int = 65_536) -> Iterator[Batch]:
        """The rows that have all of these columns, person after person, about `rows` at a time."""
        ...


@runtime_checkable
class KeyedTable(Table, Protocol):
    """A table whose texts can be looked through for keys that nobody has declared."""

    def occurring(self, column: str, where: RowFilter | None = None, *, most: int, longest: int) -> Mapping[str, int]:
        """The texts of a column, each with how many units have it; a unit counts with at most `most` of them, drawn by
        a hash. Texts of more than `longest` characters are left out."""
        ...

    def declaring(self, column: str, values: Sequence[str]) -> AbstractContextManager[Table]:
        """The same rows where these are the declared values of a column that has none."""
        ...


@runtime_checkable
class CelledTable(Table, Protocol):
    """A table that says of every row which cells it is in: many histograms of it then need one look."""

    def cells(self, axes: Sequence[Axis], *, rows: int = 16_384) -> Iterator[NDArray[np.int64]]:
        """The cells of every row that counts, one column for each axis, about `rows` rows at a time; -1 where a row is
        in none."""
        ...
