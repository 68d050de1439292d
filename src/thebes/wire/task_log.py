"""The signed, append-only list of tasks and releases: everybody sees the same in the same order, or can prove it not.

Each entry's hash covers the one before it, and the server signs the newest hash with the length of the list. A
person pins the key at first contact and remembers how far they read; a list that forgot, changed or reordered
anything since then is refused. A key that gives way to another names it in the list and signs that, or nobody follows.
No name is listed twice. It does not show that a task was kept out of the list.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from thebes.wire.refusals import BrokenLog

START = "0" * 64  #: what stands before the first entry
_SIGNED = b"thebes task list 1\0"
_SUCCEEDED = b"thebes task list key 1\0"
_KEY = "key~"
_ENTRY = b"thebes task list entry 1\0"
_HEX = re.compile(r"[0-9a-f]{64}")
_TASK = re.compile(r"[A-Za-z0-9._~-]{1,200}")


@dataclass(frozen=True, slots=True)
class TaskLogEntry:
    """One task in the list: its place, its id, its document's digest, and the chain."""

    index: int
    task_id: str
    digest: str
    previous: str
    hash: str

    @classmethod
    def after(cls, last: TaskLogEntry | None, task_id: str, digest: str) -> TaskLogEntry:
        """The entry that follows `last` (None: the first one)."""
        index, previous = (0, START) if last is None else (last.index + 1, last.hash)
        return cls(index, task_id, digest, previous, hash_of(index, task_id, digest, previous))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Seen:
    """The place up to which a reader has read a list: `length` entries, the last of them with the hash `head`."""

    length: int = 0
    head: str = START


@dataclass(frozen=True, slots=True)
class Succession:
    """That a key gives way to the `next` one: the list had `length` entries then, of which the newest, with the hash
    `head`, names the next key. Signed by the key that gives way."""

    key: str
    next: str
    length: int
    head: str
    signature: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Verified:
    """A list that holds together: `entries` are those that were sent, `seen` is where to go on next time. `earlier` are
    the keys, beginning with the pinned one, that gave way on the way to `key`."""

    key: str
    entries: tuple[TaskLogEntry, ...]
    seen: Seen
    earlier: tuple[str, ...] = ()

    def holds(self, task_id: str, digest: str) -> bool:
        """Return whether the list names this task with exactly this document."""
        return any(entry.task_id == task_id and entry.digest == digest for entry in self.entries)


def hash_of(index: int, task_id: str, digest: str, previous: str) -> str:
    """Every field has a fixed length but the id, which comes last: no two entries share their bytes."""
    body = index.to_bytes(8, "big") + bytes.fromhex(previous) + bytes.fromhex(digest) + task_id.encode()
    return hashlib.sha256(_ENTRY + body).hexdigest()


def new_key() -> bytes:
    """A new private key, 32 raw bytes, for a server to keep."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


def public_key(private: bytes) -> str:
    """The base64 public half of a private key."""
    return _base64(Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw())


def fingerprint(key: str) -> str:
    """Hex SHA-256 of a public key, by which people compare it."""
    return hashlib.sha256(_bytes(key)).hexdigest()


def listed_successor(key: str) -> str:
    """Under which name a further public key stands in the list; its digest there is its fingerprint."""
    return f"{_KEY}{_bytes(key).hex()}"


def succession(private: bytes, successor: bytes, entry: TaskLogEntry) -> Succession:
    """Sign what the key that gives way says last, once `entry` names its successor."""
    key, following, seen = public_key(private), public_key(successor), Seen(entry.index + 1, entry.hash)
    signature = Ed25519PrivateKey.from_private_bytes(private).sign(_handing_over(following, seen))
    return Succession(key, following, seen.length, seen.head, _base64(signature))


def sign(private: bytes, seen: Seen) -> str:
    """A base64 signature of a list of that length with that head."""
    return _base64(Ed25519PrivateKey.from_private_bytes(private).sign(_statement(seen)))


def published(
    private: bytes, entries: Sequence[TaskLogEntry], *, after: int = 0, successions: Sequence[Succession] = ()
) -> dict[str, Any]:
    """The body of `GET /api/log?after=N` for the list `entries`, whole or its end; readers leave out the first N they
    know."""
    seen = Seen(entries[-1].index + 1, entries[-1].hash) if entries else Seen()
    return {
        "key": public_key(private),
        "entries": [entry.as_json() for entry in entries[after:]],
        "head": seen.head,
        "signature": sign(private, seen),
        "successions": [each.as_json() for each in successions],
    }


def verify(body: object, *, key: str | None = None, seen: Seen | None = None) -> Verified:
    """Check a list against the pinned `key` (None: first contact, pin `.key` of what comes back) and against how
    far it was `seen` before. The entries may start at 0 or right after what was seen. Another key than the pinned one
    is believed where that gave way to it, over as many keys as it may be, in entries that were sent here."""
    if not isinstance(body, Mapping):
        raise BrokenLog("the task list is not one")
    named = body.get("key")
    before = seen or Seen()
    entries = _entries(body.get("entries"))
    reached = _chained(entries, before)
    if body.get("head") != reached.head:
        raise BrokenLog("the task list does not end with the head it names")
    _signed(named, body.get("signature"), reached)
    earlier = () if key is None or named == key else _followed(key, str(named), body.get("successions"), entries)
    return Verified(str(named), entries, reached, earlier)


def _followed(pinned: str, named: str, told: object, entries: tuple[TaskLogEntry, ...]) -> tuple[str, ...]:
    """The keys from the pinned one on, each of which gave way to the next, up to the one that is named."""
    steps = _successions(told)
    listed = {entry.index: entry for entry in entries}
    earlier, key = list[str](), pinned
    while key != named:
        step = steps.pop(key, None)  # none serves twice: there are no circles
        if step is None:
            raise BrokenLog(
                "the task list is signed with another key than the one seen first, which did not sign that one; "
                "ask the server's operator"
            )
        entry = listed.get(step.length - 1)
        try:
            right = (listed_successor(step.next), fingerprint(step.next), step.head)
            if entry is None or (entry.task_id, entry.digest, entry.hash) != right:
                raise BrokenLog("the task list does not name the key that it is signed with")
            verifier = Ed25519PublicKey.from_public_bytes(_bytes(step.key))
            verifier.verify(_bytes(step.signature), _handing_over(step.next, Seen(step.length, step.head)))
        except (ValueError, InvalidSignature):
            raise BrokenLog("the key of the task list was not signed by the one before it") from None
        earlier.append(key)
        key = step.next
    return tuple(earlier)


def _successions(told: object) -> dict[str, Succession]:
    found: dict[str, Succession] = {}
    for row in told if isinstance(told, list) else ():
        step: Mapping[str, Any] = row if isinstance(row, Mapping) else {}
        texts = [step.get(name) for name in ("key", "next", "head", "signature")]
        length = step.get("length")
        if type(length) is not int or not 0 < length < 2**63 or not all(isinstance(text, str) for text in texts):
            raise BrokenLog("the task list tells of a key's successor in a way that cannot be read")
        if not _HEX.fullmatch(str(step["head"])):
            raise BrokenLog("the task list tells of a key's successor in a way that cannot be read")
        found.setdefault(step["key"], Succession(step["key"], step["next"], length, step["head"], step["signature"]))
    return found


def _chained(entries: tuple[TaskLogEntry, ...], before: Seen) -> Seen:
    """Follow the chain; where it starts again at 0 it must pass through what was seen before."""
    start = before if entries and entries[0].index == before.length else Seen()
    if not entries:
        return before
    length, head = start.length, start.head
    if length == before.length and head != before.head:
        raise BrokenLog("the task list does not go on from what was seen before")
    for entry in entries:
        if entry.index != length or entry.previous != head or entry.hash != _hash(entry):
            raise BrokenLog(f"the task list is broken at entry {length}")
        length, head = length + 1, entry.hash
        if length == before.length and head != before.head:
            raise BrokenLog("the task list was changed since it was seen before")
    if length < before.length:
        raise BrokenLog("the task list is shorter than when it was seen before")
    return Seen(length, head)


def _hash(entry: TaskLogEntry) -> str:
    return hash_of(entry.index, entry.task_id, entry.digest, entry.previous)


def _entries(listed: object) -> tuple[TaskLogEntry, ...]:
    if not isinstance(listed, list):
        raise BrokenLog("the task list has no entries")
    found = tuple(_entry(row, place) for place, row in enumerate(listed))
    names = set[str]()
    for entry in found:
        if entry.task_id in names:  # two readers could each be shown another one of them
            raise BrokenLog(f"the task list names {entry.task_id} twice; ask the server's operator")
        names.add(entry.task_id)
    return found


def _entry(row: object, place: int) -> TaskLogEntry:
    told: Mapping[str, Any] = row if isinstance(row, Mapping) else {}
    index, task_id = told.get("index"), told.get("task_id")
    hashes = [told.get(name) for name in ("digest", "previous", "hash")]
    if type(index) is not int or not 0 <= index < 2**63:
        raise BrokenLog(f"entry {place} of the task list has no index")
    if not isinstance(task_id, str) or not _TASK.fullmatch(task_id):
        raise BrokenLog(f"entry {place} of the task list has no task id")
    if not all(isinstance(text, str) and _HEX.fullmatch(text) for text in hashes):
        raise BrokenLog(f"entry {place} of the task list has no hashes")
    digest, previous, hash_ = (str(text) for text in hashes)
    return TaskLogEntry(index, task_id, digest, previous, hash_)


def _signed(key: object, signature: object, seen: Seen) -> None:
    try:
        verifier = Ed25519PublicKey.from_public_bytes(_bytes(key))
        verifier.verify(_bytes(signature), _statement(seen))
    except (ValueError, InvalidSignature):
        raise BrokenLog("the task list is not signed by the key it names") from None


def _statement(seen: Seen) -> bytes:
    return _SIGNED + bytes.fromhex(seen.head) + seen.length.to_bytes(8, "big")


def _handing_over(following: str, seen: Seen) -> bytes:
    """The next key in 32 bytes, or a ValueError: no two of these share their bytes, nor one with a list's."""
    raw = _bytes(following)
    if len(raw) != 32:
        raise ValueError("must be a key")
    return _SUCCEEDED + raw + bytes.fromhex(seen.head) + seen.length.to_bytes(8, "big")


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _bytes(value: object) -> bytes:
    if not isinstance(value, str):
        raise ValueError("must be base64 text")
    return base64.b64decode(value, validate=True)
