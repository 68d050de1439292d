"""Cautions about what is allowed but may not be meant: SQL over what nobody published, a group that has hardly more
members than must answer, sites that are away, a large delta; and what the kind itself has to say.

What must stay true: a caution never stands in the way, for people may have tables that nobody published here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thebes.data import featurizer as sql
from thebes.privacy.accounting.odds import large_delta, large_epsilon
from thebes.tasks import registry
from thebes.tasks.document import Document, PeopleDocument
from thebes.tasks.site_document import SiteDocument
from thebes.web.coordinator.forms.draft import Draft, Told

_NAMED = re.compile(r'\bAS\s+(?:"([^"]+)"|(\w+))', re.IGNORECASE)
SPARE = 0.2  #: of a group's members; with fewer to spare an answer may never come


def cautions(document: Document, draft: Draft, told: Told) -> list[dict[str, str]]:
    """Each with the place in the form where it can be mended: {"label", "message", "anchor"}."""
    types: dict[str, str] = {}
    found: list[tuple[str, str]] = []
    if isinstance(document, SiteDocument):
        found += _of_sites(document, told["sites"])
    elif isinstance(document, PeopleDocument):
        read = sql.read(document.featurizer)
        # The one who typed a name knows it; SQLite itself does not mind its capitals.
        published = {name.lower(): table["columns"] for name, table in told["tables"].items()}
        found += [("featurizer", words) for words in _unpublished(read, published)]
        found += [("group", words) for words in _hardly_enough(document, told["groups"])]
        known = {c.lower(): says.get("type") for t in read.tables for c, says in published.get(t.lower(), {}).items()}
        types = {column: str(known.get(column.lower())) for column in read.straight.values()}
    least = document.min_count if isinstance(document, PeopleDocument) else None
    large = {"epsilon": large_epsilon(document.epsilon), "delta": large_delta(document.delta, least)}
    found += [(name, words) for name, words in large.items() if words]
    found += registry.form(document.type).cautions(document, types)
    placed = [(draft.place(name), words) for name, words in found]
    return [{"label": label, "message": words, "anchor": anchor} for (label, anchor), words in placed]


def _unpublished(read: sql.Featurizer, published: dict[str, Any]) -> Iterator[str]:
    unknown = [table for table in read.tables if table.lower() not in published]
    for table in unknown:
        yield f"nobody published a table {table} here: people who have none cannot take part"
    if unknown:
        return
    known = {column.lower() for table in read.tables for column in published[table.lower()]}
    known |= {name.lower() for pair in _NAMED.findall(read.sql) for name in pair if name}
    known |= {name.lower() for name in read.outputs if read.straight.get(name) != name}
    for column in sorted({c for columns in read.tables.values() for c in columns if c.lower() not in known}):
        yield (
            f"{' and '.join(read.tables)} {'is' if len(read.tables) == 1 else 'are'} published here without a column "
            f"{column}: people who have none cannot take part"
        )


def _hardly_enough(document: PeopleDocument, groups: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    needed = sum(map(document.least_in, range(document.phases))) / document.participations
    for group in groups:
        size = group["size"]
        if (group["name"], group["epoch"]) == (document.group, document.epoch) and size * (1 - SPARE) < needed:
            yield (
                f"{needed:.0f} of the group's {size} members must answer, so there may never be an answer, and who "
                "gave one is nearly known"
            )


def _of_sites(document: SiteDocument, sites: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    named = None if document.sites == "all" else set(document.sites)
    away = [
        site["name"]
        for site in sites
        if site["state"] == "away"
        and site["datasets"].keys() >= {*document.datasets}
        and (named is None or site["name"] in named)
    ]
    if away:
        yield "sites", f"{', '.join(away)}: not linked just now, so perhaps not in the answer"
    if document.noise == "coordinator":
        yield "noise", "this server is shown each site's exact totals; a site's policy may refuse that"
