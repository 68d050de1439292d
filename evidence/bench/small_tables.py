"""A question of a small table: its milliseconds of computing, beside the same question where DuckDB adds the rows up.

Both are over one file in the same run, in turns, and read the rows anew for each question, as a site does for each
task. Few rows are read in one statement and added up in arrays; to plan a question, step by step, takes DuckDB longer
than the rows do.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thebes.data.engines.source import table_of
from thebes.data.engines.table import EngineTable
from thebes.data.schema import schema_of
from thebes.data.table import Axis, Factor, Sums, Term

ROWS, TURNS = 1000, 7
AGE = Term((Factor("age", 1, 1),))
QUESTIONS = {
    "sum": Sums((AGE,)),
    "mean by group": Sums((Term(), AGE), axes=(Axis("sex", ("f", "m")),)),
    "histogram of 24 bins": Sums((Term(),), axes=(Axis("age", edges=tuple(np.linspace(0, 120, 25).tolist())),)),
}
COLUMNS = {
    "age": {"type": "float", "low": 0, "high": 120},
    "sex": {"type": "string", "values": ["f", "m"]},
}
OF_PERSONS = {"unit": "person", "columns": {**COLUMNS, "person": {"type": "string", "key": True}}}
UNITS: dict[str, dict[str, Any]] = {
    "rows that are units": {"unit": "event", "columns": COLUMNS},
    "persons with at most 2 rows": {**OF_PERSONS, "max_rows_per_unit": 2},
    "one of two rows of a person": {**OF_PERSONS, "max_rows_per_unit": 1},
}


def run(rows: int = ROWS) -> dict[str, Any]:
    """Milliseconds of computing for a question, and the ratio to what it takes where DuckDB adds up."""
    rng = np.random.default_rng(1)  # made-up rows, not noise
    frame = pd.DataFrame({"age": rng.uniform(0, 120, rows), "sex": rng.choice(["f", "m"], rows)})
    frame["person"] = [f"p{n // 2}" for n in range(rows)]
    told: dict[str, Any] = {"rows": rows}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        frame.to_csv(folder / "rows.csv", index=False)
        frame.to_parquet(folder / "rows.parquet")
        for kind in ("parquet", "csv"):
            for unit, body in UNITS.items():
                told[f"{kind}, {unit}"] = _compared(folder, kind, body)
    return told


def _compared(folder: Path, kind: str, body: dict[str, Any]) -> dict[str, Any]:
    ours, theirs = (
        table_of(schema_of(body), {"kind": kind, "path": f"rows.{kind}"}, folder=folder, threads=1) for _ in range(2)
    )
    engine: Any = theirs.engine
    engine.session.most_few = -1
    found: dict[str, Any] = {}
    for name, wanted in QUESTIONS.items():
        took: dict[str, list[float]] = {"ours": [], "DuckDB": []}
        for _ in range(TURNS):
            for which, table in (("ours", ours), ("DuckDB", theirs)):
                took[which].append(_computed(table, wanted))
        assert ours.sums(wanted).tolist() == theirs.sums(wanted).tolist()
        few, many = (1000 * float(np.median(each)) for each in took.values())
        found[name] = {"ms": round(few, 2), "DuckDB ms": round(many, 2), "ratio to DuckDB's": round(few / many, 3)}
    ours.close()
    theirs.close()
    return found


def _computed(table: EngineTable, wanted: Sums) -> float:
    """Seconds of computing, of all threads, for a question whose rows are read anew."""
    table.forget()
    began = time.process_time()
    table.sums(wanted)
    return time.process_time() - began
