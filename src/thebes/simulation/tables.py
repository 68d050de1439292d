"""The data of a simulated population: tables, and which person each row belongs to.

A flat table stands for every table a featurizer names; one row is one person, or a column `person_id` groups rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake

PERSON = "person_id"

Column = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of one length, rows sorted by person (0 .. people-1), each person's rows in their own order."""

    columns: Mapping[str, Column]
    person: NDArray[np.int64]

    def column(self, name: str) -> Column | None:
        """A column by its name; SQL does not mind upper and lower case, so neither does this."""
        if name in self.columns:
            return self.columns[name]
        return next((c for n, c in self.columns.items() if n.lower() == name.lower()), None)


@dataclass(frozen=True, slots=True)
class Population:
    """Tables of `people` persons. `flat` is set when one table stands for all."""

    tables: Mapping[str, Table]
    people: int
    flat: Table | None = None

    def table(self, name: str) -> Table:
        """The table a featurizer calls `name`."""
        if self.flat is not None:
            return self.flat
        for known, table in self.tables.items():
            if known.lower() == name.lower():
                return table
        raise Mistake("rows", f"has no table {name!r}; give it, or give one flat table that stands for every table")


def people_of(rows: Any) -> Population:
    """Read a DataFrame, a dict of columns, or a dict of "collector.table" tables as a population."""
    if isinstance(rows, Population):
        return rows
    if isinstance(rows, Mapping) and rows and all(isinstance(k, str) and _is_table(v) for k, v in rows.items()):
        raw = {name: _columns(table) for name, table in rows.items()}
        if not any(PERSON in columns for columns in raw.values()):
            lengths = {_length(columns) for columns in raw.values()}
            if len(lengths) > 1:
                raise Mistake("rows", f"tables of different lengths need a column {PERSON}")
        ids = [columns.get(PERSON) for columns in raw.values()]
        if any(i is None for i in ids) and any(i is not None for i in ids):
            raise Mistake("rows", f"every table needs a column {PERSON}, or none of them")
        known = _distinct([i for i in ids if i is not None])
        tables = {name: _table(columns, known) for name, columns in raw.items()}
        people = len(known) if known is not None else _length(next(iter(raw.values())))
        return Population(tables, people)
    columns = _columns(rows)
    known = _distinct([columns[PERSON]]) if PERSON in columns else None
    flat = _table(columns, known)
    return Population({}, len(known) if known is not None else _length(columns), flat)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "columns")


def _columns(table: Any) -> dict[str, Column]:
    names = list(table.columns) if hasattr(table, "columns") and not isinstance(table, Mapping) else None
    if names is None and not isinstance(table, Mapping):
        raise Mistake("rows", "must be a DataFrame or a dict of columns")
    columns = {str(name): _plain(table[name]) for name in (names if names is not None else table)}
    if not columns:
        raise Mistake("rows", "has no columns")
    if len({len(column) for column in columns.values()}) != 1:
        raise Mistake("rows", "all columns must have the same length")
    return columns


def _plain(values: Any) -> Column:
    array = values.to_numpy() if hasattr(values, "to_numpy") else np.asarray(values)
    if array.dtype.kind == "O" and array.ndim == 1 and hasattr(values, "isna"):
        array = array.copy()
        array[np.asarray(values.isna())] = None  # pandas has several words for missing
    if array.ndim != 1:
        raise Mistake("rows", "every column must be one-dimensional")
    if array.dtype.kind in "mM":
        whole = array.astype("datetime64[s]") if array.dtype.kind == "M" else array
        text = whole.astype(str).astype(object)
        text[np.isnat(array)] = None
        return text
    if array.dtype.kind not in "biufUO":
        return array.astype(object)
    return array


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


def _table(columns: dict[str, Column], known: Column | None) -> Table:
    if known is None:
        return Table(columns, np.arange(_length(columns), dtype=np.int64))
    person = np.searchsorted(known, columns[PERSON]).astype(np.int64)
    order = np.argsort(person, kind="stable")
    return Table({name: column[order] for name, column in columns.items()}, person[order])
