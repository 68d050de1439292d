"""The users whom an identity provider names: who each is here, and how they come and go with their groups.

What must stay true: somebody is known by issuer and subject and by nothing else, so that nobody takes another's name or
tasks; who has no group of ours any more is let in no longer, also by what was let in before; whom an operator has shut
out no provider lets in.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import select

from thebes.coordinator.auth.lasting_sessions import end_all
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import FEDERATED_USER, USER
from thebes.wire.identity_provider import Identity
from thebes.wire.refusals import NotSignedIn

if TYPE_CHECKING:
    from collections.abc import Callable

_NO_PASSWORD = ""  #: no hash, which no password has


class FederatedUsers:
    """The users of providers in the database. `token` gives a user's session."""

    def __init__(self, database: Database, token: Callable[[str], tuple[str, datetime]]) -> None:
        self._database, self._token = database, token

    def login(self, identity: Identity) -> tuple[str, datetime]:
        """Let somebody in whom the provider named, with the role that they have by now; a token and when it ends."""
        name = self._database.write(lambda connection: self._come(connection, identity))
        if name is None:
            raise NotSignedIn("you are known, and none of your groups may ask here; ask whoever runs this server")
        return self._token(name)

    def _come(self, connection: sa.Connection, identity: Identity) -> str | None:
        """Return their name here; None without a role, which is written down, and a refusal where an operator shut them
        out."""
        mine = (FEDERATED_USER.c.issuer == identity.issuer) & (FEDERATED_USER.c.subject == identity.subject)
        known = connection.execute(select(FEDERATED_USER).where(mine)).first()
        if known is None:
            if identity.role is None:
                return None
            return self._added(connection, identity)
        user = connection.execute(select(USER).where(USER.c.name == known.name)).one()
        if identity.role is None:
            if not user.disabled:
                connection.execute(FEDERATED_USER.update().where(mine).values(lost=1))
                connection.execute(USER.update().where(USER.c.name == known.name).values(disabled=1))
                end_all(connection, known.name)
            return None
        if user.disabled and not known.lost:
            raise NotSignedIn("this account was shut out by whoever runs this server")
        connection.execute(FEDERATED_USER.update().where(mine).values(lost=0))
        connection.execute(USER.update().where(USER.c.name == known.name).values(role=identity.role, disabled=0))
        return str(known.name)

    def _added(self, connection: sa.Connection, identity: Identity) -> str:
        name = identity.name
        if connection.execute(select(USER.c.name).where(USER.c.name == name)).first() is not None:
            name = identity.digest  # a user with a password has that name
        connection.execute(USER.insert().values(name=name, password=_NO_PASSWORD, role=identity.role, disabled=0))
        values = {"issuer": identity.issuer, "subject": identity.subject, "name": name, "lost": 0}
        connection.execute(FEDERATED_USER.insert().values(**values))
        return name
