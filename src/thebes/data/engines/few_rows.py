"""Few rows in memory, added up without an engine: to plan a question takes an engine longer than adding them up.

What must stay true: the sums are those of `EngineTable` over any engine, whole number for whole number. Each step is
the one that the expressions of `arithmetic`, `axis_cells` and `clipping` take, on arrays.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thebes.data.engines.arithmetic import FINE, ONE, OTHER
from thebes.data.engines.engine import PRIME, text_number
from thebes.data.filter import COMPARISONS, ENDS, Among, Compared, Condition, Either, Every, Present, RowFilter
from thebes.data.schema import Column, Schema, as_held
from thebes.data.table import Axis, Factor, Sums

_HALF = 26  # bits: a sum of so many rows' halves is exact as a double
_LAST = 2**63 - 1

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class FewRows:
    """Typed columns, and where each has a value. `owner` names the one that says whose a row is; None where every row
    is a unit of its own."""

    schema: Schema
    owner: str | None
    columns: Mapping[str, NDArray[Any]]
    there: Mapping[str, Flags]

    @classmethod
    def of(cls, schema: Schema, owner: str | None, columns: Mapping[str, NDArray[Any]]) -> FewRows:
        """Take columns as DuckDB gives them: masked where a value is missing."""
        values, there = dict[str, NDArray[Any]](), dict[str, Flags]()
        for name, column in columns.items():
            present = ~np.ma.getmaskarray(column)
            plain = np.ma.getdata(column)
            if schema.columns[name].type == "string":
                plain = np.where(present, plain, "")
            elif plain.dtype.kind in "fM":
                present &= ~(np.isnan(plain) if plain.dtype.kind == "f" else np.isnat(plain))
            values[name], there[name] = plain, present
        return cls(schema, owner, values, there)

    def sums(self, wanted: Sums) -> list[list[int]]:
        """Add up each term over the rows of each cell."""
        rows = self._taken(self._complete(wanted.columns, wanted.where, wanted.axes))
        stepped = dict.fromkeys(factor.column for term in wanted.terms for factor in term.factors)
        steps = {name: rows._steps(name, wanted.bits) for name in stepped}
        if self.owner is not None:
            codes = pd.factorize(rows.columns[self.owner])[0]
            if self._crowded(codes):
                signs = {rows._sign_name(i, axis): rows._sign(axis) for i, axis in enumerate(wanted.axes)}
                chosen = rows._chosen(codes, [*steps.values(), *signs.values()])
                rows, codes = rows._taken(chosen), codes[chosen]
                steps = {name: each[chosen] for name, each in steps.items()}
        cells = reduce(lambda at, axis: at * axis.cells + rows._cells(axis), wanted.axes, rows._zeros)
        if wanted.units and self.owner is not None:
            cells = np.unique(codes * wanted.cells + cells) % wanted.cells
        added = [_added(_product(term.factors, steps, wanted.bits, len(cells)), cells, wanted) for term in wanted.terms]
        return [list(totals) for totals in zip(*added, strict=True)]

    def in_order(self, names: Sequence[str], where: RowFilter | None) -> pd.DataFrame:
        """Return the rows that count, in the order in which every engine keeps them: `_x0`, `_x1`, ... what they hold
        of these columns, and `_whose` they are."""
        rows = self._taken(self._complete(names, where))
        codes = rows._zeros if self.owner is None else pd.factorize(rows.columns[self.owner])[0]
        if self.owner is not None and self._crowded(codes):
            beside = [rows._number(name) for name in names if self.schema.column(name).ranged]
            chosen = rows._chosen(codes, [rows._fine(name) for name in names], beside)
            rows, codes = rows._taken(chosen), codes[chosen]
        held = [rows._given(name) for name in names]
        fine = [rows._fine(name) for name in names]
        mixed = _scattered(fine, len(codes)) * _scattered(fine, len(codes), OTHER) % PRIME
        first = [] if self.owner is None else [rows._portable(self.owner, key=True), codes]
        ranged = [held[i] for i, name in enumerate(names) if self.schema.column(name).ranged]
        order = np.lexsort([*reversed([*first, mixed, *fine, *ranged])])
        whose = mixed if self.owner is None else rows.columns[self.owner]
        return pd.DataFrame({**{f"_x{i}": each[order] for i, each in enumerate(held)}, "_whose": whose[order]})

    # --- which rows count -------------------------------------------------------------------------------

    def _crowded(self, codes: Numbers) -> bool:
        """Tell whether anybody has more rows than may count."""
        return bool(len(codes)) and int(np.bincount(codes).max()) > self.schema.max_rows_per_unit

    def _complete(self, named: Sequence[str], where: RowFilter | None, axes: Sequence[Axis] = ()) -> Flags:
        found = np.ones(len(self._zeros), dtype=np.bool_)
        by_value = {axis.column: axis.values for axis in axes if axis.values is not None}
        for name in named:
            found &= self.there[name]
            declared = by_value.get(name, self.schema.column(name).values)
            if declared is not None:
                found &= self._places(name, [as_held(v, self.schema.column(name).type) for v in declared]) >= 0
        if self.owner is not None:
            found &= self.there[self.owner]
            if self.schema.columns[self.owner].type == "integer":
                found &= ~np.isin(self.columns[self.owner], ENDS)  # beyond 64 bits several people would be one
        return found if where is None else found & self._holds(where.condition)

    def _holds(self, condition: Condition) -> Flags:
        if isinstance(condition, (Every, Either)):
            every = isinstance(condition, Every)
            found: Flags = np.full(len(self._zeros), every, dtype=np.bool_)
            for part in condition.parts:
                found = found & self._holds(part) if every else found | self._holds(part)
            return found
        there = self.there[condition.column]
        if isinstance(condition, Present):
            return there if condition.there else ~there
        if isinstance(condition, Among):
            inside = self._places(condition.column, condition.values) >= 0
            return there & (inside if condition.inside else ~inside)
        return there & self._compared(condition)

    def _compared(self, condition: Compared) -> Flags:
        value: Any = condition.value
        if self.schema.columns[condition.column].type == "timestamp":
            value = np.datetime64(value, "us")
        found: Flags = COMPARISONS[condition.operator](self.columns[condition.column], value)
        return found

    def _chosen(
        self, codes: Numbers, signature: Sequence[Numbers], beside: Sequence[NDArray[np.float64]] = ()
    ) -> Numbers:
        """Return the places of the rows that count, where somebody has more than may. Rows with one signature are
        numbered, in the order of `beside`."""
        whose = self._portable(self.owner or "", key=True)
        before = self._before()
        alike = [codes, *before, *signature]
        one_by_one = np.lexsort([*reversed(beside)]) if beside else np.arange(len(codes))
        told = pd.DataFrame({i: each[one_by_one] for i, each in enumerate(alike)})
        again = np.empty(len(codes), dtype=np.int64)
        again[one_by_one] = told.groupby(list(told)).cumcount().to_numpy(dtype=np.int64) + 1
        numbers = [*signature, again]
        upper = np.floor(whose / 2.0**30).astype(np.int64)
        drawn = ((whose - upper * 2**30 + 1) * _scattered(numbers, len(codes)) + upper) % PRIME
        order = np.lexsort([*reversed([codes, *before, drawn, *numbers])])
        whose_next = codes[order]
        first = np.searchsorted(whose_next, whose_next)
        return np.sort(order[np.arange(len(order)) - first < self.schema.max_rows_per_unit])

    def _before(self) -> list[NDArray[Any]]:
        """The columns by which rows are chosen before any chance: the latest first, those without a time last."""
        time = self.schema.time
        if time is None:
            return []
        there = self.there[time]
        if self.schema.columns[time].type == "float":
            late: NDArray[Any] = np.where(there, 0.0 - self.columns[time], np.inf)
        else:
            late = np.where(there, -1 - self._portable(time), _LAST)
        return [(~there).astype(np.int64), late]

    # --- what a row says --------------------------------------------------------------------------------

    @property
    def _zeros(self) -> Numbers:
        return np.zeros(len(next(iter(self.columns.values()))), dtype=np.int64)

    def _taken(self, which: Flags | Numbers) -> FewRows:
        columns = {name: values[which] for name, values in self.columns.items()}
        return FewRows(self.schema, self.owner, columns, {name: flags[which] for name, flags in self.there.items()})

    def _number(self, name: str) -> NDArray[np.float64]:
        """A number within its bounds."""
        column, number = self.schema.column(name), self.columns[name].astype(np.float64)
        assert column.low is not None  # noqa: S101
        assert column.high is not None  # noqa: S101
        return np.where(number < column.low, column.low, np.where(number > column.high, column.high, number))

    def _given(self, name: str) -> NDArray[Any]:
        """A column as a batch is made of it: numbers, or of a float with declared values their places."""
        column = self.schema.column(name)
        if column.ranged:
            return self._number(name)
        return self._fine(name).astype(np.float64) if column.type == "float" else self.columns[name]

    def _fine(self, name: str) -> Numbers:
        """A value's number, by which rows are told apart that are given as they are."""
        column = self.schema.column(name)
        if column.ranged:
            return self._steps(name, FINE)
        return self._places(name, column.held) if column.type == "float" else self._portable(name)

    def _steps(self, name: str, bits: int) -> Numbers:
        grid = self.schema.column(name).grid(bits)
        share = (self._number(name) - grid.low) / (grid.high - grid.low)
        return np.floor(share * float(grid.steps) + 0.5).astype(np.int64)

    def _places(self, name: str, values: Sequence[Any]) -> Numbers:
        """Find which of these values each row has; -1 where it has none of them."""
        held = self.columns[name]
        known = pd.Index(np.array(list(values), dtype=held.dtype), dtype=held.dtype)
        return np.where(self.there[name], known.get_indexer(pd.Index(held, dtype=held.dtype)), -1)

    def _bins(self, axis: Axis) -> Numbers:
        edges = np.array((axis.edges or ())[1:-1], dtype=np.float64)
        there = self.there[axis.column]
        number = np.where(there, self._number(axis.column), 0.0)
        return np.where(there, np.searchsorted(edges, number, side="right"), -1)

    def _cells(self, axis: Axis) -> Numbers:
        if axis.edges is not None:
            found = self._bins(axis)
        else:
            found = self._places(axis.column, self._held(axis, self.schema.column(axis.column)))
        return np.where(found < 0, axis.cells - 1, found) if axis.missing else found

    @staticmethod
    def _held(axis: Axis, column: Column) -> list[Any]:
        return [as_held(value, column.type) for value in axis.values or ()]

    def _sign(self, axis: Axis) -> Numbers:
        """A row's number along an axis, by which it is told apart where some have to be chosen."""
        column = self.schema.column(axis.column)
        if axis.edges is not None:
            return self._bins(axis)
        if column.type == "float":
            return self._places(axis.column, self._held(axis, column))
        return np.where(self.there[axis.column], self._portable(axis.column), -1)

    def _sign_name(self, number: int, axis: Axis) -> str:
        """Name a sign: two axes by values of one column have one."""
        apart = axis.missing or axis.edges is not None or self.schema.column(axis.column).type == "float"
        return f"{number} {axis.column}" if apart else axis.column

    def _portable(self, name: str, *, key: bool = False) -> Numbers:
        """A column's portable numbers; of a key those of its text."""
        values = self.columns[name]
        if key or self.schema.columns[name].type == "string":
            codes, known = pd.factorize(values)
            return np.array([text_number(str(text)) for text in known], dtype=np.int64)[codes]
        return values.astype(np.int64)


def _scattered(numbers: Sequence[Numbers], rows: int, multiplier: int = ONE) -> Numbers:
    if not numbers:
        return np.ones(rows, dtype=np.int64)
    factor, total = 1, np.zeros(rows, dtype=np.int64)
    for number in numbers:
        factor = factor * multiplier % PRIME
        total += (np.where(number < 0, -1 - number, number) % PRIME * factor + 11) % PRIME
    return total % PRIME


def _product(factors: Sequence[Factor], steps: Mapping[str, Numbers], bits: int, rows: int) -> Numbers:
    shares = (_share(factor, steps[factor.column], bits) for factor in factors)
    return reduce(operator.mul, shares, np.ones(rows, dtype=np.int64))


def _share(factor: Factor, step: Numbers, bits: int) -> Numbers:
    """Return how many of its 2^bits tokens a row gives to this place (see `Factor`)."""
    rest = (1 << bits) - step
    if factor.degree == 1:
        return step if factor.place == 1 else rest
    square, mixed = step * step >> bits, 2 * step * rest >> bits
    return ((1 << bits) - square - mixed, mixed, square)[factor.place]


def _added(product: Numbers, cells: Numbers, wanted: Sums) -> list[int]:
    """The sums of each cell, in two halves that are exact as doubles each."""
    upper = product >> _HALF
    low = np.bincount(cells, product - (upper << _HALF), wanted.cells)
    high = np.bincount(cells, upper, wanted.cells)
    return [int(below) + (int(above) << _HALF) for below, above in zip(low.tolist(), high.tolist(), strict=True)]
