"""The delivery of one run of a collector: rows, and how far the collector has come, accepted as one or not at all.

What must stay true: parts that came before the last one show nowhere; the rows and the state that stands for them are
written in one transaction, so that whoever is killed, nothing is lost and nothing is stored twice; the same delivery
again changes nothing; a row whose key was accepted before is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import apsw

from thebes.data.store.declaration import MOST_RELEASE, Table
from thebes.data.store.values import cells
from thebes.data.store.vault import quoted
from thebes.privacy.faults import Mistake, Refusal

LARGEST_STATE = 2**20  #: characters, as JSON
ID, KEY = r"^[0-9a-f]{32}$", r"^[0-9a-f]{32}$"

TABLES = (
    "CREATE TABLE IF NOT EXISTS thebes_progress (number INTEGER PRIMARY KEY, delivery TEXT NOT NULL, "
    "release INTEGER NOT NULL, state TEXT NOT NULL, inserted INTEGER NOT NULL, known INTEGER NOT NULL, "
    "at TEXT NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS thebes_staged (part INTEGER PRIMARY KEY, delivery TEXT NOT NULL, "
    "body TEXT NOT NULL) STRICT",
    "CREATE TABLE IF NOT EXISTS thebes_known (name TEXT NOT NULL, key BLOB NOT NULL, "
    "PRIMARY KEY (name, key)) STRICT, WITHOUT ROWID",
)

Tables = Callable[[str], Table]
"""name -> the declared table, or a Mistake"""
Rows = Mapping[str, Sequence[Any]]
Keys = Mapping[str, Sequence[str]]


class Overtaken(Refusal):
    """Another run of the same collector delivered meanwhile; this one begins again from the state that is held now."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One part of a delivery. `after` is the number of the delivery it builds on; `state` comes with the last part."""

    delivery: str
    after: int
    part: int
    rows: Rows
    keys: Keys
    last: bool
    release: int
    state: str


@dataclass(frozen=True, slots=True)
class DeliveryProgress:
    """The last accepted delivery of a collector; number 0 before the first."""

    number: int = 0
    delivery: str = ""
    release: int = 0
    state: Any = None
    inserted: int = 0
    known: int = 0
    at: str | None = None

    def plain(self) -> dict[str, Any]:
        return {"number": self.number, "release": self.release, "state": self.state, "at": self.at}

    def receipt(self) -> dict[str, int]:
        return {"number": self.number, "inserted": self.inserted, "known": self.known}


def read_delivery(body: object) -> Delivery:
    """One part as it came, or a Mistake that names what is wrong with it."""
    fields = {"delivery", "after", "part", "rows", "keys", "last", "release", "state"}
    if not isinstance(body, Mapping) or not {"delivery", "after", "part", "rows"} <= set(body) <= fields:
        raise Mistake("delivery", f"must be an object of {', '.join(sorted(fields))}")
    if not isinstance(body["delivery"], str) or re.fullmatch(ID, body["delivery"], re.ASCII) is None:
        raise Mistake("delivery", "must be 32 hexadecimal digits")
    last = body.get("last", False)
    if not isinstance(last, bool):
        raise Mistake("last", "must be true or false")
    rows = _lists("rows", body["rows"])
    keys = _lists("keys", body.get("keys", {}))
    for name, given in keys.items():
        if name not in rows or len(given) != len(rows[name]):
            raise Mistake("keys", "must name tables of `rows`, with one key for each row")
        if not all(isinstance(key, str) and re.fullmatch(KEY, key, re.ASCII) for key in given):
            raise Mistake("keys", "must be 32 hexadecimal digits each")
    return Delivery(
        delivery=body["delivery"],
        after=_whole("after", body["after"], 2**53),
        part=_whole("part", body["part"], 2**31),
        rows=rows,
        keys=keys,
        last=last,
        release=_whole("release", body.get("release", 0), MOST_RELEASE),
        state=_state(body.get("state"), last=last),
    )


class DeliveryDesk:
    """The place at which the deliveries of one collector are taken. The caller holds the transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def progress(self) -> DeliveryProgress:
        found = self._connection.execute(
            "SELECT number, delivery, release, state, inserted, known, at FROM thebes_progress"
        ).fetchone()
        if found is None:
            return DeliveryProgress()
        number, delivery, release, state, inserted, known, at = found
        counts = int(number), int(release), int(inserted), int(known)
        return DeliveryProgress(counts[0], str(delivery), counts[1], json.loads(str(state)), *counts[2:], str(at))

    def take(self, delivery: Delivery, table: Tables) -> dict[str, int]:
        held = self.progress()
        if held.delivery == delivery.delivery:
            return held.receipt()
        if held.number != delivery.after:
            raise Overtaken("another run of this collector delivered meanwhile; begin again")
        if delivery.part == 0:
            self._connection.execute("DELETE FROM thebes_staged")
        owners = [str(owner) for (owner,) in self._connection.execute("SELECT delivery FROM thebes_staged")]
        staged = len(owners)
        if set(owners) - {delivery.delivery} or delivery.part > staged:
            raise Overtaken("parts of this delivery are missing, or another run began one; begin again")
        if delivery.part < staged:
            return held.receipt()
        for name, rows in delivery.rows.items():
            cells(table(name), rows)
        if not delivery.last:
            body = json.dumps({"rows": delivery.rows, "keys": delivery.keys})
            self._connection.execute("INSERT INTO thebes_staged VALUES (?, ?, ?)", (staged, delivery.delivery, body))
            return held.receipt()
        return self._accept(delivery, held.number + 1, table)

    def _accept(self, delivery: Delivery, number: int, table: Tables) -> dict[str, int]:
        inserted = known = 0
        for rows, keys in self._parts(delivery):
            for name, given in rows.items():
                declared = table(name)
                fresh = self._fresh(declared, cells(declared, given), keys.get(name))
                columns = ", ".join(quoted(column.name) for column in declared.columns)
                marks = ", ".join("?" for _ in declared.columns)
                self._connection.executemany(
                    f"INSERT INTO {quoted(declared.name)} ({columns}) VALUES ({marks})",  # noqa: S608
                    fresh,
                )
                inserted += len(fresh)
                known += len(given) - len(fresh)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        self._connection.execute("DELETE FROM thebes_staged")
        self._connection.execute("DELETE FROM thebes_progress")
        self._connection.execute(
            "INSERT INTO thebes_progress VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, delivery.delivery, delivery.release, delivery.state, inserted, known, at),
        )
        return {"number": number, "inserted": inserted, "known": known}

    def _parts(self, delivery: Delivery) -> Iterator[tuple[Rows, Keys]]:
        for part in range(delivery.part):
            found = self._connection.execute("SELECT body FROM thebes_staged WHERE part = ?", (part,)).get
            body = json.loads(str(found))
            yield body["rows"], body["keys"]
        yield delivery.rows, delivery.keys

    def _fresh(self, table: Table, rows: list[Any], keys: Sequence[str] | None) -> list[Any]:
        """The rows whose key was not seen before; the keys are seen from now on."""
        if keys is None:
            return rows
        name, fresh = table.name.lower(), []
        for row, key in zip(rows, keys, strict=True):
            self._connection.execute("INSERT OR IGNORE INTO thebes_known VALUES (?, ?)", (name, bytes.fromhex(key)))
            if self._connection.changes() == 1:
                fresh.append(row)
        return fresh


def _lists(argument: str, value: object) -> dict[str, Sequence[Any]]:
    if not isinstance(value, Mapping) or not all(
        isinstance(name, str) and isinstance(each, Sequence) and not isinstance(each, (str, bytes))
        for name, each in value.items()
    ):
        raise Mistake(argument, "must be an object whose keys are tables and whose values are lists")
    return dict(value)


def _whole(argument: str, value: object, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise Mistake(argument, f"must be a whole number from 0 to {most}")
    return value


def _state(state: object, *, last: bool) -> str:
    if not last:
        return "null" if state is None else _no_state()
    try:
        text = json.dumps(state if state is not None else {}, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise Mistake("state", "must be a JSON object") from None
    if not isinstance(state, (Mapping, type(None))) or len(text) > LARGEST_STATE:
        raise Mistake("state", f"must be a JSON object of at most {LARGEST_STATE} characters")
    return text


def _no_state() -> str:
    raise Mistake("state", "comes with the last part")
