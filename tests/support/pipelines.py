"""A stream by days, a workspace beside it and the smallest pipeline that learns something."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.attempt_store import PipelineRun
from thebes.curator.pipelines.data import Data
from thebes.curator.pipelines.pipeline import Pipeline
from thebes.curator.pipelines.runner import Runner
from thebes.curator.pipelines.workspace import Workspace
from thebes.curator.streams.stream import Stream, Terms
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.ledger import Ledger, NoKeeper
from thebes.privacy import exact
from thebes.privacy.events import Event, PureEvent
from thebes.privacy.mechanisms.additive import Laplace
from thebes.privacy.randomness import Randomness, seeded_for_simulation, system
from thebes.privacy.transformations.counts import Count

START = datetime(2026, 11, 1, tzinfo=UTC)
SCHEMA = schema_of(
    {
        "unit": "event",
        "time": "at",
        "columns": {
            "at": {"type": "timestamp"},
            "x": {"type": "float", "low": 0.0, "high": 1.0},
            "y": {"type": "float", "low": 0.0, "high": 1.0},
        },
    }
)


#: declared by whoever lets rides be learned from
RIDES: dict[str, Any] = {
    "unit": "event",
    "time": "at",
    "columns": {
        "at": {"type": "timestamp"},
        "km": {"type": "float", "low": 0, "high": 10},
        "minutes": {"type": "float", "low": 0, "high": 60},
    },
}


@dataclass
class Line:
    """y is about `slope` x. Two numbers, so that nothing here hides behind a learner."""

    slope: float

    def predict(self, rows: Any) -> Any:
        return self.slope * rows[:, 0]

    def as_json(self) -> dict[str, Any]:
        return {"kind": "line", "slope": self.slope}


class Lines(Pipeline):
    """Least squares through the origin, from two noisy sums."""

    name = "lines"
    stream = "rides"
    epsilon: exact.Number = 1
    start_epsilon: exact.Number | None = 0.25
    targets = {"mse": 0.1}  # noqa: RUF012
    inputs, output = ("x",), "y"

    def train(self, data: Data, budget: Allowance) -> Line:
        sums = np.zeros(2)
        for x, y in (rows.T for rows in data.arrays(("x", "y"))):
            sums += [float(x @ y), float(x @ x)]
        half = budget.take(0.5).spend().epsilon, budget.take(0.5).spend().epsilon
        xy, xx = (self.hidden(total, epsilon, data.randomness) for total, epsilon in zip(sums, half, strict=True))
        return Line(float(np.clip(xy / max(xx, 1.0), -2, 2)))

    def hidden(self, total: float, epsilon: Decimal, randomness: Randomness) -> float:
        """A sum of products below 1, in thousandths."""
        noise = Laplace(epsilon).noise(Count().sensitivity(SCHEMA.change))
        return float(noise.add(np.array([int(total)], dtype=np.int64), randomness)[0])

    def event(self, epsilon: Any, delta: Any) -> Event:
        return PureEvent(epsilon)


@dataclass
class Home:
    """One stream by days and the workspace beside it; its clock stands still until it is moved."""

    folder: Path
    epsilon: str = "10"
    delta: str = "0"
    filter: str = "basic"
    separate: str = ""
    now: datetime = START
    ledger: Ledger = field(init=False)
    stream: Stream = field(init=False)
    workspace: Workspace = field(init=False)
    asked: list[tuple[tuple[str, ...], Decimal, Decimal]] = field(default_factory=list)
    #: seeded, because whether a model is accepted is luck; None for noise as it is
    randomness: Randomness | None = field(default_factory=lambda: seeded_for_simulation(3))

    def __post_init__(self) -> None:
        self.ledger = Ledger(f"sqlite:///{self.folder / 'ledger.db'}", keeper=NoKeeper())
        terms = Terms(Decimal(self.epsilon), Decimal(self.delta), self.filter, separate=self.separate)
        self.stream = Stream(
            "rides",
            schema=SCHEMA,
            by=block_by("time:1d", SCHEMA),
            terms=terms,
            ledger=self.ledger,
            folder=self.folder / "growing",
            clock=lambda: self.now,
            randomness=lambda: self.randomness or system(),
        )
        self.workspace = Workspace(self.folder, clock=lambda: self.now.timestamp())

    def grow(self, days: int, rows: int = 2000, *, slope: float = 0.8, noise: float = 0.05) -> None:
        """Days of rows, each over when the next begins."""
        chance = np.random.default_rng(int(self.now.timestamp()))
        for _ in range(days):
            x = chance.random(rows)
            y = np.clip(slope * x + noise * chance.standard_normal(rows), 0, 1)
            at = [self.now + timedelta(minutes=float(m)) for m in chance.random(rows) * 1439]
            times = pd.to_datetime(at, utc=True).tz_localize(None)
            self.stream.ingest(pd.DataFrame({"at": times, "x": x, "y": y}), key=f"{self.now:%Y-%m-%d}")
            self.now += timedelta(days=1)

    def rights(self, blocks: Sequence[str], epsilon: Decimal, delta: Decimal) -> None:
        self.asked.append((tuple(blocks), epsilon, delta))

    def runner(self) -> Runner:
        return Runner(self.stream, self.workspace, "ana", self.rights, randomness=self.randomness)

    def run(self, pipeline: Pipeline, **more: Any) -> PipelineRun:
        return self.runner().run(pipeline, **more)

    def spent(self) -> dict[str, Decimal]:
        """Return what every block has paid beyond its size."""
        size = self.stream.terms.size_epsilon
        sized = {block.name for block in self.stream.blocks() if block.size is not None}
        whole = Decimal(self.epsilon)
        return {
            block.name: whole - block.remaining.epsilon - (size if block.name in sized else 0)
            for block in self.ledger.blocks()
        }

    def close(self) -> None:
        self.workspace.close()
        self.stream.close()
