"""Whose home a folder is, told from the files that only that role makes."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from thebes.privacy.faults import Mistake


class Role(StrEnum):
    """The roles that have a home. A coordinator's home stands for its own site, too."""

    PERSON = "person"
    SITE = "site"
    COORDINATOR = "coordinator"
    LEDGER = "ledger"  #: a folder with nothing but the ledger of somebody's own program


#: in the order of looking: what comes later may lie in a home of what comes earlier
_TELLING = {
    Role.COORDINATOR: ("admin.token", "coordinator.db", "log.key"),
    Role.PERSON: ("person.db",),
    Role.SITE: ("outbox.db", "policy.toml", "link", "datasets"),
    Role.LEDGER: ("ledger.db",),
}

#: what an operator may put into a coordinator's home before anything else lies there
_BEFORE_THE_FIRST_START = ("coordinator.toml", "datasets", "ca")


def role_of(home: Path) -> Role:
    """The role whose home this is; a Mistake where it is nobody's."""
    if not home.is_dir():
        raise Mistake("HOME", f"there is no folder {str(home)!r}")
    for role, names in _TELLING.items():
        if any((home / name).exists() for name in names):
            return role
    raise Mistake("HOME", f"{str(home)!r} holds nothing of a person, a site, a coordinator or a ledger")


def store_of(home: Path, store: str | None) -> str | None:
    """The address that was named of a coordinator's database, or None for the one in its home. A Mistake where a home
    that was used has none, or where something else lies in the folder: asked, either would be given an empty one, and
    the next command would take that for the coordinator's."""
    if not home.is_dir():
        raise Mistake("--home", f"there is no directory {str(home)!r}")
    telling = (*_TELLING[Role.COORDINATOR], *_BEFORE_THE_FIRST_START)
    if any(home.iterdir()) and not any((home / name).exists() for name in telling):
        raise Mistake("--home", f"{str(home)!r} is no coordinator's home; name the one that `thebes coordinator` uses")
    if not store and (home / "admin.token").exists() and not (home / "coordinator.db").exists():
        raise Mistake("--store", "is needed: there is no database in the home")
    return store or None
