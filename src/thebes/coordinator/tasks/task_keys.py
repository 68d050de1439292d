"""One key for each task, in a file of its own outside the database and whatever copies are made of that.

What must stay true: without its key a trusted contribution at rest is noise; a destroyed key is not made again.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from thebes.database.key_folder import KeyFolder
from thebes.privacy.faults import Fault

_NONCE = 12


class TaskKey:
    """Seals a task's contributions, and tells two bodies apart without keeping either."""

    def __init__(self, secret: bytes) -> None:
        # Two uses, two keys: neither says anything about the other.
        self._sealing = AESGCM(hmac.digest(secret, b"thebes sealing 1", hashlib.sha256))
        own = hmac.digest(secret, b"thebes fingerprint 1", hashlib.sha256)
        self._telling_apart = hmac.new(own, digestmod=hashlib.sha256)

    def fingerprint(self, body: bytes) -> bytes:
        """The same for the same body; without the key nobody can test a guess of it."""
        # hmac.digest gives up the interpreter's lock however short the body is, and waits for whoever took it.
        telling = self._telling_apart.copy()
        telling.update(body)
        return telling.digest()

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


def sealed_keys(key: TaskKey, task_id: str, said: Mapping[str, str]) -> bytes:
    """Seal what the helper of a task said when it opened it."""
    return key.seal(json.dumps(dict(said)).encode(), _place_of_helper(task_id))


def keys_said(key: TaskKey, task_id: str, sealed: bytes) -> dict[str, Any]:
    """Return what the helper of a task said when it opened it."""
    return dict(json.loads(key.open(sealed, _place_of_helper(task_id))))


def _place_of_helper(task_id: str) -> str:
    return f"helper\0{task_id}"


class Keys(KeyFolder):
    """The folder of keys of tasks."""

    def make(self, task_id: str) -> TaskKey:
        """A new key, on the disk when this returns."""
        return TaskKey(self.drawn(task_id))

    def of(self, task_id: str) -> TaskKey | None:
        """The key of a task, or None once it was destroyed."""
        secret = self.secret(task_id)
        return None if secret is None else TaskKey(secret)
