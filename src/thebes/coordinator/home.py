"""A coordinator's folder: who may read it, and the secrets that are made when it is first used.

What must stay true: every secret is a file of its own, readable by its owner only, made whole or not at all, so
that several processes may start in the same home at once.
"""

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from thebes.coordinator import settings
from thebes.coordinator.keys import Keys
from thebes.privacy.faults import Mistake
from thebes.wire.log import new_key

TOKEN = "admin.token"  # noqa: S105
_AUTHORITIES = "groups"
_LOG_KEY = "log.key"
_SESSION_KEY = "session.key"
_OF_A_PERSON = ("person.db", "token")  # files that only `thebes person` makes


class Home:
    """What a coordinator keeps outside its database."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        if any((self.folder / name).exists() for name in _OF_A_PERSON):
            raise Mistake("--home", f"{str(folder)!r} is a person's home; give the coordinator a folder of its own")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            places = (self.folder, self.folder / "keys", self.folder / _AUTHORITIES)
            for place in places:
                place.mkdir(mode=0o700, exist_ok=True)
                _belongs(place)
                place.chmod(0o700)
        except OSError as error:
            raise Mistake("--home", f"cannot use {str(folder)!r}: {error.strerror}") from None
        self.settings = settings.read(self.folder)
        self.keys = Keys(self.folder / "keys")
        #: an operator's token
        self.admin_token = self._secret(TOKEN, lambda: secrets.token_urlsafe(32).encode() + b"\n").decode().strip()
        #: Ed25519, 32 raw bytes: signs the task list
        self.log_key = self._secret(_LOG_KEY, new_key)
        #: Ed25519, 32 raw bytes: signs the tokens of who has logged in
        self.session_key = self._secret(_SESSION_KEY, new_key)

    @property
    def store(self) -> str:
        """The address of the database that is used where none is named."""
        return f"sqlite:///{self.folder / 'coordinator.db'}"

    def authority(self, name: str, epoch: str, make: Callable[[], bytes] | None = None) -> bytes | None:
        """The record of a group's authority, with its secret key; made with `make` where there is none."""
        file = f"{_AUTHORITIES}/{name}~{epoch}.json"
        if make is None and not (self.folder / file).exists():
            return None
        return self._secret(file, make or bytes)

    def _secret(self, name: str, make: Callable[[], bytes]) -> bytes:
        file = self.folder / name
        if not file.exists():
            self._write_once(file, make())
        _own(file)
        return file.read_bytes()

    def _write_once(self, file: Path, content: bytes) -> None:
        """Write beside, then link into place: whoever is first wins, and nobody reads half a secret."""
        descriptor, beside = tempfile.mkstemp(prefix=f".{file.name}.", dir=self.folder)  # 0600, O_EXCL
        try:
            os.write(descriptor, content)
            os.fsync(descriptor)
            os.close(descriptor)
            os.link(beside, file)
        except FileExistsError:
            pass
        finally:
            os.unlink(beside)


def _belongs(place: Path) -> None:
    if place.stat().st_uid != os.geteuid():
        raise Mistake("--home", f"{place} belongs to another user")


def _own(secret: Path) -> None:
    """Refuse a secret that others may read: it may have been read."""
    _belongs(secret)
    if stat.S_IMODE(secret.stat().st_mode) & 0o077:
        raise Mistake("--home", f"others can read {secret}: remove it, so that a new one is made")
