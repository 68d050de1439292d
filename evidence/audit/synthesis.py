"""Synthetic rows: all that is ever told of the rows they are learned from, with one person there or not, who has as
many rows as a person may have."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd

from thebes.curator.cache.synthesis.allowance import SynthesisAllowance
from thebes.curator.cache.synthesis.domain import Domain
from thebes.curator.cache.synthesis.recipe import Independent, Recipe, SpanningTree
from thebes.data.schema import schema_of
from thebes.privacy.randomness import Randomness
from thebes.tasks.audit.case import Audited, Case, Draw, repeatedly
from thebes.tasks.query.audit import ADD, FAST, SummedTable

ROWS = 2
SCHEMA = schema_of(
    {
        "unit": "person",
        "max_rows_per_unit": ROWS,
        "columns": {
            "who": {"type": "string", "key": True},
            **{name: {"type": "string", "values": ["no", "yes"]} for name in ("x", "y", "z")},
        },
    }
)
OTHERS = pd.DataFrame({"who": ["p", "q"], "x": ["no", "yes"], "y": ["no", "no"], "z": ["yes", "no"]})
MINE = pd.DataFrame({"who": ["me"] * ROWS, "x": ["yes"] * ROWS, "y": ["yes"] * ROWS, "z": ["yes"] * ROWS})
DOMAIN = Domain.of(SCHEMA, missing=False)


def cases() -> list[Case]:
    """Columns by themselves, and in a tree."""
    made: list[Case] = []
    for recipe, delta, count in ((Independent, 0.0, 3000), (Independent, 1e-3, 3000), (SpanningTree, 0.0, 500)):
        one, other = _draws(recipe(DOMAIN, SynthesisAllowance(1, delta)))
        title = f"synthetic rows: {recipe.name}{', Gaussian' if delta else ''}"
        made.append(Audited(title, 1.0, delta, ADD, one, other, draws=count))
    return made


def broken() -> list[Case]:
    """Noise for one histogram, where a row counts in one of every column."""
    one, other = _draws(_Short(DOMAIN, SynthesisAllowance(1)))
    title = "synthetic rows: noise for one column of three"
    return [Audited(title, 1.0, 0.0, ADD, one, other, positive_control=True, draws=60_000)]


class _Short(Independent):
    def _noise(self, share: Any, chosen: Any) -> Any:
        return super()._noise(share, chosen[:1])


def tables() -> list[SummedTable]:
    """With the person's rows, and without."""
    return [SummedTable(pd.concat([OTHERS, *rows], ignore_index=True), SCHEMA) for rows in ([MINE], [])]


def _draws(recipe: Recipe) -> tuple[Draw, Draw]:
    one, other = (repeatedly(partial(told, recipe, table)) for table in tables())
    return one, other


def told(recipe: Recipe, table: Any, randomness: Randomness = FAST) -> list[float]:
    """The cells of every histogram that the person is in, their sum, and which pairs there are."""
    found, _ = recipe.histograms(table, lambda: None, randomness)
    mine = [float(each.counts.reshape(-1)[-1]) for each in found]
    return [*mine, sum(mine[:3]), sum(sum(each.places) for each in found)]
