"""The role of a folder that somebody names as a home; whether it is the coordinator's that is meant."""

from __future__ import annotations

from pathlib import Path

from thebes.privacy.faults import Mistake
from thebes.wire.homes import HomeRole, has_of, owner_of

#: what an operator may put into a coordinator's home before anything else lies there
_BEFORE_THE_FIRST_START = ("coordinator.toml", "datasets", "ca")


def role_of(home: Path) -> HomeRole:
    """The role whose home this is; a Mistake where it is nobody's."""
    if not home.is_dir():
        raise Mistake("HOME", f"there is no folder {str(home)!r}")
    role = owner_of(home)
    if role is None:
        raise Mistake("HOME", f"{str(home)!r} holds nothing of a person, a site, a coordinator or a ledger")
    return role


def check_store(home: Path, store: str | None) -> None:
    """A Mistake where a coordinator's database is neither named nor in its home: it would be given an empty one."""
    if not store and not (home / "coordinator.db").exists():
        raise Mistake("--store", "is needed: there is no database in the home")


def check_coordinators(home: Path, store: str | None) -> None:
    """The same, and a Mistake where the home is not a coordinator's."""
    if role_of(home) is not HomeRole.COORDINATOR:
        raise Mistake("--home", f"{str(home)!r} is not a coordinator's home")
    check_store(home, store)


def store_of(home: Path, store: str | None) -> str | None:
    """The address that was named of a coordinator's database, or None for the one in its home. A Mistake where a home
    that was used has none, or where something else lies in the folder: asked, either would be given an empty one, and
    the next command would take that for the coordinator's."""
    if not home.is_dir():
        raise Mistake("--home", f"there is no directory {str(home)!r}")
    known = has_of(HomeRole.COORDINATOR, home) or any((home / name).exists() for name in _BEFORE_THE_FIRST_START)
    if any(home.iterdir()) and not known:
        raise Mistake(
            "--home", f"{str(home)!r} is not a coordinator's home; name the one that `thebes coordinator` uses"
        )
    if any((home / name).exists() for name in ("admin.token", "log.key")):  # the former is in no copy
        check_store(home, store)
    return store or None
