"""Train tasks in one process: made-up sites, and the loop that runs owners and aggregator against each other."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.engines.source import frame_table
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Table
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import Randomness, seeded_for_simulation
from thebes.privacy.samplers import Integers
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.contributions import read_payloads
from thebes.tasks.protocols import Ask, Setting, State

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SCHEMA: dict[str, Any] = {
    "unit": "person",
    "columns": {
        "age": {"type": "float", "low": 0, "high": 100},
        "height": {"type": "float", "low": 100, "high": 220},
        "sex": {"type": "string", "values": ["female", "male"]},
        "ill": {"type": "boolean", "values": [False, True]},
        "dose": {"type": "float", "low": 0, "high": 10},
    },
}
DOCUMENT: dict[str, Any] = {
    "type": "train",
    "dataset": "patients",
    "model": "LogisticRegression",
    "inputs": ["age", "height", "sex"],
    "output": "ill",
    "rounds": 5,
    "epsilon": 2.0,
    "delta": 1e-6,
}


class Silent(Randomness):
    """Adds nothing, and everybody's coin comes up as that of a seed does: for tests of what is not noise."""

    def __init__(self, seed: int = 0) -> None:
        self._words = seeded_for_simulation(seed)

    def words(self, count: int) -> NDArray[np.uint64]:
        return self._words.words(count)

    def laplace(self, values: Integers, *, scale: float) -> Integers:
        return values.copy()

    def gaussian(self, values: Integers, *, scale: float) -> Integers:
        return values.copy()


def patients(count: int, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Made-up people: age makes ill, and so does being small; the dose follows from both."""
    draw = np.random.default_rng(seed)
    age, height = draw.uniform(0, 100, count), draw.normal(165, 15, count)
    sex = np.where(draw.random(count) < 0.5, "female", "male")
    odds = (age - 50) / 10 - (height - 165) / 20 + (sex == "male")
    ill = draw.random(count) < 1 / (1 + np.exp(-odds))
    dose = np.clip(age / 20 + (height - 165) / 20 + 2 + draw.normal(0, 0.3, count), 0, 10)
    return {"age": age, "height": np.clip(height, 100, 220), "sex": sex, "ill": ill, "dose": dose}


def site(columns: Mapping[str, Any], schema: Mapping[str, Any] = SCHEMA) -> Table:
    """A site with these rows."""
    import pandas as pd

    return frame_table(schema_of(schema), pd.DataFrame(dict(columns)))


def begun(document: Any, tables: Mapping[str, Table], randomness: Randomness) -> Any:
    """A new aggregator for sites of these tables."""
    schemas: dict[str, Schema] = {name: table.schema for name, table in tables.items()}
    return registry.aggregator(
        document, Setting(unit=Unit.PERSON, randomness=randomness, simulated=True, sites=schemas)
    )


def heard(
    document: Any,
    aggregator: Any,
    name: str,
    table: Table,
    claim: RecordedClaim,
    randomness: Randomness,
    owner: Any = None,
) -> None:
    """One site's answer to the current phase, as it would travel; by another half than its own, if said."""
    ask = aggregator.ask(name)
    assert isinstance(ask, Ask)
    owner = owner or registry.site_owner(document, simulated=document.noise == "split")
    given = owner.contribute(document, ask, table, claim, randomness=randomness)
    layout = owner.layout(document, ask, table.schema)
    payloads = list(given.payloads(layout))
    aggregator.accept(read_payloads(aggregator.layout(ask.part, ask.partition), ask.part, payloads, ask.partition))


def run(
    document: Mapping[str, Any],
    tables: Mapping[str, Table],
    randomness: Randomness | None = None,
    *,
    absent: Mapping[int, set[str]] | None = None,
    restarted: bool = False,
) -> tuple[Any, dict[str, RecordedClaim]]:
    """(the aggregator, what each site paid) after the whole task. `absent` says who misses which phase; `restarted`
    makes the aggregator anew from its snapshot after every phase."""
    checked: Any = registry.check(document)
    source = randomness or seeded_for_simulation(1)
    aggregator = begun(checked, tables, source)
    budgets = {name: RecordedClaim() for name in tables}
    while aggregator.state is State.OPEN:
        for name in aggregator.awaited:
            if name in (absent or {}).get(aggregator.phase, set()):
                aggregator.excuse(name, "was away")
            else:
                heard(checked, aggregator, name, tables[name], budgets[name], source)
        aggregator.advance(NOON)
        if restarted:
            again = begun(checked, tables, source)
            again.restore(aggregator.snapshot())
            aggregator = again
    return aggregator, budgets
