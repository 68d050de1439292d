"""A data set with columns that are made of others, as the code of a task sees it: one more `Table`.

Rows are read, clipped and chosen by the table below; here each of them only gets more columns.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.expressions import Expression, columns_in, read_expression
from thebes.data.filter import RowFilter
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Batch, Factor, Sums, Table
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.stability import LARGEST_TOTAL

_HALF = 26  #: bits of the lower half of a product: sums of either half fit into 63 bits
Integers = NDArray[np.int64]


def expressions_of(features: Mapping[str, Any], schema: Schema) -> dict[str, Expression]:
    """Every new column, read against a data set's schema."""
    for name in features:
        if name.lower() in {known.lower() for known in schema.columns}:
            raise Mistake("features", f"makes {name!r}, which the data set has already; choose another name")
    return {name: read_expression(body, schema, f"features.{name}"[:80]) for name, body in features.items()}


def derived_schema(features: Mapping[str, Any], schema: Schema) -> Schema:
    """The schema with the new columns in it."""
    if not features:
        return schema
    made = expressions_of(features, schema)
    body = schema.as_json()
    body["columns"] |= {name: one.column.model_dump(mode="json", exclude_none=True) for name, one in made.items()}
    return schema_of(body)


@dataclass(frozen=True, slots=True)
class DerivedColumns:
    """Columns that are made of others, as a document names them: each with its expression as JSON text, so that they
    can be told from others, kept, and asked again."""

    made: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, features: Mapping[str, Any] | None) -> DerivedColumns:
        """Return the features that a document holds, alike for documents of one digest: by name, and 50.0 as 50."""
        return cls(
            tuple((name, json.dumps(_plain(body), sort_keys=True)) for name, body in sorted((features or {}).items()))
        )

    def __bool__(self) -> bool:
        return bool(self.made)

    @property
    def expressions(self) -> dict[str, Any]:
        """The expression of each by its name."""
        return {name: json.loads(text) for name, text in self.made}

    def among(self, names: Iterable[str]) -> DerivedColumns:
        """Return those that are named here."""
        wanted = set(names)
        return DerivedColumns(tuple(one for one in self.made if one[0] in wanted))

    def needs(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the data set's own columns of which columns and features of these names are made."""
        own = self.expressions
        found = [column for name in names for column in (columns_in(own[name]) if name in own else (name,))]
        return tuple(dict.fromkeys(found))

    def schema(self, schema: Schema) -> Schema:
        """Return a data set's schema with the features in it."""
        return derived_schema(self.expressions, schema)

    def table(self, table: Table) -> Table:
        """Return a table with the features in it; the table itself where there are none."""
        return DerivedTable(table, self.expressions) if self.made else table


def _plain(body: Any) -> Any:
    """Return an expression with whole numbers as integers, which is how a digest reads them."""
    if isinstance(body, Mapping):
        return {name: _plain(part) for name, part in body.items()}
    if isinstance(body, list | tuple):
        return [_plain(part) for part in body]
    return int(body) if isinstance(body, float) and body.is_integer() else body


class DerivedTable:
    """`table` with more columns, for as long as somebody else keeps the table."""

    def __init__(self, table: Table, features: Mapping[str, Any]) -> None:
        self._table = weakref.ref(table)
        self._made = expressions_of(features, table.schema)
        self.schema = derived_schema(features, table.schema)

    def batches(self, columns: Sequence[str], where: RowFilter | None = None, *, rows: int = 65_536) -> Iterator[Batch]:
        table = self._table()
        if table is None:
            raise Fault("a table was closed while its rows were read")
        needed = [c for name in columns for c in (self._made[name].columns if name in self._made else (name,))]
        below = tuple(dict.fromkeys(needed))
        for batch in table.batches(below, where, rows=rows):
            own = {name: np.asarray(batch.numbers[:, place]) for place, name in enumerate(below)}
            if len(batch.people) and columns:
                made = [self._made[name].of(own) if name in self._made else own[name] for name in columns]
                numbers = np.column_stack(made)
            else:
                numbers = np.zeros((len(batch.people), len(columns)))
            yield Batch(numbers, batch.people, batch.tensors)

    def sums(self, wanted: Sums) -> Integers:
        columns = wanted.columns
        if wanted.units:
            raise Mistake("terms", "of units are counted in the data set's own columns")
        if any(axis.missing for axis in wanted.axes):
            raise Mistake("axes", "cannot tell missing values apart where columns are made of others")
        totals = [[0] * len(wanted.terms) for _ in range(wanted.cells)]
        for batch in self.batches(columns, wanted.where):
            at = {name: place for place, name in enumerate(columns)}
            cells, inside = self._cells(wanted, batch, at)
            for number, term in enumerate(wanted.terms):
                product = np.ones(len(batch.people), dtype=np.int64)
                for factor in term.factors:
                    product *= self._share(factor, batch.numbers[:, at[factor.column]], wanted.bits)
                upper, lower = (np.zeros(wanted.cells, dtype=np.int64) for _ in range(2))
                np.add.at(upper, cells[inside], product[inside] >> _HALF)
                np.add.at(lower, cells[inside], product[inside] & ((1 << _HALF) - 1))
                for cell, (high, low) in enumerate(zip(upper.tolist(), lower.tolist(), strict=True)):
                    totals[cell][number] += (high << _HALF) + low
        return np.array([[min(total, LARGEST_TOTAL) for total in line] for line in totals], dtype=np.int64)

    def _cells(self, wanted: Sums, batch: Batch, at: Mapping[str, int]) -> tuple[Integers, NDArray[np.bool_]]:
        """The cell of every row, and which rows are in one."""
        cells = np.zeros(len(batch.people), dtype=np.int64)
        inside = np.ones(len(batch.people), dtype=np.bool_)
        for axis in wanted.axes:
            own = batch.numbers[:, at[axis.column]]
            if axis.edges is not None:
                place = np.clip(np.searchsorted(axis.edges, own, side="right") - 1, 0, axis.cells - 1)
            else:
                declared = self.schema.column(axis.column).values or ()
                asked = {value: number for number, value in enumerate(axis.values or ())}
                known = np.array([asked.get(value, -1) for value in declared] or [-1], dtype=np.int64)
                place = known[own.astype(np.int64)]
                inside &= place >= 0
            cells = cells * axis.cells + np.maximum(place, 0)
        return cells, inside

    def _share(self, factor: Factor, numbers: NDArray[np.float64], bits: int) -> Integers:
        """Return how many of its 2^bits tokens each row gives to this place (see `Factor`)."""
        grid = self.schema.column(factor.column).grid(bits)
        whole = grid.steps
        step = np.floor((numbers - grid.low) / (grid.high - grid.low) * float(whole) + 0.5).astype(np.int64)
        if factor.degree == 1:
            return step if factor.place == 1 else whole - step
        square, mixed = step * step >> bits, 2 * step * (whole - step) >> bits
        return (whole - square - mixed, mixed, square)[factor.place]
