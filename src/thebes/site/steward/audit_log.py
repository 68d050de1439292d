"""Everything a site was asked, decided and answered, for whom and at what cost: HOME/audit.db, which only grows.

What must stay true: an entry is on disk before anything that it tells of leaves the site; each holds the hash of the
one before, so that no later change goes unseen. No data value stands in it.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from thebes.database import version_mark
from thebes.ledger import Head, JournalEntry, Tampered
from thebes.ledger.journal import BEGINNING, chain_findings, written
from thebes.ledger.journal import read as entries_of

_TABLES = """
CREATE TABLE IF NOT EXISTS entry (number INTEGER PRIMARY KEY, body TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS head (one INTEGER PRIMARY KEY CHECK (one = 1), length INTEGER NOT NULL, hash TEXT NOT NULL);
INSERT OR IGNORE INTO head VALUES (1, 0, '{beginning}');
CREATE TRIGGER IF NOT EXISTS no_change BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'entries stay'); END;
CREATE TRIGGER IF NOT EXISTS no_removal BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries stay'); END;
"""


class Audit:
    """The log of one home. `clock` gives the time that is written down; nothing depends on it."""

    def __init__(self, path: Path, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock, self._lock = clock, threading.RLock()
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
        try:
            version_mark.check(self._db.execute, path.name)
        except version_mark.NewerTables:
            self._db.close()
            raise
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            self._db.execute(f"PRAGMA {pragma}")
        path.chmod(0o600)
        self._db.executescript(_TABLES.format(beginning=BEGINNING))
        version_mark.mark(self._db.execute)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def note(self, *entries: tuple[str, Mapping[str, Any]], more: bool = False) -> Head:
        """Append (event, facts) one after another, all of them or none; the new head. They are on disk then; where
        `more` follow before anything leaves, they outlive this process, and are on disk with those."""
        at = self._clock().astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"
        with self._lock:
            if not more:
                return self._appended(at, entries)
            self._db.execute("PRAGMA synchronous = NORMAL")
            try:
                return self._appended(at, entries)
            finally:
                self._db.execute("PRAGMA synchronous = FULL")

    def _appended(self, at: str, entries: Iterable[tuple[str, Mapping[str, Any]]]) -> Head:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            head = self.head()
            for event, facts in entries:
                body, head = written(head, at, event, dict(facts))
                self._db.execute("INSERT INTO entry VALUES (?, ?, ?)", (head.length, body, head.hash))
            self._db.execute("UPDATE head SET length = ?, hash = ?", (head.length, head.hash))
            self._db.execute("COMMIT")
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        return head

    def head(self) -> Head:
        """Return where the log ends: write it down elsewhere, and no later rewriting of what came before goes
        unseen."""
        with self._lock:
            row = self._db.execute("SELECT length, hash FROM head WHERE one = 1").fetchone()
        if row is None:
            raise Tampered(("the log has no head record",))
        return Head(*row)

    def entries(self, *, after: int = 0, most: int | None = None) -> list[JournalEntry]:
        """Entries in order, from the one after number `after`."""
        return list(entries_of(self._rows("WHERE number > ? ORDER BY number LIMIT ?", (after, most or -1))))

    def latest(self, most: int) -> list[JournalEntry]:
        """The last entries, newest first."""
        return list(entries_of(self._rows("ORDER BY number DESC LIMIT ?", (most,))))

    def verify(self, known: Iterable[Head] = ()) -> Head:
        """Check the whole chain, and heads that were remembered elsewhere; raises `Tampered` with what it found."""
        with self._lock:
            findings = tuple(chain_findings(self._rows("ORDER BY number", ()), self.head(), known))
            if findings:
                raise Tampered(findings)
            return self.head()

    def _rows(self, rest: str, values: tuple[Any, ...]) -> Iterator[tuple[int, str, str]]:
        with self._lock:
            rows = self._db.execute(f"SELECT number, body, hash FROM entry {rest}", values).fetchall()  # noqa: S608
        return iter(rows)
