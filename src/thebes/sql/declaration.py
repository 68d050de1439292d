"""The schema of a data set, as the list of sites tells it to whoever asks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from thebes.data.schema import Schema, read_shown
from thebes.privacy.faults import Mistake

_LONGEST = 60


def schema_at(sites: Iterable[Mapping[str, Any]], dataset: str, named: str | Sequence[str] = "all") -> Schema:
    """Return how a data set is declared where it is asked; sites that declare it differently are left out later."""
    there: set[str] = set()
    for site in sites:
        if named == "all" or site.get("name") in named:
            held = site.get("datasets") or {}
            if dataset in held:
                return read_shown(held[dataset]["schema"])
            there |= set(held)
    known = ", ".join(name[:_LONGEST] for name in sorted(there) if name.isprintable()) or "none"
    raise Mistake("sql", f"asks {dataset!r}, which no site here that is asked has; data sets there are: {known}")
