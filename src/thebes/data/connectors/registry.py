"""The kinds of sources that there are: ours, and those that other packages bring as entry points.

What must stay true: a kind of ours is never somebody else's, and of two packages with the same kind neither is taken;
nothing of a package is imported before one of its sources is opened.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from thebes.data.connectors.connector import Connector
from thebes.privacy.faults import Mistake

log = logging.getLogger("thebes.data")

GROUP = "thebes.connectors"  #: of entry points: kind -> "module:function"
_HERE = "thebes.data.connectors"
#: kind of a source -> the function that opens one, called with its description and the data set's folder
OURS = {
    "csv": f"{_HERE}.csv:open_csv",
    "parquet": f"{_HERE}.parquet:open_parquet",
    "delta": f"{_HERE}.delta:open_delta",
    "sqlite": f"{_HERE}.sqlite:open_sqlite",
    "duckdb": f"{_HERE}.duckdb:open_duckdb",
    "postgresql": f"{_HERE}.postgresql:open_postgresql",
    "sql": f"{_HERE}.sql:open_sql",
    "redcap": f"{_HERE}.redcap:open_redcap",
    "openspecimen": f"{_HERE}.openspecimen:open_openspecimen",
    "omop": f"{_HERE}.omop:open_omop",
    "fhir": f"{_HERE}.fhir:open_fhir",
}


def kinds() -> dict[str, tuple[str, ...]]:
    """Return every kind of source here, and the functions that packages bring for it: more than one where packages that
    are not part of Thebes bring the same kind."""
    brought: dict[str, set[str]] = {}
    for point in entry_points(group=GROUP):
        if point.name in OURS:
            log.warning(
                "%s brings a source %r, which is a kind of Thebes itself: not used",
                _package(point),
                point.name,
                extra={"event": "connector.left-out"},
            )
        else:
            brought.setdefault(point.name, set()).add(point.value)
    return {kind: (place,) for kind, place in OURS.items()} | {n: tuple(sorted(found)) for n, found in brought.items()}


def open_connector(source: Mapping[str, Any], *, folder: Path) -> Connector:
    """Open a source, read-only. Relative paths in it are relative to `folder`, the data set's own."""
    kind = source.get("kind")
    if isinstance(kind, str) and kind in OURS:
        places: tuple[str, ...] = (OURS[kind],)
    else:
        known = kinds()
        if not isinstance(kind, str) or kind not in known:
            raise Mistake("source.kind", f"must be one of {', '.join(sorted(known))}")
        places = known[kind]
    if len(places) > 1:
        raise Mistake("source.kind", f"{kind!r} is brought by {' and by '.join(places)}; uninstall one of the packages")
    module, _, function = places[0].partition(":")
    try:
        opened: Callable[..., Connector] = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        why = f"its package says {places[0]}, which cannot be loaded ({type(error).__name__}); ask its authors"
        raise Mistake("source.kind", f"{kind!r} cannot be opened: {why}") from None
    return opened(source, folder=folder)


def as_opened(source: Mapping[str, Any]) -> bool:
    """Return whether a source that is open stays as it was then, so that what there is now is opened anew."""
    return source.get("kind") == "delta" and source.get("version") is None


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "a package without a name"
