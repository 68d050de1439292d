"""Exports of other programs, as collectors read them: a letter that says which collector, and the file.

What must stay true: reading ends in rows that a store takes, or in a Mistake; nothing of the file is run or fetched.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from evidence.fuzz.kept import folder
from thebes.collectors.declaration import Collector
from thebes.collectors.options import read_options
from thebes.collectors.run import run
from thebes.collectors.shipped.bank import Bank
from thebes.collectors.shipped.calendar import Calendar
from thebes.collectors.shipped.github import Github
from thebes.collectors.shipped.health import Health
from thebes.collectors.shipped.location import Location
from thebes.collectors.shipped.netflix import Netflix
from thebes.collectors.shipped.spotify import Spotify
from thebes.collectors.shipped.table import TableFile
from thebes.collectors.shipped.whatsapp import Whatsapp
from thebes.collectors.shipped.youtube import Youtube
from thebes.data.store.declaration import read_declaration
from thebes.data.store.delivery import read_delivery
from thebes.data.store.values import cells
from thebes.privacy.faults import Mistake
from thebes.wire.refusals import NotFound

#: letter: (collector, name of the file, further options)
READERS: dict[bytes, tuple[type[Collector], str, tuple[str, ...]]] = {
    b"y": (Youtube, "watch-history.json", ("--channel",)),
    b"Y": (Youtube, "takeout.zip", ()),
    b"s": (Spotify, "endsong_0.json", ("--artist",)),
    b"n": (Netflix, "ViewingActivity.csv", ("--profile", "Ana", "--titles")),
    b"w": (Whatsapp, "_chat.txt", ("--me", "Ana")),
    b"b": (Bank, "statement.xml", ("--payee",)),
    b"c": (Bank, "n26.csv", ("--layout", "n26", "--payee")),
    b"k": (Bank, "dkb.csv", ("--layout", "dkb")),
    b"h": (Health, "export.xml", ()),
    b"H": (Health, "export.xml", ("--raw",)),
    b"g": (Health, "Daily activity metrics.csv", ()),
    b"l": (Location, "Timeline.json", ()),
    b"x": (Location, "walk.gpx", ()),
    b"i": (Calendar, "mine.ics", ("--titles",)),
    b"t": (TableFile, "mine.csv", ()),
    b"G": (Github, "issues_000001.json", ("--user", "ana")),
}


class _Taking:
    """A store's side of a delivery, without a disk."""

    def register(self, app: str, tables: Mapping[str, Any]) -> int:
        self._declared = read_declaration(tables)
        return 1

    def deliver(self, app: str, delivery: Mapping[str, Any]) -> dict[str, int]:
        read, count = read_delivery(delivery), 0
        for name, rows in read.rows.items():
            table = self._declared.table(name)
            assert table is not None, "a row for a table that nobody declared"
            count += len(cells(table, rows))
        return {"number": read.after + 1, "inserted": count, "known": 0}

    def progress(self, app: str) -> dict[str, Any]:
        raise NotFound("nothing yet")


@cache
def _place() -> Path:
    return folder()


def one(data: bytes) -> None:
    if (reader := READERS.get(data[:1])) is None:
        raise Mistake("file", "begins with no letter of a reader")
    made, name, more = reader
    file = _place() / name
    file.write_bytes(data[1:])
    options = read_options(made.options, ["--file", str(file), *more])
    run(made(), _Taking(), app="any", options=options)
