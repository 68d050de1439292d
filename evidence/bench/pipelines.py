"""Time and memory in which a linear regression learns from ten million rows in blocks: aims 30 s and 1 GB."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from thebes.curator.streams.stream import Stream

ROWS, BLOCKS = 10_000_000, 10
START = datetime(2026, 11, 1, tzinfo=UTC)


def _stream(folder: Path, now: datetime) -> Stream:
    from papers.sage.rides import SCHEMA
    from thebes.curator.streams.stream import Stream, Terms
    from thebes.data.growing.block_rule import block_by
    from thebes.data.schema import schema_of
    from thebes.ledger import Ledger, NoKeeper

    schema = schema_of(SCHEMA)
    return Stream(
        "taxi",
        schema=schema,
        by=block_by("time:1d", schema),
        terms=Terms(Decimal(1), Decimal("1e-6"), "zcdp"),
        ledger=Ledger(f"sqlite:///{folder / 'ledger.db'}", keeper=NoKeeper()),
        folder=folder / "growing",
        clock=lambda: now,
    )


def _grow(folder: Path, rows: int, blocks: int) -> None:
    from papers.sage.rides import FLAGS

    draw = np.random.default_rng(0)  # made-up rows, not noise
    for day in range(blocks):
        began = START + timedelta(days=day)
        stream, count = _stream(folder, began + timedelta(days=1)), rows // blocks
        way = np.minimum(draw.gamma(1.5, 2.0, count), 60.0)
        hour = draw.integers(0, 24, count)
        frame = {
            "pickup": np.datetime64(began.replace(tzinfo=None), "ms") + draw.integers(0, 86_400_000, count),
            "duration": np.clip((240 + way * (150 + 60 * (hour > 7)) + draw.gamma(2.0, 90.0, count)) / 7200, 0, 1),
            "speed": np.full(count, 20.0),
            "distance": way,
            "near": np.minimum(way, 20.0),
            "hour": hour,
            "weekday": np.full(count, day % 7),
            "week": np.full(count, day // 7),
            **{flag: (draw.random(count) < 0.1).astype(np.int64) for flag in FLAGS},
        }
        stream.ingest(pd.DataFrame(frame), key=str(day))
        stream.close()


def _train(folder: Path) -> dict[str, float]:
    """In a process of its own: seconds and the most memory it had."""
    from papers.sage.rides import EDGES, FLAGS
    from thebes.curator.pipelines.allowance import Allowance
    from thebes.curator.pipelines.data import Data
    from thebes.curator.pipelines.ready import of

    stream = _stream(folder, START + timedelta(days=BLOCKS + 1))
    names = [block.name for block in stream.blocks()]
    stream.seal(names)
    pipeline = of(
        {
            "stream": "taxi",
            "model": "LinearRegression",
            "inputs": ["distance", "hour", "weekday", "week", *FLAGS],
            "output": "duration",
            "bins": {"distance": list(EDGES[1:-1])},
            "target": {"mse": 0.005},
            "epsilon": 1.0,
            "delta": 1e-6,
        }
    )
    started, worked = time.perf_counter(), time.process_time()
    data = Data(stream.rows(names), stream.size(names)).part("train", 0.9)
    model = pipeline.train(data, Allowance(1, Decimal("1e-6")))
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    return {
        "rows": round(data.size),
        "weights": len(model.weights),
        "seconds": round(seconds, 1),
        "seconds of processors": round(time.process_time() - worked, 1),
        "MB": round(peak),
    }


def run() -> dict[str, Any]:
    """Ten blocks of a million rows each, 61 features; nine tenths of the rows are learned from."""
    with tempfile.TemporaryDirectory() as home:
        folder, started = Path(home), time.perf_counter()
        _grow(folder, ROWS, BLOCKS)
        grown = time.perf_counter() - started
        command = [sys.executable, "-m", "evidence.bench.pipelines", str(folder)]
        told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return {"linear regression": {**told, "aim seconds": 30, "aim MB": 1000}, "ingest seconds": round(grown, 1)}


if __name__ == "__main__":
    print(json.dumps(_train(Path(sys.argv[1]))))
