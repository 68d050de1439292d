"""Attempts over made-up or one's own rows, in one process: the same stream, runner and tests as at a site."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from thebes.curator.pipelines.attempt_store import CLAIM
from thebes.curator.pipelines.outcome import RunOutcome, outcome
from thebes.curator.pipelines.pipeline import Pipeline
from thebes.curator.pipelines.run_stream import SpendingRights
from thebes.curator.pipelines.runner import Runner
from thebes.curator.pipelines.workspace import Workspace
from thebes.curator.streams.stream import Stream, Terms
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import Schema
from thebes.ledger import Ledger, NoKeeper
from thebes.ledger.states import ClaimState
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Approximate, Pure
from thebes.privacy.randomness import Randomness

LATER = datetime(9000, 1, 1, tzinfo=UTC)  #: every window is over by then
_ROOM = Decimal("1.1")  #: what blocks have beside the document's price, for their sizes


def everybody(blocks: Sequence[str], epsilon: Decimal, delta: Decimal) -> None:
    """The rights of a simulation: everybody may spend what there is."""


@dataclass(frozen=True, slots=True)
class SimulatedAttempts:
    """The attempts of a simulation: what may be spent is the document's price."""

    runner: Runner
    ledger: Ledger
    name: str = "task-simulated"

    def run(self, pipeline: Pipeline) -> RunOutcome:
        return outcome(self.runner, pipeline, source="simulated")

    def paid(self) -> tuple[Decimal, Decimal]:
        """Return what the block that paid most has paid for attempts (epsilon, delta), by its own ledger."""
        found: dict[str, tuple[Decimal, Decimal]] = {}
        for claim in self.ledger.claims(state=ClaimState.CLOSED):
            loss = claim.loss
            if (claim.key or "").startswith(CLAIM) and isinstance(loss, Pure | Approximate):
                for name in claim.blocks:
                    epsilon, delta = found.get(name, (Decimal(0), Decimal(0)))
                    also = loss.delta if isinstance(loss, Approximate) else Decimal(0)
                    found[name] = (epsilon + loss.epsilon, delta + also)
        return max(found.values(), default=(Decimal(0), Decimal(0)))


@contextmanager
def simulated_attempts(
    dataset: str,
    rows: Any,
    schema: Schema,
    *,
    epsilon: exact.Number,
    delta: exact.Number,
    source: Randomness,
    rights: SpendingRights = everybody,
) -> Iterator[SimulatedAttempts]:
    """Yield the right to work on `rows` in blocks of a day, all of which are over, until this ends; no block pays more
    than this epsilon and delta, beside its size."""
    if schema.unit != "event" or schema.time is None:
        raise Mistake("schema", 'must have unit = "event" and a time: a simulated stream has blocks of a day')
    import pandas as pd

    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(dict(rows))
    terms = Terms(exact.epsilon(epsilon) * _ROOM, exact.delta(delta) * _ROOM, "basic")
    with TemporaryDirectory(prefix="thebes-") as folder, Ledger("memory://", keeper=NoKeeper()) as ledger:
        place = Path(folder)
        stream = Stream(
            dataset,
            schema=schema,
            by=block_by("time:1d", schema),
            terms=terms,
            ledger=ledger,
            folder=place / "rows",
            clock=lambda: LATER,
            randomness=lambda: source,
        )
        workspace = Workspace(place)
        try:
            stream.ingest(frame)
            yield SimulatedAttempts(Runner(stream, workspace, "simulated", rights, randomness=source), ledger)
        finally:
            workspace.close()
            stream.close()
