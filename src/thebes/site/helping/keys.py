"""The keys of a helper: its own, by which people know it, and one for each task that it helps with.

What must stay true: a task's key is drawn once, lies outside every copy, and is destroyed with what it sealed. Beside
it stands, before a verdict leaves, how many have: an older database that was put back beside it knows of fewer.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from thebes.database import private_files
from thebes.database.folder_sync import settle
from thebes.database.key_folder import KeyFolder
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import system
from thebes.sharing import Elements, HelperIdentity, SealingKey

IDENTITY = "helper.key"
FOLDER = "helping"  #: HOME/helping, left out of copies
_NONCE = 12
_TALLY = ".judged"


class HelpedTaskKey:
    """Everything secret of one task, from one secret: three uses, three keys."""

    def __init__(self, secret: bytes) -> None:
        def derived(use: bytes) -> bytes:
            return hmac.digest(secret, use, hashlib.sha256)

        self.sealing = SealingKey.from_bytes(derived(b"thebes helper sealing 1"))
        self.verify_key = derived(b"thebes helper verify 1")
        self._kept = AESGCM(derived(b"thebes helper shares 1"))

    def seal(self, shares: Elements, place: bytes) -> bytes:
        """Seal the helper's shares of a job for as long as they wait on the disk."""
        nonce = system().words(2).tobytes()[:_NONCE]
        return nonce + self._kept.encrypt(nonce, shares.astype("<u8").tobytes(), place)

    def open(self, sealed: bytes, place: bytes, outputs: int) -> Elements:
        raw = self._kept.decrypt(sealed[:_NONCE], sealed[_NONCE:], place)
        return np.frombuffer(raw, dtype="<u8").astype(np.uint64).reshape(-1, outputs)


class HelperKeys:
    """One home's. The identity is made when it is first needed."""

    def __init__(self, home: Path) -> None:
        self._file, self._folder = home / IDENTITY, home / FOLDER
        self._folder.mkdir(mode=0o700, exist_ok=True)
        self._tasks = KeyFolder(self._folder)

    def identity(self) -> HelperIdentity:
        """Return the key by which people know this helper."""
        if not self._file.exists():
            private_files.create(self._file, HelperIdentity.new())
        if self._file.stat().st_mode & 0o077:
            raise Mistake(IDENTITY, "can be read by others: remove it, and tell people the new fingerprint")
        return HelperIdentity.from_bytes(self._file.read_bytes())

    def begin(self, task: str) -> HelpedTaskKey:
        """Draw the key of a task that is not known yet; what a process left that died before it was is thrown away."""
        self.destroy(task)
        return HelpedTaskKey(self._tasks.drawn(_name(task)))

    def of(self, task: str) -> HelpedTaskKey | None:
        """Return a task's key; None once it was destroyed, and where the home came back from a copy."""
        secret = self._tasks.secret(_name(task))
        return None if secret is None else HelpedTaskKey(secret)

    def judged(self, task: str) -> int:
        """Return how many verdicts on a task may have left; none where its key is gone."""
        try:
            return self._tally(_name(task)).stat().st_size
        except FileNotFoundError:
            return 0

    def note_judged(self, task: str, verdicts: int) -> None:
        """Let the disk know that so many verdicts may have left, by a file of as many bytes."""
        descriptor = os.open(self._tally(_name(task)), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            if os.fstat(descriptor).st_size < verdicts:
                os.truncate(descriptor, verdicts)
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        settle(self._folder)

    def destroy(self, task: str) -> None:
        self._destroy(_name(task))

    def keep_only(self, tasks: Iterable[str]) -> None:
        """Destroy every key but those of these tasks, whatever left it here."""
        kept = {_name(task) for task in tasks}
        for name in [*self._tasks.older_than(math.inf)]:
            if name not in kept:
                self._destroy(name)
        for tally in self._folder.glob(f"*{_TALLY}"):
            if tally.stem not in kept:
                tally.unlink(missing_ok=True)

    def _destroy(self, name: str) -> None:
        self._tasks.destroy(name)
        self._tally(name).unlink(missing_ok=True)

    def _tally(self, name: str) -> Path:
        return self._folder / f"{name}{_TALLY}"


def _name(task: str) -> str:
    return hashlib.sha256(task.encode()).hexdigest()[:32]
