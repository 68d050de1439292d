"""The role whose home a folder is, told from the files that only that role makes.

Roles do not know each other: what each has to know of another's home, to keep out of it, stands here once.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path


class HomeRole(StrEnum):
    """The roles that have a home. A coordinator's home stands for its own site, too."""

    PERSON = "person"
    SITE = "site"
    COORDINATOR = "coordinator"
    LEDGER = "ledger"  #: a folder with nothing but the ledger of somebody's own program


#: in the order of looking: what comes later may lie in a home of what comes earlier
_TELLING = {
    HomeRole.COORDINATOR: ("admin.token", "coordinator.db", "log.key"),
    HomeRole.PERSON: ("person.db",),
    HomeRole.SITE: ("outbox.db", "policy.toml", "link", "datasets"),
    HomeRole.LEDGER: ("ledger.db",),
}


def has_of(role: HomeRole, folder: Path) -> bool:
    """Return whether something lies in a folder that tells of this role's home."""
    return any((folder / name).exists() for name in _TELLING[role])


def owner_of(folder: Path) -> HomeRole | None:
    """The role whose home this is; None where it is nobody's."""
    return next((role for role in _TELLING if has_of(role, folder)), None)
