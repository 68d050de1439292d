"""The place where a data set's cache lies: HOME/cache/NAME.db, with a lock beside it and a key for what is secret.

What must stay true: an answer and the state that gave it are on disk together before the answer leaves; one at a time
answers about a data set, also of several processes; exact totals are never here. What is forgotten, and when, follows
from the time and from what was released; what somebody paid for is never drawn again because it was forgotten.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from thebes import machine
from thebes.curator.cache.answer import Amounts, Answered, AnswerSource
from thebes.curator.cache.released_answers import ReleasedAnswer
from thebes.curator.cache.synopsis import SynopsisPart, View
from thebes.database import private_files
from thebes.database.private import opened
from thebes.database.transaction import whole

MOST_ASKED = 5000  #: latest questions that are remembered, for forecasts
MOST_ENDED = 5000  #: latest answers that are given to nobody any more and are remembered all the same, for forecasts
PAID_SECONDS = 30 * 86_400.0  #: for so long who paid for an answer can have it again
SWEEP = 100  #: answers between two looks for some that are over
_NONCE, _KEY_BYTES = 12, 32
_TABLES = """
CREATE TABLE IF NOT EXISTS answer (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL, view TEXT NOT NULL, payer TEXT NOT NULL, at REAL NOT NULL,
    totals BLOB NOT NULL, made_epsilon TEXT, made_delta TEXT, width REAL, beta REAL, source TEXT NOT NULL,
    epsilon TEXT NOT NULL, delta TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS answered ON answer (key, view);
CREATE INDEX IF NOT EXISTS paid ON answer (payer);
CREATE TABLE IF NOT EXISTS piece (
    name TEXT PRIMARY KEY, public TEXT NOT NULL, arrays BLOB, secret BLOB, generation INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS asked (
    number INTEGER PRIMARY KEY, at REAL NOT NULL, source TEXT NOT NULL, question TEXT, wanted TEXT);
CREATE TABLE IF NOT EXISTS day (
    day TEXT NOT NULL, source TEXT NOT NULL, count INTEGER NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL,
    worth REAL NOT NULL, PRIMARY KEY (day, source));
CREATE TABLE IF NOT EXISTS buying (what TEXT PRIMARY KEY, token TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS place (view TEXT PRIMARY KEY, blocks TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS spent (payer TEXT PRIMARY KEY);
"""
_ANSWER = "key, view, payer, at, totals, made_epsilon, made_delta, width, beta, source, epsilon, delta"


@dataclass(frozen=True, slots=True)
class Day:
    """The answers of one day from one source: how often, what that cost (epsilons and deltas added up), and what the
    same answers would have cost from a mechanism each."""

    day: str
    source: str
    count: int
    epsilon: float
    delta: float
    worth: float


class CacheStore:
    """One data set's. Safe for the threads of a process, and for several processes. `clock` is seconds since 1970. One
    that is only `reading` waits for nobody: it sees what was last written."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time, reading: bool = False) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path, self.clock, self._reading = path, clock, reading
        self._lock = threading.RLock()  # for one statement or transaction at a time: what is written can be read
        self._turn, self._held = threading.RLock(), False  # for a whole answer
        self._db = opened(path, _TABLES, patience=60)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else answers about this data set meanwhile, though what is written can be read. A process that is
        killed lets go of it."""
        with self._turn:
            if self._held or self._reading:
                yield
                return
            with self._open(".lock") as file:
                machine.hold(file)
                self._held = True
                try:
                    yield
                finally:
                    self._held = False

    @contextmanager
    def alone_with(self, question: str) -> Iterator[None]:
        """Nobody else answers this question meanwhile; others are answered. Not to be asked for twice by one thread."""
        with self._open(".questions.lock") as file:
            machine.hold_place(file, int.from_bytes(sha256(question.encode()).digest()[:8]))
            yield

    @contextmanager
    def _open(self, suffix: str) -> Iterator[int]:
        file = os.open(self._path.with_suffix(suffix), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            yield file
        finally:
            os.close(file)

    # --- answers ------------------------------------------------------------------------------------------

    def answers(self, key: str, view: str, *, since: float | None = None) -> list[ReleasedAnswer]:
        """Return the answers to a question over a view that were released since then, of many alike the best: of
        those whose noise was calibrated to one delta the one with the largest epsilon, of those that promise the same
        the first."""
        found = f"SELECT {_ANSWER}, %s FROM answer WHERE key = ? AND view = ? AND at >= ?"  # noqa: S608
        # Beside one max or min SQLite gives the other columns of the row that has it.
        noised = f"{found % 'max(CAST(made_epsilon AS REAL))'} AND made_epsilon IS NOT NULL GROUP BY made_delta"
        promised = f"{found % 'min(number)'} AND made_epsilon IS NULL GROUP BY width, beta"
        values = (key, view, -1.0 if since is None else since)
        with self._lock:
            rows = self._db.execute(noised, values).fetchall() + self._db.execute(promised, values).fetchall()
        return [_kept(row[:-1]) for row in rows]

    def paid_by(self, payer: str) -> ReleasedAnswer | None:
        """Return the latest answer that somebody has paid for; None where there is none."""
        with self._lock:
            sql = f"SELECT {_ANSWER} FROM answer WHERE payer = ? ORDER BY number DESC LIMIT 1"  # noqa: S608
            row = self._db.execute(sql, (payer,)).fetchone()
        return None if row is None else _kept(row)

    def latest(self, key: str) -> ReleasedAnswer | None:
        """The newest answer to a question that holds noise, over whichever rows."""
        with self._lock:
            sql = f"SELECT {_ANSWER} FROM answer WHERE key = ? AND made_epsilon IS NOT NULL "  # noqa: S608
            row = self._db.execute(f"{sql} ORDER BY number DESC LIMIT 1", (key,)).fetchone()
        return None if row is None else _kept(row)

    def paid(self, payer: str) -> bool:
        """Return whether somebody has paid for an answer that is forgotten by now."""
        with self._lock:
            return self._db.execute("SELECT 1 FROM spent WHERE payer = ?", (payer,)).fetchone() is not None

    def keep(
        self, kept: ReleasedAnswer, pieces: Mapping[str, SynopsisPart], *, blocks: View = (), fresh_for: float = inf
    ) -> None:
        """Write down an answer about these blocks that may leave then, together with what changed in the state that
        gave it. Answers about no blocks are over after `fresh_for` seconds, and are forgotten now and then."""

        def work() -> None:
            number = self._insert(kept)
            if blocks:
                self._db.execute("INSERT OR IGNORE INTO place VALUES (?, ?)", (kept.view, json.dumps(blocks)))
            self._write(pieces)
            if number % SWEEP == 0:
                self._sweep("view NOT IN (SELECT view FROM place) AND at < ?", kept.at - fresh_for)

        with self._lock:
            whole(self._db, work)

    def ended(self, over: Callable[[View], bool]) -> None:
        """Forget answers about blocks that nobody can be asked about together any more."""

        def work() -> None:
            places = self._db.execute("SELECT view, blocks FROM place").fetchall()
            for view in [view for view, blocks in places if over(tuple(json.loads(blocks)))]:
                self._sweep("view = ?", view)
                gone = "DELETE FROM place WHERE view = ? AND NOT EXISTS (SELECT 1 FROM answer WHERE view = place.view)"
                self._db.execute(gone, (view,))

        with self._lock:
            whole(self._db, work)

    def _sweep(self, which: str, value: object) -> None:
        """Forget some answers, but for the newest to a question, which forecasts need, and for those that somebody paid
        for of late. Of all others it stays known that they were paid."""
        newest = "SELECT max(number) FROM answer WHERE made_epsilon IS NOT NULL GROUP BY key ORDER BY 1 DESC LIMIT ?"
        gone = f"({which}) AND number NOT IN ({newest}) AND (payer = '' OR at < ?)"
        values = (value, MOST_ENDED, self.clock() - PAID_SECONDS)
        payers = f"INSERT OR IGNORE INTO spent SELECT payer FROM answer WHERE payer != '' AND {gone}"  # noqa: S608
        self._db.execute(payers, values)
        self._db.execute(f"DELETE FROM answer WHERE {gone}", values)  # noqa: S608

    def _insert(self, kept: ReleasedAnswer) -> int:
        marks = ", ".join("?" * len(_ANSWER.split(",")))
        sql = f"INSERT INTO answer ({_ANSWER}) VALUES ({marks})"  # noqa: S608
        return self._db.execute(sql, _row(kept)).lastrowid or 0

    def spoil(self, kept: ReleasedAnswer | None = None) -> None:
        """Lose all that is secret, so that whoever needs it pays anew; and write down that what somebody paid gave no
        answer and serves for none."""

        def work() -> None:
            generation = self.generation + 1
            self._db.execute("UPDATE piece SET secret = NULL, generation = ? WHERE secret IS NOT NULL", (generation,))
            if kept is not None:
                self._insert(kept)

        with self._lock:
            whole(self._db, work)

    # --- a synopsis's state -------------------------------------------------------------------------------

    @property
    def generation(self) -> int:
        """The number of times state was written: another number means that somebody else wrote some."""
        with self._lock:
            return int(self._db.execute("SELECT coalesce(max(generation), 0) FROM piece").fetchone()[0])

    def pieces(self) -> dict[str, SynopsisPart]:
        """All of it."""
        with self._lock:
            rows = self._db.execute("SELECT name, public, arrays, secret FROM piece").fetchall()
        return {
            name: SynopsisPart(json.loads(public), _unpacked(arrays), self._opened(name, secret))
            for name, public, arrays, secret in rows
        }

    def buying(self, what: str) -> str:
        """A name for a purchase that is about to be made, the same until `bought`: after a crash the same charge is
        found again. Names are never used twice, so that state that was lost is paid anew."""
        with self._lock:
            self._db.execute("INSERT OR IGNORE INTO buying VALUES (?, ?)", (what, secrets.token_hex(8)))
            return str(self._db.execute("SELECT token FROM buying WHERE what = ?", (what,)).fetchone()[0])

    def came_back(self) -> None:
        """This state was restored from a copy. What was being bought when it was made may have been drawn since: its
        name is used up, so that it is paid anew. So is all that is secret."""
        self.spoil()
        with self._lock:
            self._db.execute("DELETE FROM buying")

    def looked(self, pieces: Mapping[str, SynopsisPart], kept: ReleasedAnswer | None = None) -> None:
        """Write down what a look at rows changed in the state, before what follows from it is paid; and that what
        somebody paid serves for no other look. Their answer, once there is one, is kept beside it."""

        def work() -> None:
            self._write(pieces)
            if kept is not None:
                self._insert(kept)

        with self._lock:
            whole(self._db, work)

    def bought(self, what: str, pieces: Mapping[str, SynopsisPart]) -> None:
        """Write down what was bought: its name is used up."""

        def work() -> None:
            self._write(pieces)
            self._db.execute("DELETE FROM buying WHERE what = ?", (what,))

        with self._lock:
            whole(self._db, work)

    def _write(self, pieces: Mapping[str, SynopsisPart]) -> None:
        generation = self.generation + 1
        for name, piece in pieces.items():
            values = (name, json.dumps(piece.public), _packed(piece.arrays), self._sealed(name, piece.secret))
            self._db.execute("INSERT OR REPLACE INTO piece VALUES (?, ?, ?, ?, ?)", (*values, generation))

    def _sealed(self, name: str, secret: Mapping[str, Any]) -> bytes | None:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        if not secret:
            return None
        nonce = secrets.token_bytes(_NONCE)
        return nonce + ChaCha20Poly1305(self._key(make=True)).encrypt(nonce, json.dumps(secret).encode(), name.encode())

    def _opened(self, name: str, sealed: bytes | None) -> dict[str, Any]:
        """Return what was sealed; nothing where the key is another or gone: whoever needs it pays anew."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        key = self._key(make=False)
        if sealed is None or not key:
            return {}
        try:
            return dict(json.loads(ChaCha20Poly1305(key).decrypt(sealed[:_NONCE], sealed[_NONCE:], name.encode())))
        except InvalidTag:
            return {}

    def _key(self, *, make: bool) -> bytes:
        path = self._path.with_suffix(".key")
        try:
            key = path.read_bytes()
        except FileNotFoundError:
            key = b""
        if len(key) == _KEY_BYTES:
            return key
        if not make:
            return b""
        key = secrets.token_bytes(_KEY_BYTES)
        private_files.put(path, key)
        return key

    # --- what was asked -----------------------------------------------------------------------------------

    def note(
        self,
        source: AnswerSource,
        cost: Amounts,
        worth: Decimal,
        *,
        question: str | None = None,
        wanted: str | None = None,
    ) -> None:
        """Count an answer. It outlives the process; that it is on disk is not waited for, as nothing rests on it."""
        now = self.clock()
        day = datetime.fromtimestamp(now, UTC).date().isoformat()
        epsilon, delta = map(float, cost)

        def work() -> None:
            sql = "INSERT INTO asked (at, source, question, wanted) VALUES (?, ?, ?, ?)"
            number = self._db.execute(sql, (now, str(source), question, wanted)).lastrowid or 0
            if number % 100 == 0:
                self._db.execute("DELETE FROM asked WHERE number <= ?", (number - MOST_ASKED,))
            self._db.execute(
                "INSERT INTO day VALUES (?, ?, 1, ?, ?, ?) ON CONFLICT (day, source) DO UPDATE SET count = count + 1, "
                "epsilon = epsilon + excluded.epsilon, delta = delta + excluded.delta, worth = worth + excluded.worth",
                (day, str(source), epsilon, delta, float(worth)),
            )

        with self._lock:
            self._db.execute("PRAGMA synchronous = NORMAL")
            try:
                whole(self._db, work)
            finally:
                self._db.execute("PRAGMA synchronous = FULL")

    def days(self) -> list[Day]:
        """Everything that was answered, oldest first."""
        with self._lock:
            rows = self._db.execute("SELECT * FROM day ORDER BY day, source").fetchall()
        return [Day(*row) for row in rows]

    def asked(self) -> Sequence[tuple[str, str]]:
        """The latest questions that can be asked again, oldest first, and what was wanted of each."""
        sql = "SELECT question, wanted FROM asked WHERE question IS NOT NULL AND wanted IS NOT NULL ORDER BY number"
        with self._lock:
            return [(str(question), str(wanted)) for question, wanted in self._db.execute(sql).fetchall()]


def _row(kept: ReleasedAnswer) -> tuple[Any, ...]:
    answered = kept.answered
    made = (None, None) if answered.made is None else tuple(map(str, answered.made))
    bound = (None, None) if answered.bound is None else answered.bound
    totals = np.ascontiguousarray(answered.totals, dtype="<f8").tobytes()
    said = (str(answered.source), *map(str, answered.cost))
    return (kept.key, kept.view, kept.payer, kept.at, totals, *made, *bound, *said)


def _kept(row: tuple[Any, ...]) -> ReleasedAnswer:
    key, view, payer, at, totals, made_epsilon, made_delta, width, beta, source, epsilon, delta = row
    answered = Answered(
        totals=np.frombuffer(totals, dtype="<f8").astype(np.float64),
        made=None if made_epsilon is None else (Decimal(made_epsilon), Decimal(made_delta)),
        bound=None if width is None else (width, beta),
        source=AnswerSource(source),
        cost=(Decimal(epsilon), Decimal(delta)),
    )
    return ReleasedAnswer(key, view, payer, at, answered)


def _packed(arrays: Mapping[str, Any]) -> bytes | None:
    if not arrays:
        return None
    body = io.BytesIO()
    np.savez(body, allow_pickle=False, **arrays)
    return body.getvalue()


def _unpacked(body: bytes | None) -> dict[str, Any]:
    if body is None:
        return {}
    with np.load(io.BytesIO(body), allow_pickle=False) as found:
        return {name: found[name] for name in found.files}
