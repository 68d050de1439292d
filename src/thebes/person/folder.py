"""A person's home on disk: nobody else's to read, and held by one process at a time."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from thebes.privacy.faults import Mistake, Refusal

DAEMON = "daemon.json"
_LOCK = "lock"


class HomeInUse(Refusal):
    """Another process holds this home and does not answer on its own address."""


def prepared(folder: str | Path) -> Path:
    """The folder, made if need be, with mode 0700; a folder of somebody else is a Mistake."""
    home = Path(folder).expanduser().resolve()
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = home.stat()
        if facts.st_uid != os.geteuid():
            raise Mistake("home", f"{str(home)!r} belongs to somebody else")
        if facts.st_mode & 0o077:
            home.chmod(0o700)
    except (FileExistsError, NotADirectoryError):
        raise Mistake("home", f"{str(home)!r} is not a folder") from None
    except PermissionError:
        raise Mistake("home", f"{str(home)!r} cannot be used: permission denied") from None
    return home


class Hold:
    """The right to use a home, until it is closed or the process ends."""

    def __init__(self, home: Path) -> None:
        self._descriptor = os.open(home / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise HomeInUse(
                f"another process uses the home {str(home)!r}; stop it, or wait until it has started"
            ) from None

    def close(self) -> None:
        os.close(self._descriptor)


def announce(home: Path, facts: dict[str, Any]) -> None:
    """Write where the process that holds this home listens."""
    fresh = home / f".{DAEMON}.new"
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(facts, file)
    fresh.replace(home / DAEMON)


def announced(home: Path) -> dict[str, Any]:
    """What was announced last; the process may be gone."""
    try:
        told = json.loads((home / DAEMON).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
