"""The store of what a helper has heard and said: HOME/helping.db.

What must stay true: a verdict and a sum are on the disk before a byte of them leaves; a nonce counts once in a task; a
sum is stored once, and with it goes everything that it was made of.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from thebes.database.private import opened
from thebes.database.transaction import whole

_TABLES = """
CREATE TABLE IF NOT EXISTS helped (
    task TEXT PRIMARY KEY, digest TEXT NOT NULL, requestor TEXT NOT NULL, document TEXT NOT NULL, until REAL NOT NULL,
    state TEXT NOT NULL, closed TEXT, answer TEXT);
CREATE TABLE IF NOT EXISTS job (
    task TEXT NOT NULL REFERENCES helped (task), number INTEGER NOT NULL, question TEXT NOT NULL, answer TEXT NOT NULL,
    shares BLOB, PRIMARY KEY (task, number));
CREATE TABLE IF NOT EXISTS report (
    task TEXT NOT NULL REFERENCES helped (task), nonce BLOB NOT NULL, number INTEGER NOT NULL, place INTEGER,
    PRIMARY KEY (task, nonce)) WITHOUT ROWID;
"""
OPEN, CLOSED, OVER = "open", "closed", "over"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class HelpedTask:
    """One task. `state`: open; closed (its sum was said, `answer`, to the question `closed`); over (nothing of it is
    left but that it was)."""

    task: str
    digest: str
    requestor: str
    document: Mapping[str, Any]
    until: float  #: seconds since 1970; after that it is over whatever the leader says
    state: str = OPEN
    closed: str | None = None
    answer: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """The word on a job, with the shares of the reports that are counted, sealed, in the order of `counted`."""

    number: int
    question: str
    answer: Mapping[str, Any]
    shares: bytes
    counted: Sequence[bytes]
    refused: Sequence[bytes]


class HelpedTasks:
    """One home's; safe for several threads."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.RLock()
        self._db = opened(path, _TABLES, patience=30, foreign_keys=True)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def task(self, task: str) -> HelpedTask | None:
        sql = "SELECT task, digest, requestor, document, until, state, closed, answer FROM helped WHERE task = ?"
        row = self._one(sql, task)
        if row is None:
            return None
        answer = None if row[7] is None else json.loads(row[7])
        return HelpedTask(row[0], row[1], row[2], json.loads(row[3]), row[4], row[5], row[6], answer)

    def begin(self, task: HelpedTask) -> None:
        values = (task.task, task.digest, task.requestor, json.dumps(dict(task.document)), task.until, OPEN)
        sql = "INSERT INTO helped (task, digest, requestor, document, until, state) VALUES (?, ?, ?, ?, ?, ?)"
        self._write(lambda: self._db.execute(sql, values))

    def verdict(self, task: str, number: int) -> tuple[str, dict[str, Any]] | None:
        """Return (question, answer) of a job that was judged before."""
        row = self._one("SELECT question, answer FROM job WHERE task = ? AND number = ?", task, number)
        return None if row is None else (row[0], json.loads(row[1]))

    def verdicts(self, task: str) -> int:
        """Return how many jobs of a task were judged, or of how many phases the sum was said."""
        return int(self._one("SELECT count(*) FROM job WHERE task = ?", task)[0])

    def known(self, task: str, nonces: Iterable[bytes]) -> set[bytes]:
        """Return which of these were in a job before, whatever was said of them."""
        sql = "SELECT 1 FROM report WHERE task = ? AND nonce = ?"
        return {nonce for nonce in nonces if self._one(sql, task, nonce) is not None}

    def judge(self, task: str, verdict: JobVerdict) -> None:
        """Write a verdict down, all of it or nothing."""
        v = verdict
        placed: list[tuple[bytes, int | None]] = [*((n, place) for place, n in enumerate(v.counted))]
        rows = [(task, nonce, v.number, place) for nonce, place in [*placed, *((n, None) for n in v.refused)]]

        def work() -> None:
            sql = "INSERT INTO job (task, number, question, answer, shares) VALUES (?, ?, ?, ?, ?)"
            self._db.execute(sql, (task, v.number, v.question, json.dumps(dict(v.answer)), v.shares))
            self._db.executemany("INSERT INTO report (task, nonce, number, place) VALUES (?, ?, ?, ?)", rows)

        self._write(work)

    def say(self, task: str, phase: int, question: str, answer: Mapping[str, Any]) -> None:
        """Write down the sum of one phase of a task of sites; of those before it only that they were said is kept."""

        def work() -> None:
            self._db.execute("UPDATE job SET question = '', answer = '{}' WHERE task = ?", (task,))
            sql = "INSERT INTO job (task, number, question, answer) VALUES (?, ?, ?, ?)"
            self._db.execute(sql, (task, phase, question, json.dumps(dict(answer))))

        self._write(work)

    def counted(self, task: str) -> list[tuple[bytes, int, int]]:
        """Return (nonce, job, place) of every report that was counted."""
        sql = "SELECT nonce, number, place FROM report WHERE task = ? AND place IS NOT NULL ORDER BY number, place"
        with self._lock:
            return [(bytes(row[0]), row[1], row[2]) for row in self._db.execute(sql, (task,)).fetchall()]

    def shares(self, task: str) -> list[tuple[int, bytes]]:
        """Return the sealed shares of every job."""
        with self._lock:
            rows = self._db.execute("SELECT number, shares FROM job WHERE task = ? ORDER BY number", (task,)).fetchall()
        return [(row[0], bytes(row[1])) for row in rows]

    def conclude(self, task: str, question: str, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Store a task's sum, unless there is one; forget what it was made of, and return the sum that is stored."""

        def work() -> dict[str, Any]:
            sql = "UPDATE helped SET state = ?, closed = ?, answer = ? WHERE task = ? AND answer IS NULL"
            self._db.execute(sql, (CLOSED, question, json.dumps(dict(answer)), task))
            self._forget(task)
            return dict(json.loads(self._one("SELECT answer FROM helped WHERE task = ?", task)[0]))

        return self._write(work)

    def end(self, task: str) -> None:
        """Nothing more is said of a task."""

        def work() -> None:
            self._forget(task)
            self._db.execute("UPDATE helped SET state = ?, answer = NULL WHERE task = ?", (OVER, task))

        self._write(work)

    def due(self, now: float) -> list[str]:
        """Return the tasks that are over by now and were not ended."""
        sql = "SELECT task FROM helped WHERE state != ? AND until < ?"
        with self._lock:
            return [row[0] for row in self._db.execute(sql, (OVER, now)).fetchall()]

    def going(self) -> list[str]:
        """Return the tasks that are open: no other has a key."""
        with self._lock:
            return [row[0] for row in self._db.execute("SELECT task FROM helped WHERE state = ?", (OPEN,)).fetchall()]

    def remember(self, task: str, until: float) -> None:
        """Write down that a task is over which was never opened here, and until when that is worth knowing."""
        columns, values = "(task, digest, requestor, document, until, state)", "(?, '', '', '{}', ?, ?)"
        sql = f"INSERT OR IGNORE INTO helped {columns} VALUES {values}"  # noqa: S608  # both stand here
        self._write(lambda: self._db.execute(sql, (task, until, OVER)))

    def unremember(self, now: float) -> None:
        """Forget what `remember` wrote down for long enough. A task that was opened is never forgotten."""
        stale = ("DELETE FROM helped WHERE state = ? AND digest = '' AND until < ?", (OVER, now))
        self._write(lambda: self._db.execute(*stale))

    def _forget(self, task: str) -> None:
        self._db.execute("DELETE FROM report WHERE task = ?", (task,))
        self._db.execute("DELETE FROM job WHERE task = ?", (task,))

    def _one(self, sql: str, *values: Any) -> Any:
        with self._lock:
            return self._db.execute(sql, values).fetchone()

    def _write(self, work: Callable[[], T]) -> T:
        with self._lock:
            return whole(self._db, work)
