"""By what an answer is told apart: nothing, the declared values of some columns, or bins of a range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np

from thebes.data.schema import Column, Schema
from thebes.data.table import Axis
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.mechanisms.histogram import names_of_bins


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of rows that share none, one for each combination of the axes' cells, in row-major order."""

    axes: tuple[Axis, ...] = ()

    @property
    def count(self) -> int:
        total = 1
        for axis in self.axes:
            total *= axis.cells
        return total

    @property
    def names(self) -> list[str]:
        """The name of each group: its value, or its values with commas between (a list in JSON where that would make
        two groups sound alike)."""
        cells = [_names(axis) for axis in self.axes]
        named = [", ".join(of) for of in product(*cells)]
        if len(set(named)) == len(named):
            return named
        import json

        return [json.dumps(of) for of in product(*cells)]

    def told(self, values: Sequence[Any]) -> Any:
        """One thing for each group, as an answer gives it: by name, or the only one."""
        return dict(zip(self.names, values, strict=True)) if self.axes else values[0]


def _names(axis: Axis) -> list[str]:
    return [str(value) for value in axis.values] if axis.values is not None else names_of_bins(axis.edges or ())


def keys_of(schema: Schema, names: Sequence[str], *, field: str) -> Groups:
    """Groups by columns with declared values; a boolean has both of its own."""
    return Groups(tuple(Axis(name, values=_values(name, schema.column(name, field), field)) for name in names))


def _values(name: str, column: Column, field: str) -> tuple[bool | int | float | str, ...]:
    if column.values is not None:
        return column.values
    if column.type == "boolean":
        return (False, True)
    raise Mistake(field, f"names {name!r}, whose values are not declared: only declared values can be grouped by")


def bins_of(name: str, column: Column, edges: int | tuple[float, ...]) -> Groups:
    """Groups by equal bins of a range, or by the places between which it is cut."""
    low, high = ends_of(column)
    inner = tuple(np.linspace(low, high, edges + 1).tolist()[1:-1]) if isinstance(edges, int) else edges
    whole = (low, *inner, high)
    if any(a >= b for a, b in pairwise(whole)):
        raise Mistake(
            "bins",
            f"must cut {name!r} between its low {figure(low)} and its high {figure(high)}, each bin wider than 0",
        )
    return Groups((Axis(name, edges=whole),))


def ends_of(column: Column) -> tuple[float, float]:
    """The bounds of a ranged column."""
    grid = column.grid(1)
    return grid.low, grid.high


def bounds_of(schema: Schema, names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Return what a certificate says about the columns an answer was computed from."""
    said: dict[str, Mapping[str, Any]] = {}
    for name, column in ((name, schema.columns[name]) for name in names if name in schema.columns):
        if column.ranged:
            low, high = ends_of(column)
            said[name] = {"type": "range", "low": low, "high": high}
        elif column.values is not None:
            said[name] = {"type": "set", "values": list(column.values)}
    return said
