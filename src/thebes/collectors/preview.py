"""A look at what a collector would keep of somebody's files, before any of it is kept.

What must stay true: nothing is stored and nothing leaves; the collector runs as it would, so that what it shows is what
it does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from thebes.collectors.declaration import Collector
from thebes.collectors.run import run
from thebes.wire.refusals import NotFound

SHOWN = 3  #: rows of each table


@dataclass(frozen=True, slots=True)
class Preview:
    """A first run's outcome, foreseen: how many rows of each table, the first of them, and what is left out, by reason.
    Rows that the files say twice are counted twice."""

    counts: Mapping[str, int]
    rows: Mapping[str, list[dict[str, Any]]]
    left_out: Mapping[str, int]


def preview(collector: Collector, app: str, options: Mapping[str, Any]) -> Preview:
    """Run a collector as if for the first time, and forget all but the beginning of what it delivers."""
    watching = _Onlooker()
    outcome = run(collector, watching, app=app, options=options)
    return Preview(dict(watching.counts), watching.rows, dict(outcome.left_out))


class _Onlooker:
    """Takes deliveries and keeps none."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.rows: dict[str, list[dict[str, Any]]] = {}

    def register(self, app: str, tables: Mapping[str, Any]) -> int:
        self.rows = {name: [] for name in tables["tables"]}
        return 1

    def deliver(self, app: str, delivery: Mapping[str, Any]) -> dict[str, int]:
        for name, rows in delivery["rows"].items():
            self.counts[name] += len(rows)
            held = self.rows.setdefault(name, [])
            held += rows[: SHOWN - len(held)]
        return {"number": delivery["after"] + 1, "inserted": sum(map(len, delivery["rows"].values())), "known": 0}

    def progress(self, app: str) -> dict[str, Any]:
        raise NotFound(f"{app} holds nothing yet")
