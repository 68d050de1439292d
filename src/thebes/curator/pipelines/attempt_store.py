"""The record of what became of every run of a pipeline and of each of its attempts: one SQLite file.

What must stay true: an attempt is written down before anything is set aside for it, and what came of it before anybody
is told; whoever opens the file after a crash can tell what was begun.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from thebes.database.private import opened
from thebes.database.transaction import whole
from thebes.ledger.amounts import Amount, Budget

_TABLES = """
CREATE TABLE IF NOT EXISTS run (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL, pipeline TEXT NOT NULL, stream TEXT NOT NULL,
    spender TEXT NOT NULL, terms TEXT NOT NULL, state TEXT NOT NULL, verdict TEXT,
    reason TEXT NOT NULL DEFAULT '', version INTEGER,
    started_at REAL NOT NULL, ended_at REAL);
CREATE UNIQUE INDEX IF NOT EXISTS one_open_run ON run (pipeline) WHERE state = 'open';
CREATE INDEX IF NOT EXISTS run_by_pipeline ON run (pipeline, id);
CREATE TABLE IF NOT EXISTS attempt (
    run INTEGER NOT NULL REFERENCES run (id), number INTEGER NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
    blocks TEXT NOT NULL, state TEXT NOT NULL, claim INTEGER, rows REAL, verdict TEXT, validation TEXT, bundle TEXT,
    begun_at REAL NOT NULL, ended_at REAL, PRIMARY KEY (run, number));
"""
_RUN = "id, key, pipeline, stream, spender, terms, state, verdict, reason, version, started_at, ended_at"
_ATTEMPT = (
    "run, number, epsilon, delta, blocks, state, claim, rows, verdict, validation, bundle IS NOT NULL, begun_at, "
    "ended_at"
)
CLAIM = "pipeline "  #: how the key of an attempt's claim begins
T = TypeVar("T")


class RunState(StrEnum):
    """The state that a run has come to."""

    OPEN = "open"  #: attempts are made, or it waits for data or budget. -> ENDED, FAILED
    ENDED = "ended"  #: with a verdict: ACCEPT, REJECT, TIMEOUT. Final
    FAILED = "failed"  #: the pipeline's own code, or what it made, could not be used. Final


class AttemptState(StrEnum):
    """The state that an attempt has come to."""

    PLANNED = "planned"  #: its claim may be reserved; no row was read. -> CHARGED, GIVEN_BACK
    GIVEN_BACK = "given back"  #: nothing was charged: a block had too little left, or its process ended. Final
    CHARGED = "charged"  #: every block has paid; rows may have been read. -> JUDGED, LOST, FAILED
    LOST = "lost"  #: stopped before there was a verdict, or its process ended: paid for, for nothing. Final
    FAILED = "failed"  #: the pipeline's code raised: paid for, and nothing came of it. Final
    JUDGED = "judged"  #: has a verdict; one that was accepted waits to be published. -> PUBLISHED
    PUBLISHED = "published"  #: its model is in the store. Final

    @property
    def paid(self) -> bool:
        """True where its blocks were charged."""
        return self not in (AttemptState.PLANNED, AttemptState.GIVEN_BACK)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt. `claim` is its number in the ledger, `rows` the public size of its blocks together, `kept` whether a
    bundle lies here that is still to be published."""

    run: int
    number: int
    epsilon: Decimal
    delta: Decimal
    blocks: tuple[str, ...]
    state: AttemptState
    claim: int | None = None
    rows: float | None = None
    verdict: str | None = None
    validation: Mapping[str, Any] | None = None
    kept: bool = False
    begun_at: float = 0.0
    ended_at: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "epsilon": float(self.epsilon),
            "delta": float(self.delta),
            "blocks": list(self.blocks),
            "state": str(self.state),
            "claim": self.claim,
            "rows": self.rows,
            "verdict": self.verdict,
            "validation": self.validation,
        }  # not how long it took: that follows the true number of rows, and this leaves the house


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """One run of a pipeline: attempts until a verdict. `key` is its name for the ledger and the store, `terms` all that
    decides how it is run, `version` that of its model in the store."""

    id: int
    key: str
    pipeline: str
    stream: str
    spender: str
    terms: Mapping[str, Any]
    state: RunState
    verdict: str | None
    reason: str
    version: int | None
    started_at: float
    ended_at: float | None

    def as_json(self, attempts: list[Attempt]) -> dict[str, Any]:
        return {
            "run": self.id,
            "pipeline": self.pipeline,
            "stream": self.stream,
            "developer": self.spender,
            "state": str(self.state),
            "verdict": self.verdict,
            "reason": self.reason,
            "version": self.version,
            "terms": dict(self.terms),
            "attempts": [one.as_json() for one in attempts],
            "started_at": self.started_at,
            "ended_at": self.ended_at,
        }


class Attempts:
    """The journal of one home; safe for several threads and processes. `clock` is seconds since 1970."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._lock = clock, threading.RLock()
        self._db = opened(path, _TABLES, patience=30, foreign_keys=True)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # --- runs -----------------------------------------------------------------------------------------

    def open_run(self, pipeline: str) -> PipelineRun | None:
        """The run of a pipeline that has not ended yet."""
        found = self._runs("WHERE pipeline = ? AND state = ? ORDER BY id DESC LIMIT 1", pipeline, RunState.OPEN)
        return found[0] if found else None

    def begin(self, pipeline: str, *, stream: str, spender: str, terms: Mapping[str, Any]) -> PipelineRun:
        """A new run. A pipeline has one open run at a time."""
        sql = "INSERT INTO run (key, pipeline, stream, spender, terms, state, started_at) VALUES (?, ?, ?, ?, ?, ?, ?)"
        values = (
            secrets.token_hex(8),
            pipeline,
            stream,
            spender,
            json.dumps(dict(terms)),
            RunState.OPEN,
            self._clock(),
        )
        made = self._write(lambda: self._db.execute(sql, values).lastrowid)
        return self.run(int(made or 0))

    def run(self, number: int) -> PipelineRun:
        return self._runs("WHERE id = ?", number)[0]

    def runs(self, *, pipeline: str | None = None, most: int = 100) -> list[PipelineRun]:
        """Newest first."""
        if pipeline is None:
            return self._runs("ORDER BY id DESC LIMIT ?", most)
        return self._runs("WHERE pipeline = ? ORDER BY id DESC LIMIT ?", pipeline, most)

    def said(self, run: int, *, verdict: str | None, reason: str) -> None:
        """Write down how an open run stands."""
        sql = "UPDATE run SET verdict = ?, reason = ? WHERE id = ?"
        self._write(lambda: self._db.execute(sql, (verdict, reason, run)))

    def end(
        self, run: int, *, state: RunState, verdict: str | None, reason: str = "", version: int | None = None
    ) -> None:
        """It comes to no further attempt. The attempt that was accepted is published with it."""
        sql = "UPDATE run SET state = ?, verdict = ?, reason = ?, version = ?, ended_at = ? WHERE id = ?"
        published = "UPDATE attempt SET state = ?, bundle = NULL WHERE run = ? AND bundle IS NOT NULL"

        def work() -> None:
            self._db.execute(sql, (state, verdict, reason, version, self._clock(), run))
            if version is not None:
                self._db.execute(published, (AttemptState.PUBLISHED, run))

        self._write(work)

    # --- attempts -------------------------------------------------------------------------------------

    def attempts(self, run: int) -> list[Attempt]:
        """In their order."""
        sql = f"SELECT {_ATTEMPT} FROM attempt WHERE run = ? ORDER BY number"  # noqa: S608
        with self._lock:
            return [_attempt(row) for row in self._db.execute(sql, (run,)).fetchall()]

    def amounts(self) -> dict[str, Budget]:
        """Return what every attempt may spend, by the key of its claim: written down before there is a claim."""
        sql = "SELECT pipeline, key, number, epsilon, delta FROM attempt JOIN run ON run.id = attempt.run"
        with self._lock:
            rows = self._db.execute(sql).fetchall()
        return {key_of(name, key, number): Budget(Amount(e), Amount(d)) for name, key, number, e, d in rows}

    def plan(self, run: int, *, epsilon: Decimal, delta: Decimal, blocks: tuple[str, ...]) -> Attempt:
        """Write the next attempt down, before anything is set aside for it."""
        sql = (
            "INSERT INTO attempt (run, number, epsilon, delta, blocks, state, begun_at) "
            "SELECT ?, coalesce(max(number), 0) + 1, ?, ?, ?, ?, ? FROM attempt WHERE run = ?"
        )
        values = (run, str(epsilon), str(delta), json.dumps(list(blocks)), AttemptState.PLANNED, self._clock(), run)
        self._write(lambda: self._db.execute(sql, values))
        return self.attempts(run)[-1]

    def charged(self, attempt: Attempt, *, claim: int, rows: float) -> None:
        """Its blocks have paid."""
        self._set(attempt, "state = ?, claim = ?, rows = ?", AttemptState.CHARGED, claim, rows)

    def judged(self, attempt: Attempt, *, verdict: str, validation: Mapping[str, Any], bundle: str | None) -> None:
        """Its verdict, and the bundle of a model that was accepted until it is in the store."""
        text = json.dumps(dict(validation))
        what = "state = ?, verdict = ?, validation = ?, bundle = ?, ended_at = ?"
        self._set(attempt, what, AttemptState.JUDGED, verdict, text, bundle, self._clock())

    def ended(self, attempt: Attempt, state: AttemptState, *, claim: int | None = None) -> None:
        """Nothing came of it."""
        self._set(attempt, "state = ?, claim = coalesce(?, claim), ended_at = ?", state, claim, self._clock())

    def bundle(self, attempt: Attempt) -> dict[str, Any]:
        """Return what of an attempt is to be published."""
        with self._lock:
            (text,) = self._db.execute(
                "SELECT bundle FROM attempt WHERE run = ? AND number = ?", (attempt.run, attempt.number)
            ).fetchone()
        body: dict[str, Any] = json.loads(text)
        return body

    # --- inside -----------------------------------------------------------------------------------------

    def _set(self, attempt: Attempt, what: str, *values: Any) -> None:
        sql = f"UPDATE attempt SET {what} WHERE run = ? AND number = ?"  # noqa: S608
        self._write(lambda: self._db.execute(sql, (*values, attempt.run, attempt.number)))

    def _runs(self, which: str, *values: Any) -> list[PipelineRun]:
        with self._lock:
            return [_run(row) for row in self._db.execute(f"SELECT {_RUN} FROM run {which}", values)]  # noqa: S608

    def _write(self, work: Callable[[], T]) -> T:
        with self._lock:
            return whole(self._db, work)


def key_of(pipeline: str, run: str, number: int) -> str:
    """Of an attempt's claim."""
    return f"{CLAIM}{pipeline} {run}/{number}"


def _run(row: tuple[Any, ...]) -> PipelineRun:
    number, key, pipeline, stream, spender, terms, state, *rest = row
    return PipelineRun(number, key, pipeline, stream, spender, json.loads(terms), RunState(state), *rest)


def _attempt(row: tuple[Any, ...]) -> Attempt:
    run, number, epsilon, delta, blocks, state, claim, rows, verdict, validation, kept, begun_at, ended_at = row
    return Attempt(
        run,
        number,
        Decimal(epsilon),
        Decimal(delta),
        tuple(json.loads(blocks)),
        AttemptState(state),
        claim,
        rows,
        verdict,
        None if validation is None else json.loads(validation),
        bool(kept),
        begun_at,
        ended_at,
    )
