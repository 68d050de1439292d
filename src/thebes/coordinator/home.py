"""A coordinator's folder: who may read it, and the secrets that are made when it is first used.

What must stay true: every secret is a file of its own, readable by its owner only, made whole or not at all, so
that several processes may start in the same home at once. One that is replaced counts at once, in each of them.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from thebes import machine
from thebes.coordinator import settings
from thebes.coordinator.tasks.task_keys import Keys
from thebes.database import private_files
from thebes.database.folder_sync import settle
from thebes.privacy.faults import Mistake
from thebes.wire.homes import HomeRole, has_of
from thebes.wire.local_server import TOKEN as OWNERS_TOKEN
from thebes.wire.task_log import Succession, new_key

TOKEN = "admin.token"  # noqa: S105
FIGURES = "figures.token"
LOG_KEY = "log.key"
SESSION_KEY = "session.key"
NEXT_LOG_KEY = "log.key.next"  #: while it takes the place of the one before
DATABASE = "database.name"  #: of the database elsewhere that this home works on; not secret
SUCCESSIONS = "log.keys.json"  #: which key of the list gave way to which; not secret
_AUTHORITIES = "groups"
_OWN_STORE = "coordinator.db"


class CoordinatorHome:
    """The home of a coordinator: what it keeps outside its database."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        if has_of(HomeRole.PERSON, self.folder) or (self.folder / OWNERS_TOKEN).exists():
            told = "is the home of a person or a site; give the coordinator a folder of its own"
            raise Mistake("--home", f"{str(folder)!r} {told}")
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
        self._read: dict[str, tuple[tuple[int, int], bytes]] = {}
        if lost_key(self.folder):
            advice = "bring it back from a copy of the home, for people refuse what another one signs"
            raise Mistake("--home", f"has no {LOG_KEY} any more, which signs its task list: {advice}")
        for name, make in _MADE.items():
            self._secret(name, make)
            self._now(name)

    @property
    def admin_token(self) -> str:
        """An operator's token."""
        return self._now(TOKEN).decode().strip()

    @property
    def figures_token(self) -> str:
        """The token of who may read figures and nothing else."""
        return self._now(FIGURES).decode().strip()

    @property
    def log_key(self) -> bytes:
        """Ed25519, 32 raw bytes: signs the task list."""
        return self._now(LOG_KEY)

    @property
    def session_key(self) -> bytes:
        """Ed25519, 32 raw bytes: signs the tokens of who has logged in."""
        return self._now(SESSION_KEY)

    @property
    def successions(self) -> list[Succession]:
        """The successions of the list's keys, which key gave way to which, oldest first."""
        try:
            return [Succession(**each) for each in json.loads((self.folder / SUCCESSIONS).read_bytes())]
        except FileNotFoundError:
            return []

    def replace(self, name: str) -> None:
        """A new session key or operator's token instead of the one that there is; that counts no longer."""
        with self.alone():
            self._put(name, _MADE[name]())

    def successor(self) -> bytes:
        """The key that is to sign the list next: the same until it does, however often this process dies meanwhile."""
        return self._secret(NEXT_LOG_KEY, new_key)

    def succeed(self, succession: Succession) -> None:
        """Remember what the key said last; then the next one signs the list."""
        known = self.successions
        if succession not in known:
            told = [each.as_json() for each in (*known, succession)]
            self._put(SUCCESSIONS, json.dumps(told, indent=1).encode() + b"\n")
        os.replace(self.folder / NEXT_LOG_KEY, self.folder / LOG_KEY)
        settle(self.folder)

    def alone(self) -> AbstractContextManager[None]:
        """One process at a time replaces what lies here."""
        return private_files.alone(self.folder / "rotate.lock")

    @property
    def store(self) -> str:
        """The address of the database that is used where none is named. A Mistake where the home works on one that is
        elsewhere, or where tasks are under way and none is there: a coordinator on an empty one would take their keys
        for left over, and destroy them."""
        if self.works_on is not None:
            raise Mistake("--store", "is needed: the database that this home works on is not in it")
        if not (self.folder / _OWN_STORE).exists() and any(self.keys.older_than(math.inf)):
            raise Mistake("--store", "is needed: there are keys of tasks in the home, and no database")
        return self.own_store

    @property
    def own_store(self) -> str:
        """The address of a database in the home, whether it is there or not."""
        return f"sqlite:///{self.folder / _OWN_STORE}"

    @property
    def works_on(self) -> str | None:
        """The name of the database elsewhere that this home works on; None until it has one."""
        return named_in(self.folder)

    def work_on(self, name: str) -> None:
        """Work on the database of that name from now on, and on no other."""
        private_files.create(self.folder / DATABASE, name.encode() + b"\n")
        settle(self.folder)

    def authority(self, name: str, epoch: str, make: Callable[[], bytes] | None = None) -> bytes | None:
        """The record of a group's authority, with its secret key; made with `make` where there is none."""
        file = f"{_AUTHORITIES}/{name}~{epoch}.json"
        if make is None and not (self.folder / file).exists():
            return None
        return self._secret(file, make or bytes)

    def _now(self, name: str) -> bytes:
        """A secret as it stands: read anew when its file changed. One that is gone, or that others can read, is not
        taken in the middle of a run; the one before stays."""
        file = self.folder / name
        held = self._read.get(name)
        try:
            facts = file.stat()
            stamp = (facts.st_ino, facts.st_mtime_ns)
            if held is None or held[0] != stamp:
                _own(file)
                held = self._read[name] = (stamp, file.read_bytes())
        except (OSError, Mistake):
            if held is None:
                raise
        return held[1]

    def _put(self, name: str, content: bytes) -> None:
        """In place of what was there, whole or not at all."""
        private_files.put(self.folder / name, content)

    def _secret(self, name: str, make: Callable[[], bytes]) -> bytes:
        file = self.folder / name
        if not file.exists():
            private_files.create(file, make())
        _own(file)
        return file.read_bytes()


def lost_key(folder: Path) -> bool:
    """Return whether a home has a task list, and not the key that signs it. The key is made first."""
    return not (folder / LOG_KEY).exists() and any((folder / n).exists() for n in (_OWN_STORE, DATABASE, SUCCESSIONS))


def named_in(folder: Path) -> str | None:
    """The name of the database elsewhere that a home works on, without opening the home."""
    try:
        return (folder / DATABASE).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return None


def _new_token() -> bytes:
    return secrets.token_urlsafe(32).encode() + b"\n"


#: what is made at the first start, and how
_MADE: dict[str, Callable[[], bytes]] = {TOKEN: _new_token, FIGURES: _new_token, LOG_KEY: new_key, SESSION_KEY: new_key}


def _belongs(place: Path) -> None:
    if place.stat().st_uid != machine.user():
        raise Mistake("--home", f"{place} belongs to another user")


def _own(secret: Path) -> None:
    """Refuse a secret that others may read: it may have been read."""
    _belongs(secret)
    if stat.S_IMODE(secret.stat().st_mode) & 0o077:
        again = f"; if somebody may have read it: thebes rotate {secret.name}" if secret.name in _MADE else ""
        raise Mistake("--home", f"others can read {secret}: run chmod 600 on it{again}")
