"""Attacks on tasks that institutions answer: what one of them sends, or what everybody is told of its totals, with one
person there or not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from thebes.data.table import Table
from thebes.privacy.certificate import Certificate
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import Randomness
from thebes.tasks import registry
from thebes.tasks.audit.case import Written
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.protocols import Ask, Setting, State
from thebes.tasks.site_document import SiteDocument

_NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def drawn(name: str, document: SiteDocument, tables: Sequence[Table], *, used: float) -> Written:
    """Return the row of a task that judges all noise that one site draws, or that is drawn for it, over all rounds."""
    one, other = (partial(_convened, document, table) for table in tables)
    epsilon, delta = document.epsilon, document.delta
    return Written(f"drawn: {name}", epsilon, delta, Adjacency.ADD_REMOVE_ONE, one, other, used=used)


def _convened(document: SiteDocument, table: Table, randomness: Randomness) -> Certificate:
    setting = Setting(unit=Unit.PERSON, randomness=randomness, simulated=True, sites={"a": table.schema})
    aggregator = registry.aggregator(document, setting)
    while aggregator.state is State.OPEN:
        ask = aggregator.ask("a")
        assert isinstance(ask, Ask)  # noqa: S101
        owner = registry.site_owner(document, simulated=True)
        aggregator.accept(owner.contribute(document, ask, table, RecordedClaim(), randomness=randomness))
        aggregator.advance(_NOON)
    release = aggregator.release()
    assert release is not None  # noqa: S101
    return release.certificate
