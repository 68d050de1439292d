"""The sign-ins that `thebes login` left on this machine: in the system's keyring, else in a file that only its owner
reads.

What must stay true: no other user reads a token; of several processes that renew one sign-in at the same time one does,
and the others take what it got, since a token that is shown twice ends the sign-in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from thebes.database import private_files
from thebes.privacy.faults import Refusal

_SERVICE = "thebes login"
_KEPT = "kept"  #: where a sign-in lies that does not lie in the file itself


class UnreadableLogins(Refusal):
    """The file with sign-ins can be read by others, or says nothing that can be read; it is not used."""


@dataclass(frozen=True, slots=True)
class StoredLogin:
    """A sign-in: a token until `expires_at`, and one for the renewal, once, until `refresh_until`."""

    token: str
    expires_at: datetime
    refresh_token: str
    refresh_until: datetime

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        """Read what a coordinator gives; a KeyError, TypeError or ValueError where it is something else."""
        ends = (datetime.fromisoformat(told[name]) for name in ("expires_at", "refresh_until"))
        token, refresh = told["token"], told["refresh_token"]
        if not isinstance(token, str) or not isinstance(refresh, str):
            raise TypeError
        return cls(token, next(ends), refresh, next(ends))

    def as_json(self) -> dict[str, str]:
        return {
            "token": self.token,
            "expires_at": self.expires_at.isoformat(),
            "refresh_token": self.refresh_token,
            "refresh_until": self.refresh_until.isoformat(),
        }

    def __repr__(self) -> str:
        return f"<sign-in until {self.refresh_until.isoformat()}>"


def folder() -> Path:
    """Return where settings of this user lie: `$XDG_CONFIG_HOME/thebes`, else `~/.config/thebes`."""
    named, own = os.environ.get("XDG_CONFIG_HOME", ""), os.path.expanduser("~")
    if os.path.isabs(named):
        return Path(named, "thebes")
    return Path(
        own if os.path.isabs(own) else os.devnull, ".config", "thebes"
    )  # some users have no folder of their own


class StoredLogins:
    """The sign-ins by the addresses of their coordinators. Each change is made inside `locked`."""

    def __init__(self, place: Path | None = None) -> None:
        self._folder = folder() if place is None else place
        self._path = self._folder / "login.json"

    def known(self, url: str) -> bool:
        """Return whether there is a sign-in, without opening a keyring."""
        return url in self._read()

    def of(self, url: str) -> StoredLogin | None:
        """Return the sign-in at a coordinator; None where there is none, or the keyring does not give it."""
        told = self._read().get(url)
        if told is not None and told.get(_KEPT) == "keyring":
            told = _from_keyring(url)
        if told is None:
            return None
        try:
            return StoredLogin.of(told)
        except (KeyError, TypeError, ValueError):
            raise self._unreadable("holds something else than sign-ins") from None

    def keep(self, url: str, login: StoredLogin) -> None:
        """Keep a sign-in in place of the one before."""
        told = login.as_json()
        self._write({**self._read(), url: {_KEPT: "keyring"} if _into_keyring(url, told) else told})

    def forget(self, url: str) -> None:
        """Keep it no longer."""
        every = self._read()
        if every.pop(url, {}).get(_KEPT) == "keyring":
            _out_of_keyring(url)
        self._write(every)

    def locked(self) -> AbstractContextManager[None]:
        """Keep every other process of this user from renewing meanwhile."""
        return private_files.alone(self._folder / "login.lock")

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            with self._path.open(encoding="utf-8") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise self._unreadable("can be read by others; run: chmod 600 on it")
                told = json.load(file)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return {}
        except ValueError:
            raise self._unreadable("is damaged") from None
        if not isinstance(told, dict) or not all(isinstance(one, dict) for one in told.values()):
            raise self._unreadable("is damaged")
        return told

    def _write(self, every: Mapping[str, Any]) -> None:
        private_files.write(self._path, json.dumps(every))

    def _unreadable(self, why: str) -> UnreadableLogins:
        return UnreadableLogins(f"{self._path} {why}; or remove it and sign in again: thebes login")


def _into_keyring(url: str, told: Mapping[str, str]) -> bool:
    """Only true once the keyring gave it back: some take everything and remember nothing."""
    try:
        import keyring

        text = json.dumps(told)
        keyring.set_password(_SERVICE, url, text)
        return keyring.get_password(_SERVICE, url) == text
    except Exception:  # backends raise what they like
        return False


def _from_keyring(url: str) -> dict[str, Any] | None:
    try:
        import keyring

        told = json.loads(keyring.get_password(_SERVICE, url) or "null")
    except Exception:
        return None
    return told if isinstance(told, dict) else None


def _out_of_keyring(url: str) -> None:
    try:
        import keyring

        keyring.delete_password(_SERVICE, url)
    except Exception:  # noqa: S110  it may be gone already, and its session ends by itself
        pass
