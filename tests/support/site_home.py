"""A site's home for tests: rows in a CSV file, a schema, a budget, a policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from thebes.data.schema import Schema, schema_of
from thebes.database import private_files
from thebes.ledger import Ledger, NoKeeper
from thebes.site.dataset import BudgetDeclaration, DataSet, DataSets
from thebes.site.home import SiteHome
from thebes.tasks import registry
from thebes.tasks.site_document import SiteDocument, declared

AGES = {"unit": "person", "columns": {"age": {"type": "integer", "low": 0, "high": 100}}}
EVERYBODY = """
[[allow]]
requestors = ["*"]
datasets = ["*"]
kinds = ["*"]
epsilon = 1000
noise = ["site", "coordinator"]
"""


def declare(
    home: SiteHome,
    rows: pd.DataFrame,
    *,
    name: str = "patients",
    schema: Mapping[str, Any] = AGES,
    epsilon: float = 10.0,
    delta: float = 0.0,
    filter: str | None = None,
    public: bool = False,
) -> DataSet:
    """Put rows beside a home and declare them as a data set."""
    path = home.folder / f"{name}.csv"
    rows.to_csv(path, index=False)
    source = {"kind": "csv", "path": str(path)}
    dataset = DataSet(
        name, schema_of({**schema, "public": public}), source, BudgetDeclaration.of(epsilon, delta, filter)
    )
    with Ledger(home.ledger, keeper=NoKeeper()) as ledger:
        ledger.open_block(name, **dataset.terms)
    DataSets(home).keep(dataset)
    return dataset


def site_home(folder: Path, *, rows: int = 100, policy: str | None = EVERYBODY, **more: Any) -> SiteHome:
    """A home with one data set of `rows` people and a policy (None: none)."""
    home = SiteHome(folder)
    declare(home, pd.DataFrame({"age": [20 + n % 60 for n in range(rows)]}), **more)
    if policy is not None:
        private_files.write(home.policy, policy)
    return home


def ask(
    document: Mapping[str, Any],
    *,
    task: str = "t1",
    phase: int = 0,
    requestor: str = "ana",
    schema: Schema | None = None,
    **more: Any,
) -> dict[str, Any]:
    """A message that asks a site for a phase of a task; with `schema` it says by which declaration that goes."""
    part = f"phase-{phase}"
    place = {"ask_id": f"{task}.{phase}", "part": part, "phase": phase, "partition": 0}
    told = {"kind": "ask", "id": f"m-{task}-{phase}", "task": task, "requestor": requestor}
    if schema is not None:
        checked = registry.check(document)
        assert isinstance(checked, SiteDocument)
        told["declared"] = declared(schema, checked.reads)
    return {**told, "document": dict(document), "ask": place, "payload": {}, **more}
