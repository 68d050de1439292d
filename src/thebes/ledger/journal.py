"""The journal: every change of a ledger as one entry, each entry holding the hash of the one before.

What must stay true: an entry is never changed or removed; its hash is SHA-256 over its canonical JSON
(RFC 8785: keys sorted, no spaces, UTF-8; amounts are strings of whole steps, so no number is a float).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from thebes.privacy.faults import Mistake

#: What the first entry names as the one before it.
BEGINNING = "0" * 64

_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


@dataclass(frozen=True, slots=True)
class Head:
    """The length of the journal and the hash of its last entry: whoever remembers it notices any later rewriting."""

    length: int
    hash: str

    def __str__(self) -> str:
        return f"{self.length}:{self.hash}"

    @classmethod
    def read(cls, text: str) -> Head:
        """Read a head as `thebes ledger show` prints it."""
        length, _, digest = text.partition(":")
        if not length.isascii() or not length.isdigit() or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
            raise Mistake("head", "must read LENGTH:HASH, as `thebes ledger show` prints it")
        return cls(int(length), digest)


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One change: its number (from 1), when, what happened, and the facts that a replay needs."""

    number: int
    at: str
    event: str
    facts: dict[str, Any]
    hash: str


def canonical(value: Any) -> str:
    """The one spelling of a value made of objects, arrays, strings, whole numbers, booleans and null."""
    return _canonical(value)


def _digest(body: str) -> str:
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


def written(after: Head, at: str, event: str, facts: dict[str, Any]) -> tuple[str, Head]:
    """The text of the entry that follows `after`, and the new head."""
    body = _canonical({"at": at, "event": event, "facts": facts, "number": after.length + 1, "previous": after.hash})
    return body, Head(after.length + 1, _digest(body))


def read(rows: Iterable[tuple[int, str, str]]) -> Iterator[JournalEntry]:
    """Stored rows (number, body, hash) as entries; hashes are not checked here."""
    for number, body, digest in rows:
        fields = json.loads(body)
        yield JournalEntry(number, fields["at"], fields["event"], fields["facts"], digest)


def chain_findings(rows: Iterable[tuple[int, str, str]], head: Head, known: Iterable[Head]) -> Iterator[str]:
    """Every break of the chain, as sentences: altered, removed, reordered entries; a head that does not fit.

    `known` are heads remembered outside the ledger: a chain that was recomputed from some entry on is whole
    in itself and differs from them.
    """
    remembered: dict[int, set[str]] = {}
    for one in known:
        remembered.setdefault(one.length, set()).add(one.hash)
    if not isinstance(head.length, int):  # SQLite keeps whatever is put into a column
        yield "the head does not say how long the journal is"
        return
    last, previous = 0, BEGINNING
    for number, body, digest in rows:
        if number != last + 1:
            missing = f"entry {last + 1} is" if number == last + 2 else f"entries {last + 1} to {number - 1} are"
            yield f"{missing} missing from the journal"
        if not isinstance(body, str) or _digest(body) != digest:
            yield f"entry {number} was altered: its text does not have its hash"
        try:
            fields = json.loads(body)
            says, follows = fields["number"], fields["previous"]
        except (ValueError, TypeError, KeyError):
            yield f"entry {number} cannot be read"
        else:
            if says != number:
                yield f"entry {number} was moved: it was written as entry {says}"
            if follows != previous and number == last + 1:
                yield f"entry {number} does not follow the entry before it"
        if any(other != digest for other in remembered.pop(number, ())):
            yield f"entry {number} is not the one that was remembered outside the ledger: the journal was rewritten"
        last, previous = number, digest
    if last < head.length:
        yield f"the journal ends with entry {last}, the head says {head.length}: its last entries were removed"
    elif last > head.length or previous != head.hash:
        yield f"the journal ends with entry {last}, which is not the one the head records"
    for length in sorted(remembered):
        if length > last:
            yield f"the head remembered outside the ledger is entry {length}, the journal ends with {last}: rolled back"
