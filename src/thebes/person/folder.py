"""A person's home on disk: nobody else's to read, and held by one process at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from thebes import machine
from thebes.database import private_files
from thebes.privacy.faults import Mistake
from thebes.wire.homes import HomeRole, owner_of
from thebes.wire.local_server import DAEMON as DAEMON
from thebes.wire.local_server import Hold as Hold
from thebes.wire.local_server import HomeInUse as HomeInUse
from thebes.wire.local_server import announced as announced

#: one of them is there from the first moment on, or was put there before it
_EARLY = ("person.db", "person.toml", "coordinator.key", "token", "lock", "key.json", "store", "ledger.db")


def prepared(folder: str | Path) -> Path:
    """The folder, made if need be, with mode 0700; a folder of somebody else, or of something else, is a Mistake:
    whoever destroys a home destroys all that lies in it."""
    home = Path(folder).expanduser().resolve()
    owner = owner_of(home)
    if owner in (HomeRole.COORDINATOR, HomeRole.SITE):
        raise Mistake("home", f"{str(home)!r} is a {owner}'s home; give the person a folder of their own")
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = home.stat()
        if facts.st_uid != machine.user():
            raise Mistake("home", f"{str(home)!r} belongs to somebody else")
        if any(home.iterdir()) and not any((home / name).exists() for name in _EARLY):
            told = "all of a home is destroyed together, so give the person a new or an empty folder"
            raise Mistake("home", f"something else lies in {str(home)!r}; {told}")
        if facts.st_mode & 0o077:
            home.chmod(0o700)
    except (FileExistsError, NotADirectoryError):
        raise Mistake("home", f"{str(home)!r} is not a folder") from None
    except PermissionError:
        raise Mistake("home", f"{str(home)!r} cannot be used: permission denied") from None
    return home


def announce(home: Path, facts: dict[str, Any]) -> None:
    """Write where the process that holds this home listens."""
    private_files.write(home / DAEMON, json.dumps(facts))
