"""The data of a simulated population: tables, and which person each row belongs to.

A flat table stands for every table a featurizer names; one row is one person, or a column `person_id` groups rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.given_rows import given_columns
from thebes.privacy.faults import Mistake
from thebes.simulation.cells import Column, Unkept, cells_of, settled, whole_floats

PERSON = "person_id"


@dataclass(frozen=True, slots=True)
class PersonTable:
    """Columns of one length, rows sorted by person (0 .. people-1), each person's rows in their own order.

    `unkept` says of columns that no store takes why not. `whole` are those in which pandas had made floats of whole
    numbers, which they are again here.
    """

    columns: Mapping[str, Column]
    person: NDArray[np.int64]
    unkept: Mapping[str, str] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()

    def column(self, name: str) -> Column | None:
        """A column by its name; SQL does not mind upper and lower case, so neither does this."""
        if name in self.columns:
            return self.columns[name]
        why = next((why for n, why in self.unkept.items() if n.lower() == name.lower()), None)
        if why is not None:
            raise Mistake("rows", f"hold something in column {name!r} that no person's store takes: it {why}")
        return next((c for n, c in self.columns.items() if n.lower() == name.lower()), None)

    def of(self, people: NDArray[np.int64], everybody: int) -> PersonTable:
        """The rows of some people, who are counted anew in the order given (which rises)."""
        place = np.full(everybody, -1, dtype=np.int64)
        place[people] = np.arange(len(people))
        kept = np.flatnonzero(place[self.person] >= 0)
        columns = {name: column[kept] for name, column in self.columns.items()}
        return PersonTable(columns, place[self.person[kept]], self.unkept, self.whole)


@dataclass(frozen=True, slots=True)
class Population:
    """Tables of `people` persons. `flat` is set when one table stands for all."""

    tables: Mapping[str, PersonTable]
    people: int
    flat: PersonTable | None = None

    def of(self, people: NDArray[np.int64]) -> Population:
        """Some of these people."""
        tables = {name: table.of(people, self.people) for name, table in self.tables.items()}
        return Population(tables, len(people), None if self.flat is None else self.flat.of(people, self.people))

    def table(self, name: str) -> PersonTable:
        """The table a featurizer calls `name`."""
        if self.flat is not None:
            return self.flat
        for known, table in self.tables.items():
            if known.lower() == name.lower():
                return table
        raise Mistake("rows", f"has no table {name!r}; give it, or give one flat table that stands for every table")


def people_of(rows: Any, argument: str = "rows") -> Population:
    """Read a DataFrame, a dict of columns, or a dict of "collector.table" tables as a population."""
    if isinstance(rows, Population):
        return rows
    if isinstance(rows, Mapping) and rows and all(isinstance(k, str) and _is_table(v) for k, v in rows.items()):
        raw = {name: _read(table) for name, table in rows.items()}
        ids = [table.ids for table in raw.values()]
        if all(each is None for each in ids):
            lengths = {_length(table.columns) for table in raw.values()}
            if len(lengths) > 1:
                raise Mistake("rows", f"tables of different lengths need a column {PERSON}")
        if any(i is None for i in ids) and any(i is not None for i in ids):
            raise Mistake("rows", f"every table needs a column {PERSON}, or none of them")
        known = _distinct([i for i in ids if i is not None])
        tables = {name: _table(table, known) for name, table in raw.items()}
        people = len(known) if known is not None else _length(next(iter(raw.values())).columns)
        return Population(tables, people)
    read = _read(rows, argument)
    known = None if read.ids is None else _distinct([read.ids])
    return Population({}, len(known) if known is not None else _length(read.columns), _table(read, known))


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "columns")  # of all tables, and of no column


@dataclass(frozen=True, slots=True)
class _Read:
    """A table as it was given: every column as stores hold it, or why they do not."""

    columns: dict[str, Column]
    unkept: dict[str, str]
    whole: frozenset[str]

    @property
    def ids(self) -> Column | None:
        if PERSON in self.unkept:
            raise Mistake(PERSON, self.unkept[PERSON])
        return self.columns.get(PERSON)


def _read(table: Any, argument: str = "rows") -> _Read:
    given = given_columns(table, argument)
    columns, unkept, lengths = dict[str, Column](), dict[str, str](), set[int]()
    for name, values in given.items():
        try:
            columns[name] = cells_of(values)
            lengths.add(len(columns[name]))
        except Unkept as refused:
            unkept[name] = str(refused)
            lengths.add(len(values))
    if not given:
        raise Mistake("rows", "has no columns")
    if len(lengths) != 1:
        raise Mistake("rows", "all columns must have the same length")
    if not columns:
        name, why = next(iter(unkept.items()))
        raise Mistake("rows", f"hold something in column {name!r} that no person's store takes: it {why}")
    return _Read(columns, unkept, frozenset(name for name, values in given.items() if whole_floats(values)))


def _length(columns: Mapping[str, Column]) -> int:
    return len(next(iter(columns.values())))


def _distinct(ids: list[Column]) -> Column | None:
    if not ids:
        return None
    if len({"number" if i.dtype.kind in "biuf" else "text" for i in ids}) > 1:
        raise Mistake(PERSON, "must be numbers in every table, or text in every table")
    together = np.concatenate([np.asarray(i) for i in ids])
    if together.dtype.kind == "O" and any(v is None or v != v for v in together):
        raise Mistake(PERSON, "must not be missing in any row")
    if together.dtype.kind == "f" and np.isnan(together).any():
        raise Mistake(PERSON, "must not be missing in any row")
    try:
        distinct: Column = np.unique(together)
    except TypeError:
        raise Mistake(PERSON, "must be all numbers or all text") from None
    return distinct


def _table(read: _Read, known: Column | None) -> PersonTable:
    columns = read.columns
    if known is None:
        return PersonTable(columns, np.arange(_length(columns), dtype=np.int64), read.unkept, read.whole)
    person = np.searchsorted(known, columns[PERSON]).astype(np.int64)
    order = np.argsort(person, kind="stable")
    columns = {name: settled(column, person, len(known))[order] for name, column in columns.items()}
    return PersonTable(columns, person[order], read.unkept, read.whole)
