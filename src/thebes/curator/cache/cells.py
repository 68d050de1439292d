"""A schema's columns cut into finitely many cells, so that rows can be counted, guessed and made up.

What must stay true: which cells there are follows from the schema and the declaration alone. A bin stands for its rows
by its middle, and by values spread evenly over it where a condition cuts it: that may make a guess from cells wrong,
which is why no promise rests on one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.curator.cache.cuts import Cut, cuts_of, listable
from thebes.curator.cache.vectors import Vectors
from thebes.curator.questions.plans import Plan
from thebes.data.schema import Schema
from thebes.data.table import Sums, Table, Term
from thebes.privacy.measurement import Floats
from thebes.privacy.randomness import Randomness

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Cells:
    """The cells of some columns of a schema, in row-major order."""

    cuts: tuple[Cut, ...]

    @classmethod
    def of(
        cls,
        schema: Schema,
        columns: Sequence[str] | None = None,
        bins: Mapping[str, int | Sequence[float]] | None = None,
        *,
        missing: bool | Collection[str] = True,
    ) -> Cells:
        """The cells of these columns, by default of all that have declared values or bounds. `bins` says for a ranged
        column how many bins it has, or where it is cut; `missing` which columns may lack a value (a row that lacks
        another one is in no cell)."""
        made = cls(cuts_of(schema, columns, bins, missing=missing))
        listable(made.count)
        return made

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return tuple(cut.name for cut in self.cuts)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(cut.count for cut in self.cuts)

    @cached_property
    def count(self) -> int:
        total = 1
        for cells in self.shape:
            total *= cells
        return total

    def covers(self, plan: Plan) -> bool:
        """Return whether every column that a plan asks has cells here."""
        asked = [*plan.sums.columns, *(plan.where.columns if plan.where is not None else ())]
        return set(asked) <= set(self.columns)

    def vectors(self, plan: Plan) -> Vectors:
        """Return what one row of each cell adds to each of a plan's totals."""
        return Vectors.of(self.cuts, plan)

    def counts(self, table: Table) -> Integers:
        """Count the rows of each cell. EXACT, to be hidden: a row is in one cell at most, so a unit moves them by at
        most `max_rows_per_unit` in L1."""
        return table.sums(Sums((Term(),), axes=tuple(cut.axis for cut in self.cuts)))[:, 0]

    def rows(self, indices: Integers, randomness: Randomness | None = None) -> dict[str, NDArray[Any]]:
        """Columns of values for rows in these cells: what each cell stands for or, with `randomness`, a uniform value
        within each bin."""
        places = np.unravel_index(np.asarray(indices, dtype=np.int64), self.shape)
        return {cut.name: cut.drawn(at, randomness) for cut, at in zip(self.cuts, places, strict=True)}


def mass_of(cells: Cells, *, missing: float) -> Floats:
    """A guess from no data: shares of the cells, alike but for those of missing values, which together have the share
    `missing` of their column."""
    found = np.ones((1,))
    for cut in cells.cuts:
        filled = cut.count - cut.missing
        each = np.full(cut.count, (1 - missing if cut.missing else 1.0) / filled)
        if cut.missing:
            each[-1] = missing
        found = np.multiply.outer(found, each)
    return found.reshape(-1)
