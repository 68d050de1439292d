"""Collectors in words: what a person should know before they install one, and what is installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thebes.privacy.faults import Refusal
from thebes.privacy.figures import figure

if TYPE_CHECKING:
    from thebes.collectors.declaration import Collector
    from thebes.collectors.installation import Installed
    from thebes.collectors.preview import Preview
    from thebes.collectors.publication import Publication


def installed_rows(home: Path) -> Iterator[dict[str, Any]]:
    """Yield what `thebes collector list` says of each installed collector; rows are known while the home is served."""
    from thebes.collectors.installation import Installed
    from thebes.wire.local_server import Local

    place = Installed(home)
    counts: dict[str, int] | None = None
    try:
        person = Local.running(place.home)
        if person is not None:
            with person:
                counts = {str(c["name"]).lower(): sum(t["rows"] for t in c["tables"]) for c in person.store()}
    except Refusal:
        counts = None
    for record in place.records():
        at = record.next_at()
        yield {
            "name": record.app,
            "collector": record.collector,
            "installed": True,
            "version": record.version,
            "every_seconds": record.every_seconds,
            "last_run": record.last_at,
            "next_run": None if at is None else at.isoformat(timespec="seconds"),
            "awaited": at is not None and place.stayed(record.app),
            "last_error": record.last_error,
            "rows": None if counts is None else counts.get(record.app.lower(), 0),
        }


def line(row: dict[str, Any]) -> str:
    """One collector on one line."""
    if not row["installed"]:
        return f"{row['name']:<12} not installed  (part of {row['package']})"
    rows = "rows unknown while `thebes person` is not running" if row["rows"] is None else f"{figure(row['rows'])} rows"
    last = f"last run {row['last_run']}" if row["last_run"] else "never run"
    alone = "" if row.get("awaited") else ", but nothing runs it: `thebes collector run --all --every` does"
    following = f", next {row['next_run']}{alone}" if row["next_run"] else ""
    error = f"; failed: {row['last_error']}" if row["last_error"] else ""
    kind = "" if row["name"] == row["collector"] else f" ({row['collector']})"
    return f"{row['name']:<12} installed{kind}  {rows}, {last}{following}{error}"


def none_due(place: Installed) -> str:
    """Say why `run --all` ran nothing, and what runs something."""
    if not place.records():
        return "No collector is installed here: thebes collector install NAME"
    return "No collector is due now. `thebes collector run NAME` runs one all the same."


def described(made: Collector, tables: Sequence[Any], told: Publication | None) -> dict[str, Any]:
    """Everything that `explained` says, for machines."""
    from thebes.data.store.declaration import Declaration

    return {
        "name": made.name,
        "version": made.version,
        "description": made.description,
        "reads": made.reads,
        "every_seconds": made.every.total_seconds() if made.every is not None else None,
        "tables": Declaration(tuple(tables)).plain(),
        "options": {o.name: {"description": o.description, "required": o.required} for o in made.options},
        "publisher": None if told is None else told.key,
    }


def explained(
    made: Collector,
    tables: Sequence[Any],
    told: Publication | None,
    *,
    called: str | None = None,
    seconds: float | None = None,
) -> Iterator[str]:
    """Yield the lines that a person should know before they agree."""
    yield f"{made.name} {made.version}: {made.description}"
    yield f"  reads: {made.reads}"
    for table in tables:
        yield f"  fills {called or made.name}.{table.name}: {table.description}"
        for column in table.columns:
            yield f"    {column.name} ({column.type}): {column.description}"
    if not tables:
        yield "  fills: a table that it infers from your file"
    if called is None:
        for option in made.options:
            value = "" if option.kind == "flag" else " VALUE"
            yield f"  --{option.name}{value}: {option.description}{' (needed)' if option.required else ''}"
    else:
        often = "when you say so" if seconds is None else f"every {_long(seconds)} under `thebes collector run --every`"
        yield f"  runs: {often}"
    if told is None:
        yield "  part of Thebes itself: as much to be trusted as the program that you are running"
    else:
        yield f"  signed by {told.fingerprint}; a program of its publisher, who may do on this machine what you may do"


def _long(seconds: float) -> str:
    """A time in the largest unit that makes it a whole number."""
    for unit, long in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds % long == 0:
            count = int(seconds // long)
            return unit if count == 1 else f"{count} {unit}s"
    return f"{figure(seconds)} seconds"


def previewed(preview: Preview, app: str) -> Iterator[str]:
    """Yield what a collector would keep: how many rows of each table and the first of them."""
    for name, rows in preview.rows.items():
        yield f"  would keep {figure(preview.counts.get(name, 0))} rows of {app}.{name}{', such as' if rows else ''}"
        for row in rows:
            yield "    " + ", ".join(f"{column} {_cell(value)}" for column, value in row.items() if value is not None)
    for reason, times in preview.left_out.items():
        yield f"  would leave out {figure(times)}: {reason}"


def _cell(value: object) -> str:
    """Return a value on one line; what could move a terminal's cursor is shown as a question mark."""
    text = "".join(letter if letter.isprintable() else "?" for letter in str(value))
    return text if len(text) <= 60 else f"{text[:57]}..."
