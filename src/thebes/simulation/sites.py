"""Institutions and the rows they keep, in one process: the same owners' and aggregators' code as between real sites.

Every site is there and answers; what it cannot answer it refuses, and the rest goes on without it. Its ledger is a
claim that holds the document's price.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from thebes.data.engines.source import given_join, given_table
from thebes.data.join import join
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Table
from thebes.privacy import randomness as chance
from thebes.privacy.faults import Fault, Mistake, Refusal
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import Randomness
from thebes.simulation.budgets import BatchClaim, SimulatedBudgets
from thebes.simulation.guess import beside, condition_of, of_sites
from thebes.simulation.streams import rows_of, simulate_stream
from thebes.tasks import accuracy_prices, registry
from thebes.tasks.fit import Fit, fits_of_table, nobody_at
from thebes.tasks.protocols import Ask, Setting, State
from thebes.tasks.release import Release
from thebes.tasks.site_document import SiteDocument
from thebes.tasks.site_protocols import Convened

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  #: a simulation has no clock


def simulate_sites(
    document: SiteDocument, rows: Any, schema: Any, *, seed: int | None = None, aside: Any = None
) -> Release:
    """Run one task over institutions. `rows` has for each its rows (a DataFrame, columns, a CSV or Parquet file as a
    `Path`, or a `Table`); `schema` is that of all of them, or one for each. Where two data sets are joined, rows and
    schemas are by the data set's name, in place of one. `aside` has rows that take no part, of any of them: a model is
    judged over these."""
    source = chance.system() if seed is None else chance.seeded_for_simulation(seed)
    if document.in_attempts:
        own = _schema_of(schema, document.sites[0])
        if own is None:
            raise Mistake("schema", "must say what the columns of the stream are")
        given = rows_of(document, rows)
        with ExitStack() as opened:
            tables: Mapping[str, Table] = {document.sites[0]: _table(given, own, opened)}
            fits = _fits(document, tables)
            release = simulate_stream(document, given, own, source)
            kept = {} if aside is None else {document.sites[0]: _table(rows_of(document, aside), own, opened)}
            return _told(document, release, tables, fits, kept)
    with ExitStack() as opened:
        tables = _asked(document, _tables(document, rows, schema, opened))
        fits = _fits(document, tables)
        kept = {} if aside is None else _tables(document, aside, schema, opened)
        release = run(document, tables, source)
        return _told(document, release, tables, fits, kept)


def _fits(document: SiteDocument, tables: Mapping[str, Table]) -> dict[str, list[Fit]]:
    """Find how the rows of each site fit what its schema declares; a site whose data set cannot answer says nothing."""
    found = {}
    for site, table in tables.items():
        misfits = getattr(table, "misfits", None)
        with suppress(Mistake):
            if misfits is not None:
                registry.site_kind(document).fits(document, table.schema)
                told = misfits(document.counted, condition_of(document, table))
                found[site] = fits_of_table(document, table.schema, told)
    nobody_at(found)
    for site, fits in found.items():
        for line in filter(None, (fit.told for fit in fits)):
            warnings.warn(f"{site}: {line}", stacklevel=4)
    return found


def _told(
    document: SiteDocument,
    release: Release,
    tables: Mapping[str, Table],
    fits: Mapping[str, list[Fit]],
    aside: Mapping[str, Table],
) -> Release:
    """The release with what a simulation knows of the rows."""
    shares = {f"{site}: {fit.column}": fit.as_json() for site, each in fits.items() for fit in each}
    return beside(release.beside(rows_fit=shares), of_sites(document, release, tables, aside))


def run(
    document: SiteDocument,
    tables: Mapping[str, Table],
    source: Randomness,
    *,
    look: Callable[[Convened], None] = lambda _: None,
) -> Release:
    """From the first ask to the release; `tables` holds every site that is asked. `look` is shown the aggregator after
    every phase."""
    schemas = {site: table.schema for site, table in tables.items()}
    setting = Setting(unit=Unit.EVENT, randomness=source, simulated=True, sites=schemas)
    document = accuracy_prices.priced(document, setting)
    aggregator = registry.aggregator(document, setting)
    owner = registry.site_owner(document, simulated=True)
    budgets = {site: _claim(document) for site in tables}
    while aggregator.state is State.OPEN:
        for site in aggregator.awaited:
            ask = aggregator.ask(site)
            if not isinstance(ask, Ask):
                raise Fault("an aggregator stopped asking a site it waits for")
            try:
                given = owner.contribute(document, ask, tables[site], budgets[site], randomness=source)
                aggregator.accept(given)
            except (Mistake, Refusal) as refused:
                aggregator.excuse(site, str(refused))
        left = aggregator.missing
        aggregator.advance(_EPOCH)
        look(aggregator)
    release = aggregator.release()
    if release is None:
        why = "; ".join(f"{site}: {reason}" for site, reason in left.items())
        raise Mistake("sites", f"too few of them answered ({why})")
    return release


def _claim(document: SiteDocument) -> BatchClaim:
    price: Price = registry.drawn(document.type).price(document)
    return SimulatedBudgets(1, price).of(np.zeros(1, dtype=np.int64))


def _asked(document: SiteDocument, tables: Mapping[str, Table]) -> Mapping[str, Table]:
    if document.sites == "all":
        return tables
    absent = [site for site in document.sites if site not in tables]
    if absent:
        raise Mistake("rows", f"has no site {absent[0]!r}, which the document asks")
    return {site: tables[site] for site in document.sites}


def _tables(document: SiteDocument, rows: Any, schema: Any, opened: ExitStack) -> dict[str, Table]:
    if not isinstance(rows, Mapping) or not rows or not all(isinstance(site, str) for site in rows):
        raise Mistake("rows", 'must hold the rows of every site by its name: {"a": rows, "b": rows}')
    if schema is None and not all(hasattr(own, "sums") for own in rows.values()):
        raise Mistake("schema", "must say what the columns are: a schema as a dict, or one for each site by its name")
    if len(document.datasets) > 1:
        return {site: _joined(document.datasets, site, own, schema, opened) for site, own in rows.items()}
    return {site: _table(own, _schema_of(schema, site), opened) for site, own in rows.items()}


def _joined(names: Sequence[str], site: str, rows: Any, schema: Any, opened: ExitStack) -> Table:
    """The joined rows of a site's two data sets, cut and put together as at a real site."""
    told = " and ".join(map(repr, names))
    declared = schema.get(site, schema) if isinstance(schema, Mapping) else None
    for argument, given in (("rows", rows), ("schema", declared)):
        if not isinstance(given, Mapping) or not {*names} <= given.keys():
            raise Mistake(
                argument, f"of site {site!r} must hold both data sets that are joined, {told}, by their names"
            )
    assert isinstance(declared, Mapping)  # noqa: S101
    one, other = ((name, _declared(declared[name])) for name in names)
    scratch = Path(opened.enter_context(TemporaryDirectory(prefix="thebes-")))
    table = given_join(join(one, other), [rows[name] for name in names], scratch=scratch)
    opened.callback(table.close)
    return table


def _declared(schema: Any) -> Schema:
    return schema if isinstance(schema, Schema) else schema_of(schema)


def _schema_of(schema: Any, site: str) -> Schema | None:
    """The schema that is meant for a site; one with a `unit` is meant for all."""
    if schema is None or isinstance(schema, Schema):
        return schema
    if isinstance(schema, Mapping) and "unit" not in schema and "columns" not in schema:
        if site not in schema:
            raise Mistake("schema", f"must also say what the columns of site {site!r} are")
        schema = schema[site]
    return _declared(schema)


def _table(rows: Any, schema: Schema | None, opened: ExitStack) -> Table:
    if schema is None or hasattr(rows, "sums"):
        made: Table = rows
        return made
    table = given_table(schema, rows, scratch=Path(opened.enter_context(TemporaryDirectory(prefix="thebes-"))))
    opened.callback(table.close)
    return table
