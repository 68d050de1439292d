"""Sites visited, from the history databases of Chromium and its relatives and of Firefox."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from thebes.collectors.declaration import Collector, Option, table
from thebes.collectors.session import Session
from thebes.collectors.sources import broken, copied, own_folder, words
from thebes.privacy.faults import Mistake

_CHROMIUM = (
    ".config/chromium",
    ".config/google-chrome",
    ".config/BraveSoftware/Brave-Browser",
    ".config/microsoft-edge",
    ".config/vivaldi",
    "snap/chromium/common/chromium",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Chromium",
)
_FIREFOX = (
    ".mozilla/firefox",
    "snap/firefox/common/.mozilla/firefox",
    "Library/Application Support/Firefox/Profiles",
)
_1601 = datetime(1601, 1, 1, tzinfo=UTC)
_1970 = datetime(1970, 1, 1, tzinfo=UTC)


class Browser(Collector):
    """Copies a history first, since the browser holds it, and reads what came since the last run."""

    name = "browser"
    version = 1
    description = "Which sites you visited and when, without the pages."
    reads = (
        "The history databases of Chromium, Chrome, Edge, Brave, Vivaldi and Firefox in your own folder, or the files "
        "you name. Of each visit the time and the site; the full address only with --full-urls. Never "
        "titles, never forms."
    )
    tables = (
        table(
            "visits",
            "Sites visited",
            at=("timestamp", "in UTC"),
            domain=("string", "name of the site, without the page"),
            seconds=("float", "how long the page was open, where the browser says so"),
            browser=("string", "chromium or firefox"),
            url=("string", "the full address; empty unless installed with --full-urls"),
        ),
    )
    options = (
        Option("file", "a history database (History or places.sqlite); default: those found", "path", several=True),
        Option("full-urls", "keep full addresses, which may hold what you searched for", "flag"),
    )
    every = timedelta(hours=1)

    def collect(self, session: Session) -> None:
        files = [Path(file) for file in session.options["file"]] or _found(own_folder())
        if not files:
            raise Mistake("file", "no browser's history was found; name one with --file when installing")
        cursors = session.state.setdefault("cursors", {})
        for file in files:
            with copied(file) as database:
                cursor = cursors.setdefault(str(file), {"id": 0})
                cursor["id"] = _visits(session, database, file, int(cursor["id"]))


def _visits(session: Session, database: sqlite3.Connection, file: Path, cursor: int) -> int:
    known = {str(name) for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if {"urls", "visits"} <= known:
        kind, epoch = "chromium", _1601
        visits = "SELECT v.id, v.visit_time, v.visit_duration, u.url FROM visits v JOIN urls u ON u.id = v.url"
        newest = "SELECT coalesce(max(id), 0) FROM visits"
    elif {"moz_places", "moz_historyvisits"} <= known:
        kind, epoch = "firefox", _1970
        visits = (
            "SELECT v.id, v.visit_date, NULL, p.url FROM moz_historyvisits v JOIN moz_places p ON p.id = v.place_id"
        )
        newest = "SELECT coalesce(max(id), 0) FROM moz_historyvisits"
    else:
        raise broken(file, None, "is not a history of Chromium or Firefox")
    last = int(database.execute(newest).fetchone()[0])
    if last < cursor:  # the history was cleared and counts anew; keys keep what is known from coming twice
        cursor = 0
    for row in database.execute(f"{visits} WHERE v.id > ? ORDER BY v.id", (cursor,)):
        _insert(session, kind, epoch, row)
    return last


def _insert(session: Session, kind: str, epoch: datetime, row: tuple[Any, ...]) -> None:
    _, micros, duration, url = row
    domain = _domain(url)
    at = _time(epoch, micros)
    if domain is None or at is None:
        session.leave_out("no page of the web")
        return  # the browser's own pages, files of this machine, and what no browser would write
    seconds = duration / 1e6 if isinstance(duration, int) and duration > 0 else None
    visit: Mapping[str, Any] = {
        "at": at,
        "domain": domain,
        "seconds": seconds,
        "browser": kind,
        "url": words(url) if session.options["full-urls"] else None,
    }
    session.insert("visits", visit, key=[kind, micros, url[:2000]])


def _domain(url: object) -> str | None:
    if not isinstance(url, str):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return None
    return words(host.removeprefix("www."), 255) if parts.scheme in ("http", "https") and host else None


def _time(epoch: datetime, micros: object) -> datetime | None:
    if not isinstance(micros, int) or micros <= 0:
        return None
    try:
        return epoch + timedelta(microseconds=micros)
    except OverflowError:
        return None


def _found(home: Path) -> list[Path]:
    return [*_histories(home, _CHROMIUM, "*/History"), *_histories(home, _FIREFOX, "*/places.sqlite")]


def _histories(home: Path, folders: tuple[str, ...], pattern: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((home / folder).glob(pattern))
