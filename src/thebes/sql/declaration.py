"""The declarations that a statement is read by: one data set's schema, or two of the same people joined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from thebes.data.join import Join, join
from thebes.data.schema import Schema, read_shown, schema_of
from thebes.privacy.faults import Mistake
from thebes.sql.refusal import refusal

_LONGEST = 60

#: a schema; or of two data sets that a statement joins each one's, by their names
Declared = Schema | Join | Mapping[str, Any]


def schema_at(
    sites: Iterable[Mapping[str, Any]], datasets: Sequence[str], named: str | Sequence[str] = "all"
) -> Schema | Join:
    """Return how data sets are declared where they are asked; sites that declare them differently are left out
    later."""
    there: set[str] = set()
    for site in sites:
        if named == "all" or site.get("name") in named:
            held = site.get("datasets") or {}
            if held.keys() >= {*datasets}:
                return declaration({name: read_shown(held[name]["schema"]) for name in datasets}, datasets)
            there |= set(held)
    known = ", ".join(name[:_LONGEST] for name in sorted(there) if name.isprintable()) or "none"
    absent = [name for name in datasets if name not in there]
    if not absent:
        raise Mistake(
            "sql", f"joins {' and '.join(map(repr, datasets))}, which no site here that is asked has together"
        )
    raise Mistake("sql", f"asks {absent[0]!r}, which no site here that is asked has; data sets there are: {known}")


def declaration(declared: Declared, datasets: Sequence[str]) -> Schema | Join:
    """Read what a statement over these data sets goes by."""
    if isinstance(declared, (Schema, Join)):
        return declared
    if len(datasets) == 1:
        own = declared if "columns" in declared else declared.get(datasets[0], declared)
        return own if isinstance(own, Schema) else schema_of(own)
    absent = [name for name in datasets if name not in declared]
    if absent:
        raise Mistake("sql", f"joins {absent[0]!r}, of which no schema is given")
    one, other = ((name, declared[name]) for name in datasets)
    try:
        return join(*((name, s if isinstance(s, Schema) else schema_of(s)) for name, s in (one, other)))
    except Mistake as refused:
        if refused.argument != "join":
            raise
        raise refusal(f"JOIN {datasets[1]}", refused.message) from None
