"""A table's columns at a glance: how many values there are, and a few bars that show their shape.

Computed by SQL over the owner's own rows and for the owner's eyes only; nothing of it is ever sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from typing import Any

import apsw

from thebes.data.store.declaration import Column, Table
from thebes.data.store.vault import quoted
from thebes.privacy.figures import figure

MOST_ROWS = 20_000  #: the newest ones; older rows are not looked at
BINS, WORDS, DAYS = 12, 8, 42
LONGEST_WORD = 40
OTHERS = "all others"


@dataclass(frozen=True, slots=True)
class Glance:
    """One column: `rows` were looked at, `missing` of them have no value. `bars` are (label, count) in order."""

    column: str
    kind: str  #: numbers | words | times | flags
    rows: int
    missing: int
    different: int
    low: float | str | None  #: of numbers and times
    high: float | str | None
    bars: list[tuple[str, int]]

    def plain(self) -> dict[str, Any]:
        return {**asdict(self), "bars": [{"label": label, "count": count} for label, count in self.bars]}


def glance(connection: apsw.Connection, table: Table) -> list[Glance]:
    """Every column of a table."""
    return [_column(connection, table, column) for column in table.columns]


def _column(connection: apsw.Connection, table: Table, column: Column) -> Glance:
    name = quoted(column.name)
    newest = f"(SELECT {name} AS v FROM {quoted(table.name)} ORDER BY rowid DESC LIMIT {MOST_ROWS})"  # noqa: S608

    def ask(sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return list(connection.execute(sql.replace("NEWEST", newest), values))

    rows, present, different, low, high = ask(
        "SELECT count(*), count(v), count(DISTINCT v), min(v), max(v) FROM NEWEST"
    )[0]
    kind = {"string": "words", "boolean": "flags", "timestamp": "times"}.get(column.type, "numbers")
    bars: list[tuple[str, int]] = []
    if present:
        bars = _SHAPES[kind](ask, different, low, high)
    if kind in ("words", "flags"):
        low = high = None
    return Glance(column.name, kind, rows, rows - present, different, low, high, bars)


_Ask = Callable[..., list[tuple[Any, ...]]]


def _numbers(ask: _Ask, different: int, low: float, high: float) -> list[tuple[str, int]]:
    """Each value by itself where there are few whole ones, else bins of equal width."""
    if different <= BINS:
        found = ask("SELECT v, count(*) FROM NEWEST WHERE v IS NOT NULL GROUP BY v ORDER BY v")
        return [(figure(value), count) for value, count in found]
    width = high / BINS - low / BINS  # the difference itself may be too large for a float
    binned = (
        "SELECT max(0, min(?, CAST(v / ? - ? AS INTEGER))) AS b, count(*) FROM NEWEST WHERE v IS NOT NULL GROUP BY b"
    )
    counts: dict[int, int] = dict(ask(binned, BINS - 1, width, low / width))
    return [
        (f"{figure(low + b * width, 3)} to {figure(low + (b + 1) * width, 3)}", counts.get(b, 0)) for b in range(BINS)
    ]


def _words(ask: _Ask, different: int, low: str, high: str) -> list[tuple[str, int]]:
    """The most frequent ones, and all others together."""
    most = "SELECT substr(v, 1, ?) AS w, count(*) AS n FROM NEWEST WHERE v IS NOT NULL GROUP BY v ORDER BY n DESC, v"
    found = ask(f"{most} LIMIT ?", LONGEST_WORD + 1, WORDS)
    bars = [(w if len(w) <= LONGEST_WORD else w[: LONGEST_WORD - 1] + "…", n) for w, n in found]
    others = ask("SELECT count(v) FROM NEWEST")[0][0] - sum(n for _, n in bars)
    return [*bars, (OTHERS, others)] if others else bars


def _flags(ask: _Ask, different: int, low: int, high: int) -> list[tuple[str, int]]:
    counts: dict[int, int] = dict(ask("SELECT v, count(*) FROM NEWEST WHERE v IS NOT NULL GROUP BY v"))
    return [("no", counts.get(0, 0)), ("yes", counts.get(1, 0))]


def _times(ask: _Ask, different: int, low: str, high: str) -> list[tuple[str, int]]:
    """By day where they span few days, else by spans of as many days each."""
    first, last = (datetime.fromisoformat(end).date() for end in (low, high))
    days = (last - first).days + 1
    span = -(-days // DAYS)
    grouped = "SELECT CAST(julianday(date(v)) - julianday(?) AS INTEGER) / ? AS b, count(*) FROM NEWEST"
    counts: dict[int, int] = dict(ask(f"{grouped} WHERE v IS NOT NULL GROUP BY b", first.isoformat(), span))
    return [(_days(first, place * span, span), counts.get(place, 0)) for place in range(-(-days // span))]


def _days(first: date, start: int, span: int) -> str:
    begins = first + timedelta(days=start)
    if span == 1:
        return begins.isoformat()
    try:
        return f"{begins.isoformat()} to {(begins + timedelta(days=span - 1)).isoformat()}"
    except OverflowError:
        return f"from {begins.isoformat()}"


_SHAPES: dict[str, Callable[[_Ask, int, Any, Any], list[tuple[str, int]]]] = {
    "numbers": _numbers,
    "words": _words,
    "flags": _flags,
    "times": _times,
}
