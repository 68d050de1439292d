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


def role_of(home: Path) -> Role:
    """The role whose home this is; a Mistake where it is nobody's."""
    if not home.is_dir():
        raise Mistake("HOME", f"there is no folder {str(home)!r}")
    for role, names in _TELLING.items():
        if any((home / name).exists() for name in names):
            return role
    raise Mistake("HOME", f"{str(home)!r} holds nothing of a person, a site, a coordinator or a ledger")
