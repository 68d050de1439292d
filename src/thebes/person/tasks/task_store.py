"""The memory of a person's machine about tasks: one small SQLite file, every write durable when it returns.

What must stay true: a state changes only along `AFTER`, and only from the state it was read in. Bytes that hold a
person's values wait here sealed, and are gone once the server has given its receipt.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from thebes.database.private import opened
from thebes.database.transaction import whole
from thebes.person.participation.participation import AFTER, Participation, ParticipationState, Sending, canonical
from thebes.person.participation.seal import Seal
from thebes.privacy.faults import Fault
from thebes.tasks import registry
from thebes.tasks.document import PeopleDocument
from thebes.wire.refusals import BrokenLog, Conflict
from thebes.wire.task_log import Seen, TaskLogEntry

T = TypeVar("T")

_TABLES = """
CREATE TABLE IF NOT EXISTS document (digest TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS listed (task_id TEXT PRIMARY KEY, digest TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS slot (task_id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS rule (id INTEGER PRIMARY KEY, body TEXT NOT NULL, active INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS toss (rule INTEGER NOT NULL, task_id TEXT NOT NULL, yes INTEGER NOT NULL,
  PRIMARY KEY (rule, task_id)) STRICT;
CREATE TABLE IF NOT EXISTS participation (
  id INTEGER PRIMARY KEY, task_id TEXT NOT NULL, number INTEGER NOT NULL,
  digest TEXT NOT NULL REFERENCES document(digest), requestor TEXT NOT NULL,
  state TEXT NOT NULL, consent TEXT NOT NULL DEFAULT '', rule INTEGER, accepted_at REAL, due_at REAL,
  result TEXT, note TEXT NOT NULL DEFAULT '', UNIQUE (task_id, number)) STRICT;
CREATE TABLE IF NOT EXISTS sending (
  participation INTEGER NOT NULL REFERENCES participation(id), part TEXT NOT NULL, ask_id TEXT NOT NULL,
  body BLOB NOT NULL, media_type TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, receipt TEXT,
  PRIMARY KEY (participation, part)) STRICT;
CREATE TABLE IF NOT EXISTS membership (
  name TEXT NOT NULL, epoch TEXT NOT NULL, pin TEXT NOT NULL, enrolled INTEGER NOT NULL, leaf TEXT NOT NULL,
  sealed BLOB NOT NULL, record TEXT, PRIMARY KEY (name, epoch)) STRICT;
CREATE INDEX IF NOT EXISTS by_state ON participation(state);
"""
_COLUMNS = "p.id, p.task_id, p.number, p.digest, p.requestor, p.state, p.consent, p.rule, p.accepted_at, p.due_at"
_SELECT = (
    f"SELECT {_COLUMNS}, p.result, p.note, d.body, s.name FROM participation p "  # noqa: S608
    "JOIN document d ON d.digest = p.digest JOIN slot s ON s.task_id = p.task_id "
)


@dataclass(frozen=True, slots=True)
class Membership:
    """One epoch of a group that this home has begun to join, or has joined."""

    name: str
    epoch: str
    pin: str  #: the digest of the group's parameters; never changes
    enrolled: bool  #: False while only the enrolment's request is there
    leaf: str  #: what stands in the published list for this home
    sealed: bytes  #: the enrolment, then the credential, under the home's key
    record: str | None = None  #: the published record, once it was checked


class TaskStore:
    """The task store of one home. Safe to share between threads of one process; one process at a time holds a home."""

    def __init__(self, path: Path, seal: Seal) -> None:
        self._seal = seal
        self._lock = threading.RLock()
        self._documents: dict[str, PeopleDocument] = {}
        self._db = opened(path, _TABLES, foreign_keys=True)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @property
    def changes(self) -> int:
        """The number of changes since it was opened."""
        with self._lock:
            return self._db.total_changes

    # --- participations -------------------------------------------------------------------------------

    def begin(
        self,
        task_id: str,
        document: PeopleDocument,
        requestor: str,
        new_slot: Callable[[], str],
        state: ParticipationState = ParticipationState.SEEN,
    ) -> Participation:
        """A further participation in a task, not decided yet (or declined)."""

        def work() -> Participation:
            digest = document.digest
            self._db.execute("INSERT OR IGNORE INTO document VALUES (?, ?)", (digest, canonical(document)))
            self._db.execute("INSERT OR IGNORE INTO slot VALUES (?, ?)", (task_id, new_slot()))
            row = self._db.execute(
                "SELECT coalesce(max(number) + 1, 0) FROM participation WHERE task_id = ?", (task_id,)
            )
            number = row.fetchone()[0]
            made = self._db.execute(
                "INSERT INTO participation (task_id, number, digest, requestor, state) VALUES (?, ?, ?, ?, ?)",
                (task_id, number, digest, requestor, str(state)),
            )
            return self.participation(int(made.lastrowid or 0))

        return self._write(work)

    def participation(self, id_: int) -> Participation:
        with self._lock:
            row = self._db.execute(_SELECT + "WHERE p.id = ?", (id_,)).fetchone()
        if row is None:
            raise Fault("the task store has lost a participation")
        return self._read(row)

    def participations(
        self, *, task_id: str | None = None, states: Iterable[ParticipationState] | None = None
    ) -> list[Participation]:
        """All of them in the order they began, or those in a task, in some states."""
        sql, values = _SELECT + "WHERE 1", list[Any]()
        if task_id is not None:
            sql, values = sql + " AND p.task_id = ?", [*values, task_id]
        if states is not None:
            wanted = [str(s) for s in states]
            sql, values = sql + f" AND p.state IN ({','.join('?' * len(wanted))})", [*values, *wanted]
        with self._lock:
            rows = self._db.execute(sql + " ORDER BY p.id", values).fetchall()
        return [self._read(row) for row in rows]

    def move(self, participation: Participation, state: ParticipationState, **fields: Any) -> Participation:
        """Change the state, and some fields with it; `Conflict` when somebody else moved it meanwhile."""
        return self._write(lambda: self._moved(participation, state, fields))

    def agree(self, participation: Participation, consent: str, *, rule: int | None, now: float, due: float) -> None:
        """Write the consent down, before anything is set aside; a retry after a crash finds it."""
        sql = "UPDATE participation SET consent = ?, rule = ?, accepted_at = ?, due_at = ? WHERE id = ? AND state = ?"
        values = (consent, rule, now, due, participation.id, str(participation.state))
        self._write(lambda: self._one(self._db.execute(sql, values)))

    def disagree(self, participation: Participation) -> None:
        """Take a consent back that could not be paid for: the participation is as if it had never been agreed to."""

        def work() -> None:
            self._db.execute(
                "DELETE FROM participation WHERE id = ? AND state = ?", (participation.id, str(ParticipationState.SEEN))
            )
            self._db.execute(
                "UPDATE participation SET consent = '', rule = NULL, accepted_at = NULL, due_at = NULL "
                "WHERE id = ? AND state = ?",
                (participation.id, str(ParticipationState.DECLINED)),
            )

        self._write(work)

    def note(self, participation: Participation, note: str, result: Mapping[str, Any] | None = None) -> None:
        """Keep what the person is told, without a change of state."""
        kept = None if result is None else json.dumps(result)
        sql = "UPDATE participation SET note = ?, result = coalesce(?, result) WHERE id = ?"
        self._write(lambda: self._db.execute(sql, (note, kept, participation.id)))

    # --- what is sent -----------------------------------------------------------------------------------

    def keep(self, participation: Participation, sending: Sending) -> Participation:
        """Store the exact bytes and move to COMPUTED in one step."""
        sealed = self._seal.close(sending.body, _context(participation, sending.part))

        def work() -> Participation:
            self._db.execute(
                "INSERT INTO sending VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
                (
                    participation.id,
                    sending.part,
                    sending.ask_id,
                    sealed,
                    sending.media_type,
                    str(sending.epsilon),
                    str(sending.delta),
                ),
            )
            return self._moved(participation, ParticipationState.COMPUTED, {})

        return self._write(work)

    def receipts(self, participation: Participation) -> list[str]:
        """One for each packet that arrived, oldest first; no stored bytes are opened for it."""
        sql = "SELECT receipt FROM sending WHERE participation = ? AND receipt IS NOT NULL ORDER BY rowid"
        with self._lock:
            return [str(receipt) for (receipt,) in self._db.execute(sql, (participation.id,)).fetchall()]

    def sendings(self, participation: Participation) -> list[Sending]:
        """Its parts, oldest first."""
        sql = "SELECT part, ask_id, body, media_type, epsilon, delta, receipt FROM sending WHERE participation = ? "
        with self._lock:
            rows = self._db.execute(sql + "ORDER BY rowid", (participation.id,)).fetchall()
        found = []
        for part, ask_id, body, media_type, epsilon, delta, receipt in rows:
            opened = self._seal.open(body, _context(participation, part)) if body else b""
            sending = Sending(
                participation.id, part, ask_id, opened, media_type, Decimal(epsilon), Decimal(delta), receipt
            )
            found.append(sending)
        return found

    def drop(self, participation: Participation, state: ParticipationState, **fields: Any) -> Participation:
        """Forget the bytes that wait, and move on in one step."""

        def work() -> Participation:
            if participation.state is ParticipationState.SENDING:  # that this part was answered is still good to know
                self._db.execute("UPDATE sending SET body = x'' WHERE participation = ?", (participation.id,))
            else:
                self._db.execute("DELETE FROM sending WHERE participation = ? AND receipt IS NULL", (participation.id,))
            return self._moved(participation, state, fields)

        return self._write(work)

    def received(self, participation: Participation, sending: Sending, receipt: str) -> Participation:
        """Keep the receipt, forget the bytes, move to SENT."""

        def work() -> Participation:
            sql = "UPDATE sending SET receipt = ?, body = x'' WHERE participation = ? AND part = ?"
            self._db.execute(sql, (receipt, participation.id, sending.part))
            return self._moved(participation, ParticipationState.SENT, {})

        return self._write(work)

    def turn(self, participation: Participation) -> int:
        """Count the earlier participations in its task that have answered something, or begun to."""
        sql = (
            "SELECT count(DISTINCT p.id) FROM sending s JOIN participation p ON p.id = s.participation "
            "WHERE p.task_id = ? AND p.number < ?"
        )
        with self._lock:
            return int(self._db.execute(sql, (participation.task_id, participation.number)).fetchone()[0])

    def parts_of(self, task_id: str) -> set[str]:
        """Every part of a task that was answered, or is being answered, in any participation."""
        sql = "SELECT part FROM sending s JOIN participation p ON p.id = s.participation WHERE p.task_id = ?"
        with self._lock:
            return {row[0] for row in self._db.execute(sql, (task_id,))}

    # --- the coordinator's list, standing rules, facts ----------------------------------------------------

    def listed(self) -> dict[str, str]:
        """Return task id -> digest, as the signed list said."""
        with self._lock:
            return dict(self._db.execute("SELECT task_id, digest FROM listed").fetchall())

    def seen(self) -> Seen:
        """Return how far the list was read."""
        value = self.fact("seen")
        return Seen(**json.loads(value)) if value else Seen()

    def read_on(self, entries: Iterable[TaskLogEntry], seen: Seen) -> None:
        """Take in further entries of the list. A name that was listed with another digest is refused."""

        def work() -> None:
            for entry in entries:
                self._db.execute("INSERT OR IGNORE INTO listed VALUES (?, ?)", (entry.task_id, entry.digest))
                asked = self._db.execute("SELECT digest FROM listed WHERE task_id = ?", (entry.task_id,))
                if asked.fetchone() != (entry.digest,):
                    raise BrokenLog(f"the task list names {entry.task_id} twice; ask the server's operator")
            self._set("seen", json.dumps({"length": seen.length, "head": seen.head}))

        self._write(work)

    def note_keys(self, keys: Iterable[str], now: float) -> None:
        """Remember that these keys of the list gave way; of one that is known already the first moment stays."""
        known = dict(self.earlier_keys())
        for key in keys:
            known.setdefault(key, now)
        self.set_fact("earlier keys", json.dumps(list(known.items())))

    def earlier_keys(self) -> list[tuple[str, float]]:
        """The keys of the list that gave way, oldest first, and when that was noticed here."""
        return [(key, moment) for key, moment in json.loads(self.fact("earlier keys") or "[]")]

    def fact(self, name: str) -> str | None:
        with self._lock:
            row = self._db.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def set_fact(self, name: str, value: str) -> None:
        self._write(lambda: self._set(name, value))

    def rules(self) -> list[tuple[int, dict[str, Any]]]:
        """The standing rules in force, oldest first."""
        with self._lock:
            rows = self._db.execute("SELECT id, body FROM rule WHERE active = 1 ORDER BY id").fetchall()
        return [(number, json.loads(body)) for number, body in rows]

    def set_rules(self, rules: Iterable[Mapping[str, Any]]) -> None:
        """Replace the rules. A rule that stays as it was keeps its number, and with it what it has spent."""
        wanted = [json.dumps(dict(rule), sort_keys=True) for rule in rules]

        def work() -> None:
            self._db.execute("UPDATE rule SET active = 0")
            for body in dict.fromkeys(wanted):
                changed = self._db.execute("UPDATE rule SET active = 1 WHERE body = ?", (body,))
                if changed.rowcount == 0:
                    self._db.execute("INSERT INTO rule (body, active) VALUES (?, 1)", (body,))

        self._write(work)

    def tossed(self, rule: int, task_id: str, toss: Callable[[], bool]) -> bool:
        """The coin of a rule for a task: tossed once, the same ever after."""

        def work() -> bool:
            row = self._db.execute("SELECT yes FROM toss WHERE rule = ? AND task_id = ?", (rule, task_id)).fetchone()
            if row is not None:
                return bool(row[0])
            yes = toss()
            self._db.execute("INSERT INTO toss VALUES (?, ?, ?)", (rule, task_id, int(yes)))
            return yes

        return self._write(work)

    # --- groups -------------------------------------------------------------------------------------------

    def membership(self, name: str, epoch: str) -> Membership | None:
        return next((m for m in self.memberships() if (m.name, m.epoch) == (name, epoch)), None)

    def memberships(self) -> list[Membership]:
        """Every group that was joined, or begun to be."""
        sql = "SELECT name, epoch, pin, enrolled, leaf, sealed, record FROM membership ORDER BY name, epoch"
        with self._lock:
            rows = self._db.execute(sql).fetchall()
        return [Membership(row[0], row[1], row[2], bool(row[3]), row[4], row[5], row[6]) for row in rows]

    def keep_membership(self, membership: Membership) -> None:
        """Write an enrolment down, or the credential in its place."""
        m = membership
        values = (m.name, m.epoch, m.pin, int(m.enrolled), m.leaf, m.sealed, m.record)
        sql = "INSERT OR REPLACE INTO membership VALUES (?, ?, ?, ?, ?, ?, ?)"
        self._write(lambda: self._db.execute(sql, values))

    def keep_record(self, membership: Membership, record: str) -> None:
        """The published record, which never changes."""
        sql = "UPDATE membership SET record = ? WHERE name = ? AND epoch = ?"
        self._write(lambda: self._db.execute(sql, (record, membership.name, membership.epoch)))

    # --- inside -------------------------------------------------------------------------------------------

    def _write(self, work: Callable[[], T]) -> T:
        with self._lock:
            if self._db.in_transaction:
                return work()
            return whole(self._db, work)

    def _moved(
        self, participation: Participation, state: ParticipationState, fields: Mapping[str, Any]
    ) -> Participation:
        if state not in AFTER[participation.state]:
            raise Fault(f"a participation cannot go from {participation.state} to {state}")
        values: dict[str, Any] = {"state": str(state), "note": "", **fields}
        if values.get("result") is not None:
            values["result"] = json.dumps(values["result"])
        columns = ", ".join(f"{name} = ?" for name in values)
        sql = f"UPDATE participation SET {columns} WHERE id = ? AND state = ?"  # noqa: S608 (names are ours)
        self._one(self._db.execute(sql, [*values.values(), participation.id, str(participation.state)]))
        return self.participation(participation.id)

    def _one(self, done: sqlite3.Cursor) -> None:
        if done.rowcount != 1:
            raise Conflict("this participation has moved on meanwhile; look at it again")

    def _set(self, name: str, value: str) -> None:
        self._db.execute(
            "INSERT INTO fact VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = ?", (name, value, value)
        )

    def _read(self, row: tuple[Any, ...]) -> Participation:
        id_, task_id, number, digest, requestor, state, consent, rule, accepted, due, result, note, body, slot = row
        if digest not in self._documents:
            document = registry.accepted_earlier(json.loads(body))
            assert isinstance(document, PeopleDocument)  # noqa: S101
            self._documents[digest] = document
        return Participation(
            id_, task_id, number, digest, self._documents[digest], requestor, slot, ParticipationState(state), consent,
            rule, accepted, due, None if result is None else json.loads(result), note,
        )  # fmt: skip


def _context(participation: Participation, part: str) -> bytes:
    return json.dumps([participation.task_id, participation.number, part]).encode()
