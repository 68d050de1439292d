"""The cells that rows are in along an axis, alike on every engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thebes.data.engines.arithmetic import bin_of, folded
from thebes.data.engines.sum_terms import place_of
from thebes.data.schema import Column, as_held
from thebes.data.table import Axis

_FEW = 32  #: declared values of a column that are compared one after another
_PACKED = 2**52  #: a number of so many cells is still exact as a double


def cell(axis: Axis, column: Column) -> nw.Expr:
    """A cell's number, or its value; for a row without a value -1 or null."""
    there = nw.when(~nw.col(axis.column).is_null())
    if axis.edges is not None:
        found = bin_of(axis.column, column, axis.edges)
        return there.then(found).otherwise(nw.lit(-1)).cast(nw.Int64) if axis.missing else found
    if column.type == "float":
        found = place_of(nw.col(axis.column), [float(v) for v in axis.values or ()])
        return there.then(found).otherwise(nw.lit(-1)).cast(nw.Int64) if axis.missing else found
    return nw.col(axis.column)


def numbered(found: pd.Series[Any], axis: Axis, column: Column) -> NDArray[np.int64]:
    """The number of each row's cell, of what `cell` gave for it; -1 for a row that is in none."""
    if axis.edges is not None or column.type == "float":
        numbers = found.astype("Float64").to_numpy(dtype=np.float64, na_value=-1.0).astype(np.int64)
    else:
        declared = pd.Index([as_held(value, column.type) for value in axis.values or ()], dtype=object)
        numbers = declared.get_indexer(pd.Index(found.astype(object), dtype=object)).astype(np.int64)
    return np.where(numbers < 0, axis.cells - 1, numbers) if axis.missing else numbers


@dataclass(frozen=True)
class Packs:
    """Many axes in few numbers: engines that carry hundreds of columns through a choice of rows run out of memory.

    Of each group of axes a row has one number, whose digits are 0 where it is in no cell, and otherwise 1 more than the
    cell's number. An axis of many declared values is by itself, as `cell` has it."""

    axes: Sequence[tuple[Axis, Column]]
    groups: tuple[tuple[int, ...], ...]
    alone: frozenset[int]

    @classmethod
    def of(cls, axes: Sequence[tuple[Axis, Column]]) -> Packs:
        """Pack all axes that can be, in their order."""
        groups: list[list[int]] = []
        alone = set[int]()
        size = _PACKED
        for i, (axis, column) in enumerate(axes):
            if axis.edges is None and column.type != "float" and len(axis.values or ()) > _FEW:
                alone.add(i)
                continue
            if size * _digits(axis) > _PACKED:
                groups.append([])
                size = 1
            groups[-1].append(i)
            size *= _digits(axis)
        return cls(axes, tuple(map(tuple, groups)), frozenset(alone))

    @cached_property
    def made(self) -> dict[str, nw.Expr]:
        """The numbers of the groups."""
        found = {}
        for n, group in enumerate(self.groups):
            times = [prod(_digits(self.axes[j][0]) for j in group[:k]) for k in range(len(group))]
            parts = [_digit(*self.axes[i]) * by for i, by in zip(group, times, strict=True)]
            found[f"_p{n}"] = folded(lambda a, b: a + b, parts)
        return found

    def read(self, rows: pd.DataFrame) -> NDArray[np.int64]:
        """The cells of rows, one column for each axis; -1 where a row is in none."""
        found = np.empty((len(rows), len(self.axes)), dtype=np.int64, order="F")
        for i in self.alone:
            found[:, i] = numbered(rows[f"_a{i}"], *self.axes[i])
        for n, group in enumerate(self.groups):
            left = rows[f"_p{n}"].to_numpy(dtype=np.int64)
            for i in group:
                axis = self.axes[i][0]
                left, digit = np.divmod(left, _digits(axis))
                found[:, i] = np.where(digit == 0, axis.cells - 1, digit - 1) if axis.missing else digit - 1
        return found


def _digits(axis: Axis) -> int:
    return axis.cells + (not axis.missing)


def _digit(axis: Axis, column: Column) -> nw.Expr:
    """One more than the number of a cell; 0 for a row that has no value, or none of those declared."""
    value = nw.col(axis.column)
    if axis.edges is not None:
        return nw.when(~value.is_null()).then(bin_of(axis.column, column, axis.edges) + 1).otherwise(nw.lit(0))
    held = [as_held(one, column.type) for one in axis.values or ()]
    each = [nw.when(value == one).then(nw.lit(n + 1)).otherwise(nw.lit(0)) for n, one in enumerate(held)]
    return folded(lambda a, b: a + b, each).cast(nw.Int64)
