"""Cautions about what is allowed but may not be meant: SQL over what nobody published, columns whose bounds must be
found first, a group that has hardly more members than must answer.

What must stay true: a caution never stands in the way, for people may have tables that nobody published here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from thebes.data import featurizer as sql
from thebes.tasks.document import PeopleDocument
from thebes.web.coordinator.forms.draft import Draft, Schemas, tables_of

_NAMED = re.compile(r'\bAS\s+(?:"([^"]+)"|(\w+))', re.IGNORECASE)
SPARE = 0.2  #: of a group's members; with fewer to spare an answer may never come
_NO_NUMBERS = {"string": "words", "timestamp": "moments"}


def cautions(
    document: PeopleDocument, draft: Draft, schemas: Schemas, groups: Sequence[Mapping[str, Any]]
) -> list[dict[str, str]]:
    """Each with the place in the form where it can be mended: {"label", "message", "anchor"}."""
    read = sql.read(document.featurizer)
    # The one who typed a name knows it; SQLite itself does not mind its capitals.
    published = {name.lower(): table["columns"] for name, table in tables_of(schemas).items()}
    found = [("SQL", words, "featurizer") for words in (*_unpublished(read, published), *_unlike(document, published))]
    rows = {bound.column: place for place, bound in enumerate(draft.bounds)}
    found += [
        (f"Bounds: {column}", words, f"bound-{rows[column]}-kind" if column in rows else "bounds")
        for column, words in _undeclared(document)
    ]
    found += [("Who may answer", words, "group") for words in _hardly_enough(document, groups)]
    return [
        {"label": label, "message": words, "anchor": "raw" if draft.written else anchor}
        for label, words, anchor in found
    ]


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


def _unlike(document: PeopleDocument, published: dict[str, Any]) -> Iterator[str]:
    """Published words where the statistic takes numbers."""
    statistic = getattr(document, "aggregator", "count")
    if statistic in ("count", "histogram"):
        return
    read = sql.read(document.featurizer)
    types = {
        column.lower(): told.get("type")
        for table in read.tables
        for column, told in published.get(table.lower(), {}).items()
    }
    for column in read.straight.values():
        kind = _NO_NUMBERS.get(str(types.get(column.lower())))
        if kind:
            yield f"{column} is published as {kind}, and a {statistic} takes numbers"


def _hardly_enough(document: PeopleDocument, groups: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    needed = sum(map(document.least_in, range(document.phases))) / document.participations
    for group in groups:
        size = group["size"]
        if (group["name"], group["epoch"]) == (document.group, document.epoch) and size * (1 - SPARE) < needed:
            yield (
                f"{needed:.0f} of the group's {size} members must answer, so there may never be an answer, and who "
                "gave one is nearly known"
            )


def _undeclared(document: PeopleDocument) -> Iterator[tuple[str, str]]:
    """Columns whose bounds would be found with a part of the price, where that is allowed."""
    statistic = getattr(document, "aggregator", "")
    if document.type not in ("basic", "integrated") or statistic == "count":
        return
    words = "none are given, so a part of epsilon goes into finding them; give them if you know them"
    if statistic == "histogram":
        words = "no values are given, so only those that many people share will show; give them if you know them"
    for column in document.gives:
        if column not in (document.bounds or {}):
            yield column, words
