"""Capabilities, which say which sites a user may ask for which kinds. Where nothing is said of somebody, the sites' own
policies decide."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import select

from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import CAPABILITY, USER
from thebes.privacy.faults import Mistake
from thebes.tasks import registry
from thebes.tasks.site_document import SITE_NAME
from thebes.wire.refusals import NotFound

EVERY = "*"


@dataclass(frozen=True, slots=True, order=True)
class Capability:
    """May ask this site for this kind; `*` is every one."""

    site: str
    kind: str

    def covers(self, site: str, kind: str) -> bool:
        return self.site in (EVERY, site) and self.kind in (EVERY, kind)


class Capabilities:
    """Those of every user."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, user: str) -> list[Capability]:
        """Everything this user may ask; nothing where nothing is said of them."""
        query = select(CAPABILITY.c.site, CAPABILITY.c.kind).where(CAPABILITY.c.user == user)
        return sorted(Capability(*row) for row in self._database.read(lambda c: c.execute(query).all()))

    def all(self) -> dict[str, list[Capability]]:
        """Those of everybody of whom anything is said."""
        query = select(CAPABILITY.c.user, CAPABILITY.c.site, CAPABILITY.c.kind)
        found: dict[str, list[Capability]] = {}
        for user, site, kind in sorted(tuple(row) for row in self._database.read(lambda c: c.execute(query).all())):
            found.setdefault(user, []).append(Capability(site, kind))
        return found

    def grant(self, user: str, sites: Iterable[str], kinds: Iterable[str]) -> None:
        """This user may ask these sites for these kinds, too; and, from the first of these on, nothing else."""
        wanted = {Capability(_site(site), _kind(kind)) for site in sites for kind in kinds}

        def work(connection: sa.Connection) -> None:
            self._known(connection, user)
            own = select(CAPABILITY.c.site, CAPABILITY.c.kind).where(CAPABILITY.c.user == user)
            known = {Capability(*row) for row in connection.execute(own)}
            rows = [{"user": user, "site": each.site, "kind": each.kind} for each in sorted(wanted - known)]
            if rows:
                connection.execute(CAPABILITY.insert(), rows)

        self._database.write(work)

    def clear(self, user: str) -> None:
        """Nothing is said of this user any more: they may ask every site, and each decides."""

        def work(connection: sa.Connection) -> None:
            self._known(connection, user)
            connection.execute(CAPABILITY.delete().where(CAPABILITY.c.user == user))

        self._database.write(work)

    def _known(self, connection: sa.Connection, user: str) -> None:
        if connection.execute(select(USER.c.name).where(USER.c.name == user).with_for_update()).first() is None:
            raise NotFound(f"there is no user {user!r}")


def _site(name: str) -> str:
    if name != EVERY and not re.fullmatch(SITE_NAME, name):
        raise Mistake("--site", "must be the name of a site, or * for every one")
    return name


def _kind(name: str) -> str:
    if name != EVERY and name not in registry.site_types():
        known = ", ".join(registry.site_types()) or "none yet"
        raise Mistake("--kind", f"must be a kind that sites answer ({known}), or * for every one")
    return name
