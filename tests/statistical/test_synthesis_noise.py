"""The noise in what synthetic rows are learned from, and the odds of the pairs that are chosen: the claimed ones, and
none 30 % off. Every p value is below 1e-9 where it must be, so that nothing here fails by luck more often than that."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest

from thebes.curator.cache.synthesis.allowance import SynthesisAllowance
from thebes.curator.cache.synthesis.domain import Domain, Measured
from thebes.curator.cache.synthesis.recipe import Independent, SpanningTree
from thebes.curator.cache.synthesis.tree import Tree
from thebes.data.engines.source import frame_table
from thebes.data.schema import schema_of
from thebes.privacy.accounting.calibration import rho_for
from thebes.privacy.randomness import Randomness, system
from thebes.testing.statistics import assert_odds, assert_size

ROWS = 3
SCHEMA = schema_of(
    {
        "unit": "person",
        "max_rows_per_unit": ROWS,
        "columns": {
            "who": {"type": "integer", "key": True},
            **{name: {"type": "integer", "values": list(range(5))} for name in "abc"},
        },
    }
)


class Known:
    """A table whose sums are added up once."""

    def __init__(self) -> None:
        draw = np.random.default_rng(0)
        columns = {name: draw.integers(0, 5, 200) for name in "abc"}
        self.schema, self._table = SCHEMA, frame_table(SCHEMA, pd.DataFrame({"who": np.arange(200), **columns}))
        self._sums: dict[Any, Any] = {}

    def sums(self, wanted: Any) -> Any:
        if wanted not in self._sums:
            self._sums[wanted] = self._table.sums(wanted)
        return self._sums[wanted]

    batches: Any = None


TABLE, DOMAIN = Known(), Domain.of(SCHEMA)


@pytest.mark.few(1)
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_histograms_have_the_noise_that_their_share_pays_for(delta: float) -> None:
    noise: dict[str, list[float]] = {"alone": [], "single": [], "pair": []}
    randomness: Randomness = system()
    for _ in range(60):
        for recipe in (
            Independent(DOMAIN, SynthesisAllowance(1, delta)),
            SpanningTree(DOMAIN, SynthesisAllowance(1, delta)),
        ):
            found, _ = recipe.histograms(TABLE, lambda: None, randomness)
            for each in found:
                kind = "pair" if len(each.places) == 2 else "alone" if recipe.name == "independent" else "single"
                noise[kind] += (each.counts - DOMAIN.counts(TABLE, each.places)).reshape(-1).tolist()
    if delta:
        rho = float(rho_for(1, delta))
        scales = {name: ROWS * math.sqrt(n / (2 * rho * share)) for name, n, share in _SHARES}
    else:
        scales = {name: ROWS * n / share for name, n, share in _SHARES}
    for name, scale in scales.items():
        assert_size(noise[name], "gaussian" if delta else "laplace", scale)


#: which histograms, how many together, their share of the budget
_SHARES = (("alone", 3, 1.0), ("single", 3, 1 / 3), ("pair", 2, 1 / 3))


@pytest.mark.slow
def test_pairs_are_chosen_with_the_odds_that_their_share_pays_for() -> None:
    recipe = SpanningTree(DOMAIN, SynthesisAllowance(1))
    even = Tree.fit(DOMAIN.shape, [Measured((i,), np.full(n, 10.0), 1.0) for i, n in enumerate(DOMAIN.shape)])
    flat = np.full((6, 6), 5, dtype=np.int64)
    exact: dict[tuple[int, ...], Any] = {(0, 1): flat.copy(), (0, 2): flat.copy(), (1, 2): flat.copy()}
    exact[0, 1][0, 0] += 60
    exact[1, 2][0, 0] += 25
    utility = recipe.utilities(exact.items(), even, 180.0, 0.0)
    randomness = system()
    chosen = Counter(tuple(recipe._chosen(utility, randomness)) for _ in range(4000))
    pairs = list(exact)
    left_out = [chosen[tuple(sorted(set(pairs) - {pair}))] for pair in pairs]

    def odds_at(epsilon: float) -> Any:
        # epsilon / 3 for two choices; a person moves a utility by ROWS, two of them apart by twice that
        rate = epsilon / 3 / 2 / (2 * ROWS)
        weights = [math.exp(rate * utility[pair]) for pair in pairs]
        whole = sum(weights)

        def both(a: float, b: float) -> float:
            return a / whole * b / (whole - a) + b / whole * a / (whole - b)

        return [both(*(w for place, w in enumerate(weights) if place != out)) for out in range(3)]

    assert_odds(left_out, odds_at, 1.0)
