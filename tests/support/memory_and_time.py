"""Time and memory that a question over many rows takes, measured in a process of its own: seconds, and the most memory
at any time."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

QUESTIONS = ("bare", "mean", "mean of the latest", "variance by group", "histogram", "rows")

COLUMNS: dict[str, Any] = {
    "who": {"type": "string", "key": True},
    "age": {"type": "integer", "low": 0, "high": 120},
    "weight": {"type": "float", "low": 0, "high": 150},
    "sex": {"type": "string", "values": ["m", "f"]},
    "seen": {"type": "timestamp"},
}


def made_up(folder: Path, rows: int) -> None:
    """A Parquet file of visits by about a third as many people."""
    import duckdb

    with duckdb.connect() as connection:
        visits = connection.sql(
            "SELECT 'patient-' || (hash(i) % $people) AS who, (hash(i + 1) % 100)::INT AS age, "
            "(hash(i + 2) % 150000) / 1000 AS weight, ['m', 'f'][1 + (hash(i + 3) % 2)::INT] AS sex, "
            "TIMESTAMP '2020-01-01' + INTERVAL (i) SECOND AS seen FROM range($rows) r(i)",
            params={"people": max(1, rows // 3), "rows": rows},
        )
        visits.write_parquet(str(folder / "rows.parquet"))


def measured(folder: Path, question: str, *, most: int | None = None) -> dict[str, float]:
    """Ask in a fresh process. `most` rows of one person count; without it every row is a unit of its own."""
    told = json.dumps([str(folder), question, most])
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.memory_and_time", told], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _ask(folder: Path, question: str, most: int | None) -> dict[str, float]:
    from thebes.data.engines.source import table_of
    from thebes.data.filter import read_filter
    from thebes.data.schema import schema_of
    from thebes.data.table import Axis, Factor, Sums, Term

    if question == "bare":
        import duckdb

        with duckdb.connect(config={"threads": 2}) as connection:
            started = time.perf_counter()
            connection.read_parquet(str(folder / "rows.parquet")).aggregate("count(weight), sum(weight)").fetchall()
            return {"seconds": time.perf_counter() - started, "peak MB": peak()}
    person = {"unit": "person", "max_rows_per_unit": most, "time": "seen"}
    unit = {"unit": "event"} if most is None else person
    schema = schema_of({**unit, "columns": COLUMNS})
    table = table_of(schema, {"kind": "parquet", "path": "rows.parquet"}, folder=folder, threads=2)
    started = time.perf_counter()
    if question == "rows":
        for _ in table.batches(["age", "weight", "sex"]):
            pass
    elif question == "histogram":
        table.sums(Sums((Term(),), axes=(Axis("weight", edges=tuple(float(n) for n in range(151))),)))
    elif question == "variance by group":
        terms = tuple(Term((Factor("weight", 2, place),)) for place in range(3))
        table.sums(Sums(terms, axes=(Axis("sex", ("m", "f")),), where=read_filter("age >= 18", schema)))
    else:
        table.sums(Sums(tuple(Term((Factor("weight", 1, place),)) for place in range(2))))
    seconds = time.perf_counter() - started
    table.close()
    return {"seconds": seconds, "peak MB": peak()}


def forget_peak() -> None:
    """From now on, `peak` counts anew (Linux; elsewhere it counts from the start of the process)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak() -> float:
    """The most memory of this process, in millions of bytes (`getrusage` would begin with what its parent had)."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1]) * 1024 / 1e6
    except (OSError, StopIteration):
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


if __name__ == "__main__":
    place, wanted, rows_each = json.loads(sys.argv[1])
    print(json.dumps(_ask(Path(place), wanted, rows_each)))
