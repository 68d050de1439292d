"""The series that need no other process: each a work at several sizes, in turns with a bare engine in the same run."""

from __future__ import annotations

import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import thebes
from evidence.bench.ledger import charge, opened, raw_charge
from evidence.growth.federated import sites, training
from tests.support.memory_and_time import COLUMNS, made_up
from thebes.data.engines.source import table_of
from thebes.data.schema import schema_of
from thebes.data.table import Factor, Sums, Term
from thebes.ledger import Ledger, NoKeeper
from thebes.privacy.mechanisms.additive import Gaussian
from thebes.privacy.randomness import system
from thebes.privacy.stability import Sensitivity
from thebes.wire import frames

TURNS = 5
MEAN = {
    "type": "basic",
    "epsilon": 1.0,
    "server": "trusted",
    "featurizer": "SELECT age FROM p.t",
    "aggregator": "mean",
    "bounds": {"age": {"type": "range", "low": 0, "high": 100}},
}
WEIGHT = Sums(tuple(Term((Factor("weight", 1, place),)) for place in range(2)))

Work = Callable[[], object]


def people() -> dict[str, Any]:
    """A task of people from document to release, simulated, beside a sum of the same numbers."""

    def at(size: int) -> tuple[Work, Work]:
        ages = np.random.default_rng(1).uniform(0, 100, size)  # made-up people, not noise
        return lambda: thebes.simulate(MEAN, {"age": ages}), lambda: sum(ages.tolist()) / size

    told = ("A private mean over people, simulated in one process", "Python's sum of the numbers")
    return _series(*told, "people", (_turns(size, *at(size)) for size in (1_000, 10_000, 100_000)))


def rows() -> dict[str, Any]:
    """A sum over rows that are units, beside DuckDB's."""
    points = []
    for size in (100_000, 1_000_000, 10_000_000):
        with tempfile.TemporaryDirectory() as place, duckdb.connect(config={"threads": 2}) as bare:
            made_up(Path(place), size)
            at = Path(place) / "rows.parquet"
            source = {"kind": "parquet", "path": at.name}
            table = table_of(schema_of({"unit": "event", "columns": COLUMNS}), source, folder=at.parent, threads=2)

            def ours() -> None:
                table.forget()  # noqa: B023  # called before the next size
                table.sums(WEIGHT)  # noqa: B023

            def beside() -> None:
                bare.read_parquet(str(at)).aggregate("count(weight), sum(weight)").fetchall()  # noqa: B023

            points.append(_turns(size, ours, beside))
            table.close()
    return _series("A sum over rows of a Parquet file", "DuckDB's own SUM, on two threads like ours", "rows", points)


def blocks() -> dict[str, Any]:
    """A charge on one block of many, beside SQLite alone."""

    def at(size: int, folder: Path) -> dict[str, Any]:
        names = [f"day {number:05}" for number in range(size)]
        ours, raw = (opened(folder / f"{name}{size}.db", names) for name in ("ours", "raw"))
        bare = raw_charge(raw, names[:1])
        with Ledger(f"sqlite:///{ours}", keeper=NoKeeper()) as ledger:
            return _turns(size, lambda: charge(ledger, names[:1]), bare, calls=20)

    with tempfile.TemporaryDirectory() as folder:
        points = [at(size, Path(folder)) for size in (1, 100, 1_000, 10_000)]
    return _series(
        "A charge on one of so many blocks of a ledger",
        "the same writes by SQLite alone, which checks, prices and hashes nothing",
        "blocks",
        points,
    )


def weights() -> dict[str, Any]:
    """A model as a message and back, beside hashing it."""

    def at(size: int) -> tuple[Work, Work]:
        model = np.random.default_rng(1).normal(size=size)

        def both() -> None:
            body = frames.write(frames.split({"payload": {"weights": model}}))
            frames.read(body).message(arrays=True)

        return both, lambda: hashlib.sha256(model.data).digest()

    told = ("A model as a message, written and read", "SHA-256 of it once; each side computes that")
    return _series(*told, "weights", (_turns(size, *at(size)) for size in (1_000, 100_000, 5_000_000)))


def noise() -> dict[str, Any]:
    """Exact Gaussian noise on whole numbers, beside numpy's in floating point."""
    made = Gaussian(1.0, 1e-6).noise(Sensitivity(1000, 1000**2))

    def at(size: int) -> tuple[Work, Work]:
        sums, drawing = np.zeros(size, dtype=np.int64), np.random.default_rng(1)
        return lambda: made.add(sums, system()), lambda: sums + drawing.normal(0, made.deviation, size)

    told = ("Exact Gaussian noise on every weight", "numpy's Gaussian noise, which is not exact and so protects less")
    return _series(*told, "weights", (_turns(size, *at(size)) for size in (1_000, 10_000, 100_000)))


def _series(does: str, beside: str, of: str, points: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"does": does, "beside": beside, "of": of, "points": list(points)}


def _turns(size: int, ours: Work, bare: Work, calls: int = 1) -> dict[str, Any]:
    """The seconds of computing of one call of each, in the middle of some turns; the first of each is not counted."""
    took: dict[str, list[float]] = {"seconds": [], "bare": []}
    for turn in range(TURNS + 1):
        for which, work in (("seconds", ours), ("bare", bare)):
            began = time.process_time()
            for _ in range(calls):
                work()
            if turn:
                took[which].append((time.process_time() - began) / calls)
    return {"size": size, **{which: max(1e-9, statistics.median(each)) for which, each in took.items()}}


ALL: dict[str, Callable[[], dict[str, Any]]] = {
    "people": people,
    "rows": rows,
    "sites": sites,
    "training": training,
    "blocks": blocks,
    "weights": weights,
    "noise": noise,
}
