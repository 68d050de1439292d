"""Secret keys of things that end, each in a file of its own, outside the database and whatever copies are made of that.

What must stay true: a key is on the disk before anybody uses it; a destroyed one is not made again.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from thebes.database.folder_sync import settle
from thebes.privacy.faults import Fault

_BYTES = 32
_ID = re.compile(r"[0-9a-f]{32}")


class KeyFolder:
    """Keys by names of 32 hexadecimal digits."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def drawn(self, name: str) -> bytes:
        """Draw a new key; it is on the disk when this returns."""
        secret = secrets.token_bytes(_BYTES)
        descriptor = os.open(self._file(name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(descriptor, secret)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        settle(self._folder)
        return secret

    def secret(self, name: str) -> bytes | None:
        """Return a key, or None once it was destroyed."""
        try:
            secret = self._file(name).read_bytes()
        except FileNotFoundError:
            return None
        # A process that died while destroying it may have left it overwritten.
        return secret if len(secret) == _BYTES and any(secret) else None

    def destroy(self, name: str) -> None:
        """Overwrite and remove a key; nothing to do where it is gone. What this cannot reach: copies that a disk or a
        file system keeps by itself, and backups of this folder, which must not be made."""
        file = self._file(name)
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
        """Names of keys that were made before `moment` (seconds since 1970)."""
        for file in self._folder.iterdir():
            if _ID.fullmatch(file.name) and file.stat().st_mtime < moment:
                yield file.name

    def _file(self, name: str) -> Path:
        if not _ID.fullmatch(name):
            raise Fault("the name of a key is not one that was made here")
        return self._folder / name
