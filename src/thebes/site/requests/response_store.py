"""The store of what a site has been asked and what it answers: HOME/outbox.db.

What must stay true: an answer is on disk before a byte of it leaves; one part of a task is answered once, to the first
question that rows were read for, and the same ask again gets the same answer; what was said is forgotten once nobody
can ask for it again, that it was said is not.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from thebes.database.private import opened
from thebes.database.transaction import whole

_TABLES = """
CREATE TABLE IF NOT EXISTS request (
    task TEXT PRIMARY KEY, digest TEXT NOT NULL, requestor TEXT NOT NULL, dataset TEXT NOT NULL, kind TEXT NOT NULL,
    noise TEXT NOT NULL, document TEXT NOT NULL, asked_at REAL NOT NULL, state TEXT NOT NULL, code TEXT NOT NULL,
    reason TEXT NOT NULL, rule INTEGER);
CREATE TABLE IF NOT EXISTS answer (
    task TEXT NOT NULL REFERENCES request (task), part TEXT NOT NULL, ask_id TEXT NOT NULL, question TEXT NOT NULL,
    body BLOB, file TEXT, epsilon REAL NOT NULL, delta REAL NOT NULL, answered_at REAL NOT NULL,
    PRIMARY KEY (task, part));
CREATE TABLE IF NOT EXISTS claimed (task TEXT PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS asked (task TEXT NOT NULL, part TEXT NOT NULL, question TEXT NOT NULL,
    PRIMARY KEY (task, part));
CREATE TABLE IF NOT EXISTS restored (task TEXT PRIMARY KEY);
"""
_LATER = (("answer", "file", "TEXT"),)  #: columns that the first outboxes had not
_COLUMNS = "task, digest, requestor, dataset, kind, noise, document, asked_at, state, code, reason, rule"
# By name: where `file` was added later it comes last.
_KEEP = (
    "INSERT INTO answer (task, part, ask_id, question, body, file, epsilon, delta, answered_at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
LARGE = 2**20  #: bytes of an answer that is kept in a file of its own, in HOME/outbox
OPEN, REFUSED, CLOSED = "open", "refused", "closed"
CLAIM = "task "  #: how the key of a task's claim begins
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SiteRequest:
    """One task as this site knows it. `state`: open (its last ask was allowed), refused (with `code` and `reason`), or
    closed (its coordinator said that nothing more will be asked). `rule` is the number of the one that allowed it."""

    task: str
    digest: str
    requestor: str
    dataset: str
    kind: str
    noise: str
    document: Mapping[str, Any]
    asked_at: float = 0.0
    state: str = OPEN
    code: str = ""
    reason: str = ""
    rule: int | None = None

    @property
    def datasets(self) -> tuple[str, ...]:
        """All data sets whose rows are asked for: the one, and another that it is joined with."""
        other = self.document.get("join")
        return (self.dataset, other) if isinstance(other, str) else (self.dataset,)

    @property
    def key(self) -> str:
        """Under which its claim is found in the ledger."""
        return _key(self.task)


@dataclass(frozen=True, slots=True)
class Subject:
    """The facts of a task that the rules are about: at most so much does it cost, and did in the end where that is
    known."""

    kind: str
    noise: str
    epsilon: Decimal
    delta: Decimal
    digest: str = ""  #: of its document


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The answer to one part: to which ask, and the bytes, which are None once they are forgotten."""

    part: str
    ask_id: str
    question: str  #: SHA-256 of what was asked
    body: bytes | None
    epsilon: float
    delta: float
    answered_at: float = 0.0


def came_back(path: Path) -> int:
    """An outbox was restored from a copy, and parts may have been answered that it knows nothing of: of each task that
    was not closed it only says again what it said. How many tasks those are."""
    sql = "INSERT OR IGNORE INTO restored SELECT task FROM request WHERE state != ?"
    with closing(opened(path, _TABLES, later=_LATER, patience=30, foreign_keys=True)) as db:
        db.execute(sql, (CLOSED,))
        return int(db.execute("SELECT count(*) FROM restored").fetchone()[0])


def subjects_in(path: Path) -> dict[str, Subject]:
    """Return what every task is about that is in an outbox; only read, because the site may be writing."""
    if not path.exists():
        return {}
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)) as db:
        return _subjects(db)


class ResponseStore:
    """One home's; safe for several threads. `clock` is seconds since 1970."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._lock = clock, threading.RLock()
        self._discarded: list[str] = []
        self._db = opened(path, _TABLES, later=_LATER, patience=30, foreign_keys=True)
        self._folder = path.with_suffix("")
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._sweep()

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def request(self, task: str) -> SiteRequest | None:
        with self._lock:
            row = self._db.execute(f"SELECT {_COLUMNS} FROM request WHERE task = ?", (task,)).fetchone()  # noqa: S608
        return None if row is None else _request(row)

    def requests(self, *, most: int = -1) -> list[SiteRequest]:
        """Newest first."""
        sql = f"SELECT {_COLUMNS} FROM request ORDER BY asked_at DESC, task LIMIT ?"  # noqa: S608
        with self._lock:
            return [_request(row) for row in self._db.execute(sql, (most,)).fetchall()]

    def subjects(self) -> dict[str, Subject]:
        """Return what every task is about, by the key of its claim."""
        with self._lock:
            return _subjects(self._db)

    def claim(self, task: str, epsilon: Decimal, delta: Decimal) -> None:
        """Write down what a task may cost, where its document does not say that, or did cost in the end."""
        sql = "INSERT OR REPLACE INTO claimed VALUES (?, ?, ?)"
        self._write(lambda: self._db.execute(sql, (task, str(epsilon), str(delta))))

    def begin(self, request: SiteRequest) -> SiteRequest:
        """Write a task down; one that is known stays as it was first heard of."""
        r = request
        values = (r.task, r.digest, r.requestor, r.dataset, r.kind, r.noise, json.dumps(dict(r.document)))
        sql = f"INSERT OR IGNORE INTO request ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
        self._write(lambda: self._db.execute(sql, (*values, self._clock(), r.state, r.code, r.reason, r.rule)))
        found = self.request(r.task)
        assert found is not None  # noqa: S101
        return found

    def refuse(self, task: str, *, code: str, reason: str) -> None:
        """Write down that its last ask was refused, and why; one that was closed stays closed."""
        sql = "UPDATE request SET state = ?, code = ?, reason = ? WHERE task = ? AND state != ?"
        self._write(lambda: self._db.execute(sql, (REFUSED, code, reason, task, CLOSED)))

    def first(self, task: str, part: str, question: str) -> str:
        """The first question that rows were read for in a part: this one, and it is written down, if there was none.
        One that failed may be asked again, but not another: how a question fails may say something of the rows. It
        outlives the process, which is all that a question could end, and so is not waited for until it is on disk."""
        with self._lock:
            self._db.execute("PRAGMA synchronous = NORMAL")
            try:
                sql = "INSERT OR IGNORE INTO asked VALUES (?, ?, ?)"
                self._write(lambda: self._db.execute(sql, (task, part, question)))
            finally:
                self._db.execute("PRAGMA synchronous = FULL")
            sql = "SELECT question FROM asked WHERE task = ? AND part = ?"
            return str(self._db.execute(sql, (task, part)).fetchone()[0])

    def answer(self, task: str, part: str) -> KeptAnswer | None:
        sql = "SELECT part, ask_id, question, body, epsilon, delta, answered_at, file FROM answer "
        with self._lock:
            row = self._db.execute(sql + "WHERE task = ? AND part = ?", (task, part)).fetchone()
            if row is None:
                return None
            *fields, file = row
            fields[3] = (self._folder / file).read_bytes() if file else fields[3]
        return KeptAnswer(*fields)

    def keep(self, task: str, answer: KeptAnswer, *, rule: int) -> None:
        """Write an answer down that a rule allowed, and forget the bytes of the task's parts before the last one: who
        asks for this part has those, and the last one's is kept all the same in case they forget it."""
        a = answer
        body, file = a.body, None
        if body is not None and len(body) >= LARGE:
            file = self._put(body)
            body = None
        values = (task, a.part, a.ask_id, a.question, body, file, a.epsilon, a.delta, self._clock())

        def work() -> None:
            self._forget(task, "AND rowid < (SELECT max(rowid) FROM answer WHERE task = ?)", task)
            self._db.execute(_KEEP, values)
            self._db.execute("DELETE FROM asked WHERE task = ? AND part = ?", (task, a.part))
            sql = "UPDATE request SET state = ?, code = '', reason = '', rule = ? WHERE task = ? AND state != ?"
            self._db.execute(sql, (OPEN, rule, task, CLOSED))

        self._write(work)
        self._discard()

    def finish(self, task: str) -> None:
        """Nothing more will be asked: forget every byte that was said."""

        def work() -> None:
            self._forget(task, "")
            self._db.execute("UPDATE request SET state = ? WHERE task = ?", (CLOSED, task))

        self._write(work)
        self._discard()

    def restored(self, task: str) -> bool:
        """Return whether a task was under way when this outbox was copied."""
        with self._lock:
            return self._db.execute("SELECT 1 FROM restored WHERE task = ?", (task,)).fetchone() is not None

    def paid(self, task: str) -> tuple[int, float, float]:
        """(parts that were answered, epsilon, delta) of a task so far."""
        sql = "SELECT count(*), coalesce(sum(epsilon), 0.0), coalesce(sum(delta), 0.0) FROM answer WHERE task = ?"
        with self._lock:
            count, epsilon, delta = self._db.execute(sql, (task,)).fetchone()
        return int(count), float(epsilon), float(delta)

    # --- inside -----------------------------------------------------------------------------------------

    def _forget(self, task: str, which: str, *values: str) -> None:
        rows = f"task = ? AND (body IS NOT NULL OR file IS NOT NULL) {which}"
        files = self._db.execute(f"SELECT file FROM answer WHERE {rows}", (task, *values)).fetchall()  # noqa: S608
        self._db.execute(f"UPDATE answer SET body = NULL, file = NULL WHERE {rows}", (task, *values))  # noqa: S608
        self._discarded += [file for (file,) in files if file]

    def _put(self, body: bytes) -> str:
        """A large answer on disk, before any row speaks of it."""
        file = f"{secrets.token_hex(16)}.frame"
        descriptor = os.open(self._folder / file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(body)
            opened.flush()
            os.fsync(opened.fileno())
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return file

    def _discard(self) -> None:
        """Remove files that no row speaks of any more, now that this is on disk."""
        with self._lock:
            files, self._discarded = self._discarded, []
        for file in files:
            (self._folder / file).unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Remove what a process that was killed left behind."""
        known = {file for (file,) in self._db.execute("SELECT file FROM answer WHERE file IS NOT NULL")}
        for path in self._folder.iterdir():
            if path.name not in known:
                path.unlink(missing_ok=True)

    def _write(self, work: Callable[[], T]) -> T:
        with self._lock:
            return whole(self._db, work)


def _subjects(db: sqlite3.Connection) -> dict[str, Subject]:
    said = "json_extract(document, '$.epsilon'), json_extract(document, '$.delta')"
    sql = f"SELECT task, kind, noise, digest, {said}, epsilon, delta FROM request LEFT JOIN claimed USING (task)"  # noqa: S608
    found = dict[str, Subject]()
    for task, kind, noise, digest, epsilon, delta, *claimed in db.execute(sql).fetchall():
        whole = claimed if claimed[0] is not None else [epsilon or 0, delta or 0]
        found[_key(task)] = Subject(kind, noise, Decimal(str(whole[0])), Decimal(str(whole[1])), digest)
    return found


def _key(task: str) -> str:
    return f"{CLAIM}{task}"


def _request(row: tuple[Any, ...]) -> SiteRequest:
    task, digest, requestor, dataset, kind, noise, document, asked_at, state, code, reason, rule = row
    return SiteRequest(
        task, digest, requestor, dataset, kind, noise, json.loads(document), asked_at, state, code, reason, rule
    )
