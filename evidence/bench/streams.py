"""Growing data sets: rows that come in and are read per second, beside DuckDB copying the same file; blocks listed.

Goals: arrays at 1,000,000 rows per second, 10,000 blocks listed in under a second, and a year of hourly blocks shown in
under 300 ms.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from thebes.curator.streams.stream import Stream, Terms
from thebes.data.connectors.scanned_source import connection
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.ledger import Ledger, NoKeeper
from thebes.site.dataset import BlockDeclaration, BudgetDeclaration, DataSet
from thebes.site.steward import views

ROWS, HOURS = 2_000_000, 8760
SCHEMA = {
    "unit": "event",
    "time": "at",
    "columns": {
        "at": {"type": "timestamp"},
        "km": {"type": "float", "low": 0, "high": 100},
        "fare": {"type": "float", "low": 0, "high": 200},
        "zone": {"type": "string", "values": ["a", "b", "c", "d", "e"]},
    },
}
_MADE = (
    "SELECT TIMESTAMP '2025-01-01' + to_seconds(CAST(i * {seconds} // {rows} AS BIGINT)) AS at, random() * 100 AS km, "
    "random() * 200 AS fare, chr(97 + CAST(floor(random() * 5) AS INTEGER)) AS zone FROM range({rows}) r(i)"
)


def run() -> dict[str, float]:
    """Seconds and rates on this machine, as it is loaded just now."""
    with tempfile.TemporaryDirectory() as folder:
        return {**_rows(Path(folder)), **_blocks(Path(folder))}


def _rows(folder: Path) -> dict[str, float]:
    parquet, csv = folder / "rides.parquet", folder / "rides.csv"
    with connection(threads="2", memory_limit="256MB") as opened:
        made = _MADE.format(seconds=30 * 86_400, rows=ROWS)
        opened.execute(f"COPY ({made}) TO '{parquet}' (FORMAT parquet)")
        opened.execute(f"COPY (SELECT * FROM read_parquet('{parquet}')) TO '{csv}' (HEADER)")
        copied = _seconds(
            lambda: opened.execute(
                f"COPY (SELECT * FROM read_parquet('{parquet}')) TO '{folder / 'x'}' (FORMAT parquet)"
            )
        )
    stream = _stream(folder / "rows", "time:1d")
    columnar = _seconds(lambda: stream.ingest(parquet))
    text = _seconds(lambda: stream.ingest(csv))
    names = [block.name for block in stream.blocks()]
    table = stream.rows(names)
    read = min(_seconds(lambda: [len(part) for part in table.arrays(["km", "fare", "zone"])]) for _ in range(3))
    return {
        "Parquet in, rows/s": round(ROWS / columnar),
        "Parquet in, ratio to copying it": round(columnar / copied, 1),
        "CSV in, rows/s": round(ROWS / text),
        "arrays of three columns, rows/s": round(2 * ROWS / read),
    }


def _blocks(folder: Path) -> dict[str, float]:
    return {**_of_hours(folder, HOURS, "a year of hours"), **_of_hours(folder, 10_000, "10,000 blocks")}


def _of_hours(folder: Path, hours: int, called: str) -> dict[str, float]:
    stream, file = _stream(folder / str(hours), "time:1h"), folder / "hours.parquet"
    with connection() as opened:
        made = _MADE.format(seconds=hours * 3600, rows=hours * 2)
        opened.execute(f"COPY ({made}) TO '{file}' (FORMAT parquet)")
    found = {f"{called}, in, s": round(_seconds(lambda: stream.ingest(file)), 2)}
    dataset = DataSet("s", stream.schema, {}, BudgetDeclaration.of(1, "1e-6"), BlockDeclaration(stream.by))
    shown: dict[str, Callable[[], object]] = {
        "listed": stream.blocks,
        "offered": stream.offered,
        "shown": lambda: json.dumps(views.shown(dataset, stream.ledger, lambda _: stream)),
    }
    for what, work in shown.items():
        wall, cpu = _middle(work)
        found |= {f"{called}, {what}, s": wall, f"{called}, {what}, s of a processor": cpu}
    names = [block.name for block in stream.offered()]
    charged = _seconds(lambda: stream.reserve(names, epsilon=0.05, purpose="bench", spender="bench").consume())
    return {**found, f"{called}, sealed and charged, s": round(charged, 2)}


def _stream(folder: Path, by: str) -> Stream:
    folder.mkdir()
    schema = schema_of(SCHEMA)
    return Stream(
        "s",
        schema=schema,
        by=block_by(by, schema),
        terms=Terms(Decimal(1), Decimal("1e-6"), "zcdp"),
        ledger=Ledger(f"sqlite:///{folder}/ledger.db", keeper=NoKeeper()),
        folder=folder / "s",
        clock=lambda: datetime(2026, 6, 1, tzinfo=UTC),
    )


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _middle(work: Callable[[], object]) -> tuple[float, float]:
    """By the clock, and of the processor's time."""
    taken = []
    for _ in range(5):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        taken.append((time.perf_counter() - wall, time.process_time() - cpu))
    return round(statistics.median(w for w, _ in taken), 3), round(statistics.median(c for _, c in taken), 3)
