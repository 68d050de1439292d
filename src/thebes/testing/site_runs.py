"""Runs of a sample that institutions answer: every phase to its end, or its first answer alone."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from thebes.curator.pipelines.simulated_attempts import simulated_attempts
from thebes.data.engines.source import frame_table
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Table
from thebes.privacy import randomness
from thebes.privacy.promise import Unit
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.contributions import Contributions
from thebes.tasks.protocols import Ask, Setting, State
from thebes.tasks.release import Release
from thebes.tasks.samples import SiteSample
from thebes.tasks.site_document import SiteDocument
from thebes.tasks.site_protocols import Convened

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)

#: the tables of the samples that were checked last: every check asks them for the same sums
_READ = deque[tuple[Any, Table]](maxlen=8)


def _table(schema: Schema, rows: Any) -> Table:
    for known, table in _READ:
        if known is rows and table.schema == schema:
            return table
    _READ.append((rows, frame_table(schema, rows)))
    return _READ[-1][1]


def answered(
    sample: SiteSample, document: SiteDocument, ask: Ask, site: str, claim: RecordedClaim, source: randomness.Randomness
) -> Contributions:
    """Return what a site sends: from its table and a claim, or from attempts at its stream, which pay for
    themselves."""
    schema = schema_of(sample.schema)
    if not document.in_attempts:
        owner = registry.site_owner(document, simulated=True)
        return owner.contribute(document, ask, _table(schema, sample.sites[site]), claim, randomness=source)

    def rights(blocks: Sequence[str], epsilon: Decimal, delta: Decimal) -> None:
        type(claim)().consume(epsilon=epsilon, delta=delta)  # whose claims refuse, theirs refuse every attempt

    rows, price = sample.sites[site], {"epsilon": document.epsilon, "delta": document.delta}
    with simulated_attempts(document.dataset, rows, schema, **price, source=source, rights=rights) as attempts:
        given = registry.stream_owner(document).attempt(document, ask, attempts)
        epsilon, delta = attempts.paid()
    claim.consume(epsilon=epsilon, delta=delta)
    return given


#: what a site sent to one ask, and the claim that paid for it
Heard = tuple[str, Ask, Contributions, RecordedClaim]


def checked(sample: SiteSample, **more: Any) -> SiteDocument:
    document = registry.check({**sample.document, **more})
    assert isinstance(document, SiteDocument)
    return document


def begun(document: SiteDocument, schemas: Mapping[str, Schema], seed: int) -> Convened:
    source = randomness.seeded_for_simulation(seed)
    setting = Setting(unit=Unit.EVENT, randomness=source, simulated=True, sites=schemas)
    return registry.aggregator(document, setting)


def schemas_of(sample: SiteSample) -> dict[str, Schema]:
    return {site: schema_of(sample.schema) for site in sample.sites}


def run(
    sample: SiteSample,
    *,
    seed: int | None = None,
    away: Callable[[int], tuple[str, ...]] = lambda phase: (),
    **more: Any,
) -> tuple[SiteDocument, Convened, list[Heard]]:
    """Every phase to its end; `away` are the sites that refuse in it."""
    document = checked(sample, **more)
    used = sample.seed if seed is None else seed
    source = randomness.seeded_for_simulation(used)
    aggregator = begun(document, schemas_of(sample), used + 1)
    heard: list[Heard] = []
    while aggregator.state is State.OPEN:
        refusing = away(len({ask.part for _, ask, _, _ in heard}))
        for site in aggregator.awaited:
            if site in refusing:
                aggregator.excuse(site, "its policy refuses this requestor")
                continue
            ask, claim = aggregator.ask(site), RecordedClaim()
            assert isinstance(ask, Ask)
            given = answered(sample, document, ask, site, claim, source)
            aggregator.accept(given)
            heard.append((site, ask, given, claim))
        aggregator.advance(NOON)
    return document, aggregator, heard


def first_answer(sample: SiteSample) -> tuple[SiteDocument, Convened, str, Ask, Contributions]:
    """The first site's answer to the first ask, not yet heard."""
    document, aggregator = checked(sample), begun(checked(sample), schemas_of(sample), sample.seed)
    site = aggregator.awaited[0]
    ask = aggregator.ask(site)
    assert isinstance(ask, Ask)
    given = answered(sample, document, ask, site, RecordedClaim(), randomness.seeded_for_simulation(sample.seed))
    return document, aggregator, site, ask, given


def written(release: Release | None) -> str:
    assert release is not None
    return json.dumps(release.as_json())
