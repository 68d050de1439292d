"""A pipeline over made-up or one's own rows, in one process: the same stream, attempts and tests as at a site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from thebes.curator.pipelines.outcome import Outcome, outcome
from thebes.curator.pipelines.pipeline import Pipeline
from thebes.curator.pipelines.runner import Runner
from thebes.curator.pipelines.workshop import Workshop
from thebes.curator.streams import Stream, Terms
from thebes.data.growing.blocking import block_by
from thebes.data.schema import Schema
from thebes.ledger import Ledger, NoKeeper
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import Randomness
from thebes.tasks import registry
from thebes.tasks.release import Release
from thebes.tasks.shape import Ask, Setting
from thebes.tasks.sites import SiteDocument

_LATER = datetime(9000, 1, 1, tzinfo=UTC)  #: every window is over by then
_ROOM = Decimal("1.1")  #: what blocks have beside the document's price, for their sizes


@dataclass(frozen=True, slots=True)
class _Attempts:
    """Everybody may; what may be spent is the document's price."""

    runner: Runner
    name: str = "task-simulated"

    def run(self, pipeline: Pipeline) -> Outcome:
        return outcome(self.runner, pipeline, source="simulated")


def simulate_stream(document: SiteDocument, rows: Any, schema: Schema, source: Randomness) -> Release:
    """Run a document that a site answers in attempts: over `rows` in blocks of a day, all of which are over."""
    if schema.unit != "event" or schema.time is None:
        raise Mistake("schema", 'must have unit = "event" and a time: a simulated stream has blocks of a day')
    import pandas as pd

    frame = rows if isinstance(rows, pd.DataFrame) else pd.DataFrame(dict(rows))
    site = document.sites[0]
    aggregator: Any = registry.aggregator(
        document, Setting(unit=Unit.EVENT, randomness=source, simulated=True, sites={site: schema})
    )
    ask = aggregator.ask(site)
    assert isinstance(ask, Ask)  # noqa: S101
    terms = Terms(exact.epsilon(document.epsilon) * _ROOM, exact.delta(document.delta) * _ROOM, "basic")
    with TemporaryDirectory(prefix="thebes-") as folder, Ledger("memory://", keeper=NoKeeper()) as ledger:
        place = Path(folder)
        stream = Stream(
            document.dataset,
            schema=schema,
            by=block_by("time:1d", schema),
            terms=terms,
            ledger=ledger,
            folder=place / "rows",
            clock=lambda: _LATER,
            randomness=lambda: source,
        )
        workshop = Workshop(place)
        try:
            stream.ingest(frame)
            runner = Runner(stream, workshop, "simulated", lambda blocks, epsilon, delta: None, randomness=source)
            aggregator.accept(registry.stream_owner(document).attempt(document, ask, _Attempts(runner)))
        finally:
            workshop.close()
            stream.close()
    aggregator.advance(_LATER)
    release: Release = aggregator.release()
    return release


def rows_of(document: SiteDocument, rows: Any) -> Any:
    """The rows of the one site that the document names, where rows are given by site."""
    site = document.sites[0]
    if isinstance(rows, Mapping) and site in rows and not hasattr(rows[site], "dtype"):
        return rows[site]
    return rows
