"""One run of a collector: the rows it inserts and the state it leaves travel in parts and count as one.

What must stay true: nothing of a run is stored unless all of it is, together with the state; an answer that was lost
is asked for again with the same bytes; the key of a row is a digest, so that it says nothing the row does not say.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from datetime import time as daytime
from decimal import Decimal
from typing import Any, Protocol

from thebes.collectors.declaration import State
from thebes.privacy.faults import Mistake
from thebes.wire.refusals import Unreachable

ROWS_IN_PART, CHARACTERS_IN_PART = 5_000, 4_000_000
RETRIES, PAUSE_SECONDS = 3, 0.2


class Receiver(Protocol):
    """The receiver of rows: the `thebes person` that holds the home."""

    def register(self, app: str, tables: Mapping[str, Any], /) -> int: ...
    def deliver(self, app: str, delivery: Mapping[str, Any], /) -> dict[str, int]: ...
    def progress(self, app: str, /) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run: rows that were new, rows whose key was known already, and what was read and is no row, by
    reason."""

    inserted: int = 0
    known: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)


class Session:
    """Given to `collect`. `options` are what the person set; `state` is what the last run left, to change freely."""

    def __init__(
        self,
        home: Receiver,
        app: str,
        *,
        release: int,
        number: int,
        state: State,
        options: Mapping[str, Any],
        sent: Callable[[int], None] | None = None,
    ) -> None:
        self._told, self._sent = sent, 0
        self.app = app
        self.options = options
        self.state = state
        self.outcome = Outcome()
        self._home, self._release, self._number = home, release, number
        self._left_out: Counter[str] = Counter()
        self._begin()

    @property
    def now(self) -> datetime:
        """The time, in UTC."""
        return datetime.now(UTC)

    def insert(self, table: str, row: Mapping[str, Any], *, key: object = None) -> None:
        """One row for a declared table. With a `key` (anything that JSON can hold) it is stored once only, ever."""
        plain = {str(column): _plain(value) for column, value in row.items()}
        if table in self._rows and (key is None) == (table in self._keys):
            raise Mistake("key", f"rows of {table!r} have either all a key or none in one run")
        self._rows.setdefault(table, []).append(plain)
        if key is not None:
            self._keys.setdefault(table, []).append(digest(key))
        self._count += 1
        self._characters += sum(len(value) if isinstance(value, str) else 8 for value in plain.values())
        if self._count >= ROWS_IN_PART or self._characters >= CHARACTERS_IN_PART:
            self._send(last=False)

    def leave_out(self, reason: str, times: int = 1) -> None:
        """Something was read and is not inserted. How often, and for which `reason`, is told at the end: nothing that
        was there vanishes without a word. The reason never says what stood there."""
        self._left_out[reason] += times

    def save(self) -> Outcome:
        """Everything inserted so far, and the state as it is now, are stored as one. Comes by itself at the end."""
        receipt = self._send(last=True)
        self._number = receipt["number"]
        new = Outcome(receipt["inserted"], receipt["known"], dict(self._left_out))
        together = Counter(self.outcome.left_out) + self._left_out
        self.outcome = Outcome(self.outcome.inserted + new.inserted, self.outcome.known + new.known, dict(together))
        self._left_out.clear()
        self._begin()
        return new

    def _begin(self) -> None:
        self._delivery, self._part = secrets.token_hex(16), 0
        self._clear()

    def _clear(self) -> None:
        self._rows: dict[str, list[Any]] = {}
        self._keys: dict[str, list[str]] = {}
        self._count = self._characters = 0

    def _send(self, *, last: bool) -> dict[str, int]:
        body: dict[str, Any] = {
            "delivery": self._delivery,
            "after": self._number,
            "part": self._part,
            "rows": self._rows,
            "keys": self._keys,
        }
        if last:
            body |= {"last": True, "release": self._release, "state": self.state}
        for left in range(RETRIES - 1, -1, -1):
            try:
                receipt = self._home.deliver(self.app, body)
                break
            except Unreachable:
                if not left:
                    raise
                time.sleep(PAUSE_SECONDS)
        self._part += 1
        self._sent += self._count
        if self._told is not None:
            self._told(self._sent)
        self._clear()
        return receipt


def digest(key: object) -> str:
    """Return what is kept of a row's key: 128 bits that stand for it."""
    text = json.dumps(_plain(key), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    """A value as JSON holds it; times in UTC."""
    if isinstance(value, datetime):
        moment = value.astimezone(UTC) if value.tzinfo is not None else value
        return moment.replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, (date, daytime)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value) if value.is_finite() else None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    raise Mistake("rows", f"hold a value of type {type(value).__name__}; use numbers, text, truth values and times")
