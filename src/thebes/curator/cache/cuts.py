"""One column of a schema cut into cells."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.filter import Value
from thebes.data.schema import Column, Schema, as_held
from thebes.data.table import Axis
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import Randomness

Integers = NDArray[np.int64]

MOST_CELLS = 1_000_000
BINS = 10  #: of a range, unless declared otherwise; fewer where it has fewer whole numbers
_UNIFORM = 2.0**-53


@dataclass(frozen=True)
class Cut:
    """One column's cells: one for each declared value or bin, and, where it may be `missing`, a last one for that."""

    name: str
    column: Column
    axis: Axis

    @property
    def count(self) -> int:
        return self.axis.cells

    @property
    def missing(self) -> bool:
        return self.axis.missing

    @cached_property
    def middles(self) -> tuple[Value | None, ...]:
        """The value that each cell stands for, as rows hold it; None for the one of missing values."""
        kind = self.column.type
        if self.axis.values is not None:
            found: list[Value | None] = [as_held(value, kind) for value in self.axis.values]
        else:
            found = []
            for low, high in pairwise(self.axis.edges or ()):
                whole = self._wholes(low, high) if kind == "integer" else (0, 0)
                found.append((whole[0] + whole[1] - 1) / 2 if whole[1] > whole[0] else (low + high) / 2)
            found = [int(x) if isinstance(x, float) and kind == "integer" and x == int(x) else x for x in found]
        return tuple([*found, None] if self.missing else found)

    def inside(self, count: int) -> tuple[Value | None, ...]:
        """So many values of each cell, spread evenly over a bin, one cell after another. What has no bins has one."""
        if self.axis.edges is None:
            return self.middles
        found: list[Value | None] = []
        for place, (low, high) in enumerate(pairwise(self.axis.edges)):
            first, last = self._wholes(low, high)
            for step in range(count):
                share = (step + 0.5) / count
                if self.column.type != "integer":
                    found.append(low + (high - low) * share)
                else:
                    found.append(first + int(share * (last - first)) if last > first else self.middles[place])
        return tuple([*found, *[None] * count] if self.missing else found)

    def drawn(self, places: Integers, randomness: Randomness | None) -> NDArray[Any]:
        """A value for each of these cells: what it stands for, or a uniform one within its bin."""
        middles = np.empty(self.count, dtype=object)
        middles[:] = self.middles
        found = middles[places]
        if self.axis.edges is None:
            return found
        whole = self.column.type == "integer"
        for place, (low, high) in enumerate(pairwise(self.axis.edges)):
            at = np.flatnonzero(places == place)
            if not at.size:
                continue
            first, last = self._wholes(low, high)
            if whole and randomness is not None and last > first:
                found[at] = (first + randomness.below(last - first, at.size)).tolist()
            elif whole:  # a bin's middle may lie between two whole numbers, and a narrow bin hold none
                found[at] = int(np.clip(np.floor(middles[place]), self.axis.edges[0], self.axis.edges[-1]))
            elif randomness is not None:
                share = (randomness.words(at.size) >> np.uint64(11)).astype(np.float64) * _UNIFORM
                found[at] = (low + (high - low) * share).tolist()
        return found

    def _wholes(self, low: float, high: float) -> tuple[int, int]:
        """The whole numbers in a bin, as a range; the last bin has both its ends."""
        last = high == (self.axis.edges or ())[-1]
        return int(np.ceil(low)), int(np.floor(high)) + 1 if last else int(np.ceil(high))


def cuttable(column: Column) -> bool:
    """Return whether a column has finitely many values, or bounds between which it can be cut."""
    return not column.key and (column.ranged or column.values is not None or column.type == "boolean")


def cuts_of(
    schema: Schema,
    columns: Sequence[str] | None,
    bins: Mapping[str, int | Sequence[float]] | None,
    *,
    missing: bool | Collection[str],
    within: str = "",
) -> tuple[Cut, ...]:
    """Each of these columns cut into cells; by default all that have declared values or bounds. `within` begins the
    names of the fields that a refusal speaks of."""
    named = columns if columns is not None else [n for n, c in schema.columns.items() if cuttable(c)]
    if not named or len(set(named)) != len(named):
        raise Mistake(
            f"{within}columns", "must name at least one column with declared values or bounds, and none twice"
        )
    declared = dict(bins or {})
    if unknown := [name for name in declared if name not in named]:
        raise Mistake(f"{within}bins", f"names {unknown[0][:63]!r}, which is not one of the columns")
    cuts = []
    for name in named:
        column = schema.column(name, f"{within}columns")
        lacks = missing if isinstance(missing, bool) else name in missing
        cuts.append(Cut(name, column, axis_of(name, column, declared.get(name), lacks)))
    return tuple(cuts)


def listable(count: int) -> None:
    """Refuse more cells than are ever listed."""
    if count > MOST_CELLS:
        raise Mistake("columns", f"make {count} cells; name fewer columns or bins, at most {MOST_CELLS} cells")


def axis_of(name: str, column: Column, bins: int | Sequence[float] | None, missing: bool) -> Axis:
    """Make the axis that tells rows apart by one column: by its values, or by bins of its range."""
    if not cuttable(column):
        raise Mistake("columns", f"names {name!r}, which has neither declared values nor bounds")
    if not column.ranged:
        if bins is not None:
            raise Mistake("bins", f"names {name!r}, which is cut by its values already")
        return Axis(name, values=column.values or (False, True), missing=missing)
    grid = column.grid(1)
    whole = column.type == "integer" and grid.low == int(grid.low) and grid.high == int(grid.high)
    values = int(grid.high - grid.low) + 1 if whole else None
    if bins is None:
        bins = BINS if values is None else min(BINS, values)
    if isinstance(bins, bool) or (isinstance(bins, int) and not 1 <= bins <= MOST_CELLS):
        raise Mistake("bins", f"of {name!r} must be a number of bins of at least 1, or a list of places to cut at")
    if isinstance(bins, int) and values is not None and bins >= values:  # each whole number has its own
        inner = [grid.low + place + 0.5 for place in range(values - 1)]
    elif isinstance(bins, int):
        inner = np.linspace(grid.low, grid.high, bins + 1).tolist()[1:-1]
    else:
        inner = [float(place) for place in bins]
    edges = (grid.low, *inner, grid.high)
    if any(a >= b for a, b in pairwise(edges)):
        raise Mistake("bins", f"must cut {name!r} at rising places between its low and its high")
    return Axis(name, edges=edges, missing=missing)
