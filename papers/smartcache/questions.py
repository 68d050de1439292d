"""Questions that are asked: counts, histograms and sums over one table, and the order in which they come.

Two fifths are counts of rows with one or two attributes, 35 % histograms of one attribute (half of them of some rows
only), a quarter sums of a number (three fifths of some rows only). An attribute of more than four values or bins is
asked for in a run of neighbouring ones, any other in one of its values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from papers.smartcache.tables import Asked
from thebes.curator.questions.question import Question

COUNTS, HISTOGRAMS = 0.40, 0.35
POOL = 200
ORDERS = ("uniform", "zipf", "fresh")


def workload(asked: Asked, order: str, *, queries: int, seed: int, pool: int = POOL) -> list[Question]:
    """So many draws of a pool: each of it equally likely, or the r-th in proportion to 1/r (zipf); or every question
    made anew (fresh). A pool is drawn in the shares above; as there are not very many histograms and sums, some of it
    are alike."""
    draw = np.random.default_rng(seed)  # a workload, not noise
    if order == "fresh":
        return [_any(asked, draw) for _ in range(queries)]
    counts, histograms = round(pool * COUNTS), round(pool * HISTOGRAMS)
    kinds = [_count] * counts + [_histogram] * histograms + [_sum] * (pool - counts - histograms)
    made = [kinds[int(place)](asked, draw) for place in draw.permutation(pool)]
    odds = 1 / np.arange(1, pool + 1) if order == "zipf" else np.ones(pool)
    return [made[int(place)] for place in draw.choice(pool, queries, p=odds / odds.sum())]


def _any(asked: Asked, draw: np.random.Generator) -> Question:
    kind = draw.random()
    made = _count if kind < COUNTS else _histogram if kind < COUNTS + HISTOGRAMS else _sum
    return made(asked, draw)


def _count(asked: Asked, draw: np.random.Generator) -> Question:
    chosen = draw.choice(asked.attributes, size=int(draw.integers(1, 3)), replace=False)
    return Question("count", where=" AND ".join(_condition(asked, str(name), draw) for name in chosen))


def _histogram(asked: Asked, draw: np.random.Generator) -> Question:
    name, other = (str(one) for one in draw.choice(asked.attributes, size=2, replace=False))
    where = _condition(asked, other, draw) if draw.random() < 0.5 else None
    return Question("histogram", (name,), where, bins=asked.bins.get(name))


def _sum(asked: Asked, draw: np.random.Generator) -> Question:
    name = str(draw.choice(asked.summed))
    others = [one for one in asked.attributes if one != name]
    where = _condition(asked, str(draw.choice(others)), draw) if draw.random() < 0.6 else None
    return Question("sum", (name,), where)


def _condition(asked: Asked, name: str, draw: np.random.Generator) -> str:
    found = asked.cells(name)
    ranged = asked.schema.columns[name].values is None
    count = len(found) - ranged
    if count <= 4:
        first, last = (int(draw.integers(count)),) * 2
    else:
        first, last = sorted(int(end) for end in draw.integers(count, size=2))
    if ranged:
        return f"{name} >= {found[first]!r} AND {name} < {found[last + 1]!r}"
    return f"{name} = {_written(found[first])}" if first == last else f"{name} IN ({_listed(found[first : last + 1])})"


def _listed(values: Sequence[Any]) -> str:
    return ", ".join(_written(value) for value in values)


def _written(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)
