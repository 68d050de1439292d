"""One key for each task, in a file of its own outside the database and whatever copies are made of that.

What must stay true: without its key a trusted contribution at rest is noise; a destroyed key is not made again.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from thebes.database.folder_sync import settle
from thebes.privacy.faults import Fault

_BYTES = 32
_NONCE = 12
_ID = re.compile(r"[0-9a-f]{32}")


class TaskKey:
    """Seals a task's contributions, and tells two bodies apart without keeping either."""

    def __init__(self, secret: bytes) -> None:
        # Two uses, two keys: neither says anything about the other.
        self._sealing = AESGCM(hmac.digest(secret, b"thebes sealing 1", hashlib.sha256))
        self._telling_apart = hmac.digest(secret, b"thebes fingerprint 1", hashlib.sha256)

    def fingerprint(self, body: bytes) -> bytes:
        """The same for the same body; without the key nobody can test a guess of it."""
        return hmac.digest(self._telling_apart, body, hashlib.sha256)

    def seal(self, record: bytes, place: str) -> bytes:
        """AES-256-GCM under a random nonce; bound to its place, so that sealed records cannot change places."""
        nonce = secrets.token_bytes(_NONCE)
        return nonce + self._sealing.encrypt(nonce, record, place.encode())

    def open(self, sealed: bytes, place: str) -> bytes:
        """The inverse of `seal`."""
        try:
            return self._sealing.decrypt(sealed[:_NONCE], sealed[_NONCE:], place.encode())
        except InvalidTag:
            raise Fault("a stored contribution was changed, or belongs elsewhere") from None


def place_of(task_id: str, part: str, contributor: str) -> str:
    """Name the place where a contribution belongs."""
    return f"contribution\0{task_id}\0{part}\0{contributor}"


def place_of_snapshot(task_id: str, phase: int) -> str:
    """Name the place where the aggregator's memory at the start of a phase belongs."""
    return f"snapshot\0{task_id}\0{phase}"


class Keys:
    """The folder of keys."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, task_id: str) -> TaskKey:
        """A new key, on the disk when this returns."""
        secret = secrets.token_bytes(_BYTES)
        descriptor = os.open(self._file(task_id), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, secret)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        settle(self._folder)
        return TaskKey(secret)

    def of(self, task_id: str) -> TaskKey | None:
        """The key of a task, or None once it was destroyed."""
        try:
            secret = self._file(task_id).read_bytes()
        except FileNotFoundError:
            return None
        # A process that died while destroying it may have left it overwritten.
        return TaskKey(secret) if len(secret) == _BYTES and any(secret) else None

    def destroy(self, task_id: str) -> None:
        """Overwrite and remove the key; nothing to do where it is gone. What this cannot reach: copies that a disk
        or a file system keeps by itself, and backups of this folder, which must not be made."""
        file = self._file(task_id)
        try:
            descriptor = os.open(file, os.O_WRONLY)
        except FileNotFoundError:
            return
        try:
            os.write(descriptor, bytes(_BYTES))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        file.unlink(missing_ok=True)
        settle(self._folder)

    def older_than(self, moment: float) -> Iterator[str]:
        """Tasks whose keys were made before `moment` (seconds since 1970)."""
        for file in self._folder.iterdir():
            if _ID.fullmatch(file.name) and file.stat().st_mtime < moment:
                yield file.name

    def _file(self, task_id: str) -> Path:
        if not _ID.fullmatch(task_id):
            raise Fault("a task's id is not one that was made here")
        return self._folder / task_id
