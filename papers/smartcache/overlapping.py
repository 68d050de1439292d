"""Thousands of different counts of the same few columns: what a guess at the rows is for.

A question says for each column which of its values count, about half of them in any combination; almost every two of
them overlap, and hardly any is asked twice.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from papers.smartcache.asking import Strategy, Trail, Truth, ask_of
from papers.smartcache.tables import Asked, table
from thebes.curator.cache.cells import Cells
from thebes.curator.cache.synopsis import View
from thebes.curator.questions.plans import Integers, QuestionPlan
from thebes.curator.questions.question import Question

POOL = 4000
COLUMNS = {
    "avocado": ("type", "year", "region", "quarter"),
    "bank": ("job", "marital", "education", "housing", "y"),
}


class Counted(Truth):
    """A table of which only the counts of some columns' cells are kept: for counts of declared values they are all that
    there is to know."""

    def __init__(self, asked: Asked, columns: tuple[str, ...]) -> None:
        super().__init__(asked)
        self.columns = columns
        self._cells = Cells.of(asked.schema, columns, missing=False)
        self._counts = self._cells.counts(self.open)

    def totals(self, plan: QuestionPlan, blocks: View | None = None) -> Integers:
        assert plan.single is not None  # noqa: S101  # several statistics at once are not asked here
        return np.rint(self._cells.vectors(plan.single).totals(self._counts.astype(np.float64))).astype(np.int64)


@lru_cache(maxsize=2)
def counted(name: str) -> Counted:
    return Counted(table(name), COLUMNS[name])


def overlapping(asked: Asked, columns: tuple[str, ...], *, queries: int, seed: int, pool: int = POOL) -> list[Question]:
    """So many draws of a pool of such counts."""
    draw = np.random.default_rng([seed, 2])  # a workload, not noise
    made = [_count(asked, columns, draw) for _ in range(pool)]
    return [made[int(place)] for place in draw.integers(pool, size=queries)]


def _count(asked: Asked, columns: tuple[str, ...], draw: np.random.Generator) -> Question:
    parts = []
    for name in columns:
        values = asked.cells(name)
        many = int(draw.integers(1, len(values) + 1))
        if many < len(values):
            chosen = sorted(draw.choice(len(values), many, replace=False).tolist())
            parts.append(f"{name} IN ({', '.join(_written(values[place]) for place in chosen)})")
    return Question("count", where=" AND ".join(parts) or None)


def _written(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


@lru_cache(maxsize=64)
def long_trail(name: str, strategy: Strategy, queries: int, seed: int) -> Trail:
    """One strategy's way through it; a synopsis is declared over these columns."""
    rows = counted(name)
    declared = strategy.over(rows.columns) if strategy.kind in ("smart", "pmw") else strategy
    return ask_of(rows, overlapping(rows.asked, rows.columns, queries=queries, seed=seed), declared, seed)
