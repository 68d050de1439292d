"""Rows that featurizers gave for a batch of people. A person is a batch of one, a simulated million is one batch.

A missing value is None or NaN. Rows never leave their owner; only an owner's half may hold them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows:
    """`columns[name][i]` is row i's value; row i belongs to person `person[i]` of 0 .. people-1, in order.

    `failures[p]` is 0, or 1 + the index of the class of error (`FAILURES`) with which p's featurizer failed.
    """

    columns: Mapping[str, NDArray[np.generic]]
    person: Indices
    people: int
    failures: NDArray[np.uint8]

    @classmethod
    def one_each(cls, columns: Mapping[str, Sequence[object] | NDArray[np.generic]]) -> Rows:
        """One row for every person, in order."""
        arrays = {name: np.asarray(values) for name, values in columns.items()}
        lengths = {len(a) for a in arrays.values()}
        if len(lengths) != 1:
            raise Mistake("rows", "all columns must have the same length")
        people = lengths.pop()
        return cls(arrays, np.arange(people, dtype=np.int64), people, np.zeros(people, dtype=np.uint8))

    def first(self) -> Rows:
        """The first row of every person; a person without any gets a row of missing values."""
        if len(self.person) == self.people and np.array_equal(self.person, np.arange(self.people)):
            return self
        owner, where = np.unique(self.person, return_index=True)
        columns = {}
        for name, values in self.columns.items():
            spread = np.full(self.people, None, dtype=object)
            spread[owner] = np.asarray(values, dtype=object)[where]
            columns[name] = spread
        return Rows(columns, np.arange(self.people, dtype=np.int64), self.people, self.failures)

    def at_most(self, rows_each: int) -> Rows:
        """The first `rows_each` rows of every person."""
        starts = np.searchsorted(self.person, np.arange(self.people))
        rank = np.arange(len(self.person)) - starts[self.person] if len(self.person) else self.person
        keep = rank < rows_each
        columns = {name: np.asarray(values)[keep] for name, values in self.columns.items()}
        return Rows(columns, self.person[keep], self.people, self.failures)

    def select(self, people: Indices) -> Rows:
        """The rows of some people only, renumbered in the order given."""
        position = np.full(self.people, -1, dtype=np.int64)
        position[people] = np.arange(len(people))
        keep = np.flatnonzero(position[self.person] >= 0)
        keep = keep[np.argsort(position[self.person[keep]], kind="stable")]
        columns = {name: np.asarray(values)[keep] for name, values in self.columns.items()}
        return Rows(columns, position[self.person[keep]], len(people), self.failures[people])

    def numbers(self, name: str) -> tuple[Floats, Flags]:
        """A column as numbers, and which are missing. What is no number counts as missing, never as an error."""
        values = self._column(name)
        if values.dtype.kind in "fiub":
            numbers = values.astype(np.float64)
        else:
            numbers = np.fromiter((_number(v) for v in values), dtype=np.float64, count=len(values))
        missing = np.isnan(numbers)
        return numbers, missing

    def categories(self, name: str, declared: Sequence[Hashable]) -> tuple[Indices, Flags]:
        """A column as positions in `declared`, and which are missing. What was not declared counts as missing."""
        values = self._column(name)
        place = {value: position for position, value in enumerate(declared)}
        if values.dtype.kind in "iubfU":
            known, inverse = np.unique(values, return_inverse=True)
            found = np.array([place.get(v, -1) for v in known.tolist()], dtype=np.int64)
            index = found[inverse] if len(known) else np.empty(0, dtype=np.int64)
        else:
            index = np.fromiter((_position(place, v) for v in values), dtype=np.int64, count=len(values))
        missing = index < 0
        return np.where(missing, 0, index), missing

    def _column(self, name: str) -> NDArray[np.generic]:
        if name not in self.columns:
            raise Mistake("featurizer", f"gives no column {name!r}")
        return np.asarray(self.columns[name])


#: classes of error that a featurizer may end in; a class is all that diagnostics ever count. The last is none of the
#: featurizer's: it ran, and gave nothing that counts
FAILURES = ("missing table", "missing column", "wrong type", "too slow or too large", "other", "no usable value")


def _number(value: object) -> float:
    if value is None or isinstance(value, (str, bytes)):
        return np.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return np.nan


def _position(place: Mapping[Hashable, int], value: object) -> int:
    try:
        return place.get(value, -1) if isinstance(value, Hashable) else -1
    except TypeError:
        return -1
