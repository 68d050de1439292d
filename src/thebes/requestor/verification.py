"""The check of a record: whether a coordinator published this release, for this document, with this certificate.

What must stay true: nothing of a record counts before the signed list does; whose key signed it is never left unsaid;
what does not fit is named. A signature shows who published what, and not that it was computed rightly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from thebes.requestor.certificate_check import checked
from thebes.requestor.known_keys import KnownKey, KnownKeys
from thebes.wire import list_pin, task_log
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import BrokenLog, BrokenRecord, Unsigned
from thebes.wire.release_record import ReleaseRecord, is_release, listed_release
from thebes.wire.task_log import Seen, TaskLogEntry, Verified


class Trust(StrEnum):
    """The reason to believe that a key is the coordinator's."""

    GIVEN = "given"  #: its fingerprint was said
    KNOWN = "known"  #: this user has met the coordinator under it before
    FIRST_USE = "first use"  #: none but that the list came from there, just now


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of a check in which everything fits. `entry` is the place of the release in the list, `compared` says
    with which list the record's own was compared. `notes` say what could not be checked, or came later."""

    task_id: str
    phase: int
    digest: str
    entry: int
    fingerprint: str
    trust: Trust
    coordinator: str | None
    compared: str
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "verified": True,
            **{name: getattr(self, name) for name in self.__slots__ if name not in ("trust", "notes")},
            "trust": str(self.trust),
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        whose = "" if self.coordinator is None else f" of {self.coordinator}"
        key = {
            Trust.GIVEN: f"The key{whose} is the one whose fingerprint was given.",
            Trust.KNOWN: f"The key is the one under which {self.coordinator} is known here.",
            Trust.FIRST_USE: f"The key{whose} was seen here for the first time, so all of this rests on that. "
            f"Compare its fingerprint with the operator by another way: {self.fingerprint}",
        }[self.trust]
        return "\n".join(
            [
                f"Signed: the release of task {self.task_id} is entry {self.entry} of the list, digest {self.digest}.",
                key,
                self.compared,
                *self.notes,
                "It shows who published this and that nothing was changed since; not that it was computed as it says.",
            ]
        )


def verify(
    record: ReleaseRecord,
    *,
    key: str | None = None,
    client: CoordinatorClient | None = None,
    saved: Mapping[str, Any] | None = None,
    known: KnownKeys | None = None,
) -> Verification:
    """Check a record against the signed list: with `client` as the coordinator shows it now, with `saved` as it was
    saved, else the part that the record holds. `key` is the fingerprint of the coordinator's key, or the key itself.

    BrokenRecord or BrokenLog where something does not fit; Unsigned where the list has no release of the task.
    """
    keys = KnownKeys() if known is None else known
    own = _part(record.listed)
    entry = _fits(record, own)
    if client is None and saved is None:
        verified, trust, whose = _by_itself(record, own, key, keys)
        compared = "It was compared with no list but its own: name the coordinator to compare it with what others see."
    else:
        whole = saved if client is None else client.log()
        assert whole is not None  # noqa: S101
        verified, trust, whose = _by_list(own, whole, key, keys, None if client is None else client.url)
        newest = verified.seen.length if saved is not None else None  # a saved list may be older than the record
        _same([each for each in own.entries if newest is None or each.index < max(newest, entry.index + 1)], verified)
        where = "the saved list" if client is None else f"the list that {client.url} shows"
        compared = f"It is the same in {where}, of {verified.seen.length} entries."
    notes = [*checked(record), *_later(record, (*own.entries, *verified.entries))]
    fingerprint = task_log.fingerprint(verified.key)
    told = (record.task_id, record.phase, record.digest, entry.index, fingerprint)
    return Verification(*told, trust, whose, compared, tuple(notes))


def _part(listed: Mapping[str, Any]) -> Verified:
    """Read the part of the list that a record holds, which may begin anywhere."""
    return task_log.verify(listed, seen=_before(listed))


def _before(listed: Mapping[str, Any]) -> Seen | None:
    entries = listed.get("entries")
    first = entries[0] if isinstance(entries, list) and entries else None
    if not isinstance(first, Mapping) or type(first.get("index")) is not int or not first["index"] > 0:
        return None
    return Seen(first["index"], str(first.get("previous")))


def _fits(record: ReleaseRecord, own: Verified) -> TaskLogEntry:
    """Find the release's entry, once the document and all of the release are what the list names."""
    task = [entry for entry in own.entries if entry.task_id == record.task_id]
    if not task:
        raise BrokenRecord("the signed list does not name this task")
    if task[0].digest != record.document_digest:
        raise BrokenRecord("the document does not fit: it is not the one that the signed list has of this task")
    named = [entry for entry in own.entries if is_release(entry.task_id, record.task_id)]
    if not named:
        raise Unsigned(
            f"not signed: the signed list has no release of task {record.task_id}. It was made by a version that "
            "signed none yet, or this list ends before it"
        )
    place = listed_release(record.task_id, record.phase)
    found = next((entry for entry in named if entry.task_id == place), None)
    if found is None:
        raise BrokenRecord("the signed list has a release of this task, but of another phase than the record says")
    if found.digest != record.digest:
        raise BrokenRecord(
            "the release does not fit: its value, an interval, its certificate or something beside them is not what "
            "the signed list has of it"
        )
    return found


def _by_itself(
    record: ReleaseRecord, own: Verified, key: str | None, keys: KnownKeys
) -> tuple[Verified, Trust, str | None]:
    """Hold a record's part of the list against the key that is given or known; nobody is asked."""
    trust, whose = Trust.GIVEN, None
    if key is None:
        trust, whose = Trust.KNOWN, keys.whose(_signers(record.listed))
        met = None if whose is None else keys.of(whose)
        if met is None:
            raise _unknown(own)
        key = met.key
    pinned = list_pin.meant(key, record.listed)
    return task_log.verify(record.listed, key=pinned, seen=_before(record.listed)), trust, whose


def _by_list(
    own: Verified, whole: Mapping[str, Any], key: str | None, keys: KnownKeys, url: str | None
) -> tuple[Verified, Trust, str | None]:
    """Hold a whole list against the key that is given or known. That of the coordinator at `url` is kept."""
    whose = url if url is not None else keys.whose(_signers(whole))
    met = None if whose is None else keys.of(whose)
    if key is None and met is None and url is None:
        raise _unknown(own)
    trust = Trust.GIVEN if key is not None else Trust.KNOWN if met is not None else Trust.FIRST_USE
    verified = task_log.verify(whole, key=list_pin.meant(key, whole) if key is not None else None)
    if met is not None:  # also beside a key that is given: one that gave way long ago is no reason to go back to it
        try:
            task_log.verify(whole, key=met.key, seen=met.seen if url is not None else None)
        except BrokenLog as error:
            raise BrokenLog(
                f"{error}. {whose} is known here by an earlier list; if its operator says that this one is right, "
                f"remove {keys.path}"
            ) from None
    task_log.verify(whole, key=own.key)  # the record's key signs this list, or gave way to the one that does
    if url is not None:
        keys.keep(url, KnownKey(verified.key, verified.seen))
    return verified, trust, whose


def _signers(listed: Mapping[str, Any]) -> set[str]:
    """Name the keys that a list is signed with, or was before."""
    told = listed.get("successions")
    steps = told if isinstance(told, list) else ()
    return {str(listed.get("key")), *(str(step.get("key")) for step in steps if isinstance(step, Mapping))}


def _unknown(own: Verified) -> BrokenRecord:
    return BrokenRecord(
        "nobody knows here whose key signed this, and anybody can make one: give its fingerprint as the operator says "
        f"it (--key), or the coordinator's address (--coordinator). It is {task_log.fingerprint(own.key)}"
    )


def _same(entries: Sequence[TaskLogEntry], verified: Verified) -> None:
    """Find each of these entries in a list, at its place."""
    listed = {entry.index: entry for entry in verified.entries}
    for entry in entries:
        if entry.index >= verified.seen.length:
            raise BrokenLog(
                f"this list has {verified.seen.length} entries, and the record is about entry {entry.index}: it was "
                "cut off, or saved before the release"
            )
        if listed.get(entry.index) != entry:
            raise BrokenLog(f"this list has another entry {entry.index} than the record: two lists were signed")


def _later(record: ReleaseRecord, entries: Sequence[TaskLogEntry]) -> list[str]:
    own = listed_release(record.task_id, record.phase)
    phases = {entry.task_id.rpartition("~")[2] for entry in entries if is_release(entry.task_id, record.task_id)}
    phases -= {own.rpartition("~")[2]}
    later = any(phase.isascii() and phase.isdecimal() and int(phase) > record.phase for phase in phases)
    return ["The task has a later release than this one."] if later else []
