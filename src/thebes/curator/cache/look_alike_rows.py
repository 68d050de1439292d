"""Rows that answer about as the released answers did: who plays the data where nobody may look at them.

Everything here is public, and nothing here is a promise: what was not asked is taken to be spread evenly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.curator.cache.cells import Cells
from thebes.curator.cache.cuts import cuttable
from thebes.curator.cache.pmw.guess import CellGuess
from thebes.curator.questions.plans import Plan
from thebes.data.filter import RowFilter
from thebes.data.schema import Schema
from thebes.data.table import Batch, Sums, Table
from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Floats
from thebes.privacy.randomness import seeded_for_simulation

ROWS = 20_000  #: that are made; each stands for as many as there are for it
_CELLS = 200_000  #: of columns that are guessed together; of more, each is guessed by itself
_LEAST, _ENOUGH = 4, 40  #: rounds in which all answers are heard: the more of them, the fewer
_HEARD = 1000  #: answers that are heard in all, where one round has fewer
_MOST = 1.0  #: of a step's logarithm
_SEED = 1  #: the same answers make the same rows

Released = tuple[Plan, Floats]


@dataclass(frozen=True)
class Likeness:
    """A table whose sums are those of `size` rows."""

    table: Table
    size: float

    @classmethod
    def of(cls, schema: Schema, released: Sequence[Released], size: float) -> Likeness:
        """From plans and what was released of their totals, each once."""
        from thebes.data.engines.frames import frame_of
        from thebes.data.engines.source import frame_table

        columns: dict[str, NDArray[Any]] = {}
        chance = seeded_for_simulation(_SEED)
        for cells in _domains(schema, [plan for plan, _ in released]):
            shares = _fitted(cells, [one for one in released if _asked(one[0]) <= set(cells.columns)], size)
            ends = np.cumsum(shares, dtype=np.float64)
            drawn = np.searchsorted(ends, (np.arange(ROWS) + 0.5) / ROWS * ends[-1])
            made = cells.rows(np.minimum(drawn, cells.count - 1).astype(np.int64))
            apart = np.argsort(chance.below(2**62, ROWS))  # columns that were guessed apart are independent
            columns |= {name: values[apart] for name, values in made.items()}
        return cls(frame_table(schema, frame_of(schema, columns, rows=ROWS)), size)

    @property
    def schema(self) -> Schema:
        return self.table.schema

    def sums(self, wanted: Sums) -> NDArray[np.int64]:
        found: NDArray[np.int64] = np.rint(self.table.sums(wanted) * (self.size / ROWS)).astype(np.int64)
        return found

    def batches(self, columns: Sequence[str], where: RowFilter | None = None, *, rows: int = 65_536) -> Iterator[Batch]:
        return self.table.batches(columns, where, rows=rows)


def _asked(plan: Plan) -> set[str]:
    where = () if plan.where is None else plan.where.columns
    return {*plan.sums.columns, *(axis.column for axis in plan.sums.axes), *where}


def _domains(schema: Schema, plans: Sequence[Plan]) -> list[Cells]:
    """All columns that were asked together where that makes few enough cells, and every other one by itself."""
    cut = [name for name, column in schema.columns.items() if cuttable(column)]
    asked = [name for name in cut if any(name in _asked(plan) for plan in plans)]
    try:
        together = Cells.of(schema, asked) if asked else None
    except Mistake:
        together = None
    if together is None or together.count > _CELLS:
        return [Cells.of(schema, [name]) for name in cut]
    return [together, *(Cells.of(schema, [name]) for name in cut if name not in asked)]


def _fitted(cells: Cells, released: Sequence[Released], size: float) -> NDArray[np.float64]:
    """Shares of the cells with which rows answer about as was released."""
    guess = CellGuess.uniform(cells, 0)
    for _ in range(min(_ENOUGH, max(_LEAST, _HEARD // max(1, len(released))))):
        for plan, totals in released:
            vectors = cells.vectors(plan)
            told, squares = vectors.moments(guess.shares)
            most = max(abs(vectors.low), abs(vectors.high), 1)
            wished = (totals - size * told) * most / np.maximum(size * squares, most)
            moved = np.clip(np.sign(wished) * np.log1p(np.abs(wished)), -_MOST, _MOST)
            together = float(np.abs(vectors.weights).sum(axis=0).max())
            if together and moved.any():
                guess.tilt(vectors, moved / max(most, together))
    return np.asarray(guess.shares, dtype=np.float64).reshape(-1)
