"""Queries over fifteen sites in one process: the whole way from document to release, beside numpy on all rows at once,
and what the task itself costs beyond reading the rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from thebes.data.engines.frames import FrameEngine
from thebes.data.engines.table import EngineTable
from thebes.data.schema import schema_of
from thebes.data.table import Sums, Table
from thebes.privacy.randomness import system
from thebes.simulation.sites import run as simulated
from thebes.tasks import registry

SITES, ROWS, TURNS = 15, 20_000, 7
GOAL_SECONDS = 0.05
SCHEMA = schema_of(
    {
        "unit": "person",
        "columns": {
            "age": {"type": "float", "low": 0, "high": 120},
            "weight": {"type": "float", "low": 20, "high": 220},
            "sex": {"type": "string", "values": ["female", "male"]},
        },
    }
)
#: fields of the document, and the same in numpy
QUESTIONS: dict[str, tuple[dict[str, Any], Callable[[pd.DataFrame], Any]]] = {
    "count": ({}, len),
    "sum": ({"column": "age"}, lambda f: np.clip(f["age"].to_numpy(), 0, 120).sum()),
    "mean": ({"column": "age"}, lambda f: np.clip(f["age"].to_numpy(), 0, 120).mean()),
    "variance": ({"column": "age"}, lambda f: np.clip(f["age"].to_numpy(), 0, 120).var()),
    "histogram": ({"column": "age", "bins": 24}, lambda f: np.histogram(f["age"], 24, (0, 120))),
    "quantile": ({"column": "age", "quantile": 0.5}, lambda f: np.quantile(f["age"], 0.5)),
    "correlation": ({"columns": ["age", "weight"]}, lambda f: np.corrcoef(f["age"], f["weight"])),
    "mean by sex": ({"statistic": "mean", "column": "age", "by": "sex"}, lambda f: f.groupby("sex")["age"].mean()),
}


class Known:
    """A table that has been added up: what is left to measure is the task."""

    def __init__(self, table: Table) -> None:
        self._table, self.schema = table, table.schema
        self._sums: dict[Sums, Any] = {}

    def sums(self, wanted: Sums) -> Any:
        if wanted not in self._sums:
            self._sums[wanted] = self._table.sums(wanted)
        return self._sums[wanted]

    def batches(self, *args: Any, **more: Any) -> Any:
        raise NotImplementedError


def _seconds(work: Callable[[], Any]) -> float:
    work()
    taken = []
    for _ in range(TURNS):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)  # the machine may have other work


def run() -> dict[str, Any]:
    """Milliseconds of each statistic over all sites: reading rows and task, the task alone, and numpy."""
    rng = np.random.default_rng(0)
    frames = []
    for _ in range(SITES):
        age = rng.normal(45, 15, ROWS)
        sex = rng.choice(["female", "male"], ROWS)
        frames.append(pd.DataFrame({"age": age, "weight": 40 + age / 2 + rng.normal(0, 9, ROWS), "sex": sex}))
    everybody = pd.concat(frames, ignore_index=True)
    # a `frame_table` would keep its answer to a question that is asked again and again
    tables: dict[str, Table] = {
        f"site-{i:02}": EngineTable(SCHEMA, FrameEngine(SCHEMA, frame)) for i, frame in enumerate(frames)
    }
    known: dict[str, Table] = {site: Known(table) for site, table in tables.items()}
    report: dict[str, Any] = {"sites": SITES, "rows_at_each": ROWS}
    for noise in ("site", "coordinator"):
        for name, (fields, plainly) in QUESTIONS.items():
            body = {"type": "query", "dataset": "d", "statistic": name, "epsilon": 1.0, "noise": noise, **fields}
            document: Any = registry.check(body)
            whole = _seconds(partial(simulated, document, tables, system()))
            task = _seconds(partial(simulated, document, known, system()))
            report.setdefault(f"noise_at_the_{noise}", {})[name] = {
                "milliseconds": round(whole * 1e3, 2),
                "without_reading_rows": round(task * 1e3, 2),
                "numpy_on_all_rows": round(_seconds(partial(plainly, everybody)) * 1e3, 3),
            }
    counted = report["noise_at_the_site"]["count"]["milliseconds"] / 1e3
    report["count_over_all_sites"] = {"seconds": counted, "goal": GOAL_SECONDS, "goal_met": counted <= GOAL_SECONDS}
    return report
