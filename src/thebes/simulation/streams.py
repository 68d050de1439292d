"""A pipeline over made-up or one's own rows, in one process: the same stream, attempts and tests as at a site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.curator.pipelines.simulated_attempts import LATER, simulated_attempts
from thebes.data.schema import Schema
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import Randomness
from thebes.tasks import registry
from thebes.tasks.protocols import Ask, Setting
from thebes.tasks.release import Release
from thebes.tasks.site_document import SiteDocument


def simulate_stream(document: SiteDocument, rows: Any, schema: Schema, source: Randomness) -> Release:
    """Run a document that a site answers in attempts."""
    site = document.sites[0]
    setting = Setting(unit=Unit.EVENT, randomness=source, simulated=True, sites={site: schema})
    aggregator = registry.aggregator(document, setting)
    ask = aggregator.ask(site)
    assert isinstance(ask, Ask)  # noqa: S101
    epsilon, delta = document.epsilon, document.delta
    with simulated_attempts(document.dataset, rows, schema, epsilon=epsilon, delta=delta, source=source) as attempts:
        aggregator.accept(registry.stream_owner(document).attempt(document, ask, attempts))
    aggregator.advance(LATER)
    release = aggregator.release()
    assert release is not None  # noqa: S101
    return release


def rows_of(document: SiteDocument, rows: Any) -> Any:
    """The rows of the one site that the document names, where rows are given by site."""
    site = document.sites[0]
    if isinstance(rows, Mapping) and site in rows and not hasattr(rows[site], "dtype"):
        return rows[site]
    return rows
