"""Sessions of users: those of programs that last, where each renewal gives a new token and ends the one before, and
those of a quarter of an hour, which are noted so that they can be listed and ended.

What must stay true: a token counts once, and one that is shown again ends its whole session, whoever shows it
(RFC 9700, section 4.14.2): of a thief and the owner nobody can tell which is which. What is kept of a token is a hash
under the session key, so that a copy of the database renews nothing and another key ends all sessions.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy import select

from thebes.coordinator.clock import Clock
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import DEVICE_CODE, LASTING_SESSION, USER
from thebes.wire.refusals import NotFound, NotSignedIn

UNUSED = timedelta(hours=12)  #: after so long without a renewal a session has ended
LONGEST = timedelta(days=30)
_RENEWED_BY_NONE = ""  #: no hash, which no token has
_OVER = "this sign-in has ended; sign in again: thebes login"


@dataclass(frozen=True, slots=True)
class Renewal:
    """A session as its program goes on with it: `token` is for one renewal, at `until` the latest."""

    session: str
    user: str
    token: str
    until: datetime


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """A session that goes on, as its user and operators see it: `client` is what the program calls itself, or by which
    way somebody signed in."""

    id: str
    user: str
    client: str
    began: datetime
    until: datetime


class LastingSessions:
    """The sessions in the database. `key` is asked for each time, as it may be replaced."""

    def __init__(self, database: Database, clock: Clock, key: Callable[[], bytes]) -> None:
        self._database, self._clock, self._key = database, clock, key

    def begin(self, connection: sa.Connection, user: str, client: str) -> Renewal:
        """Begin a session inside the caller's transaction."""
        now = self._clock.now()
        session, secret, until = secrets.token_hex(16), secrets.token_urlsafe(32), now + UNUSED
        values = {"user": user, "client": client, "token": self._hashed(secret), "began": now.timestamp()}
        connection.execute(LASTING_SESSION.delete().where(LASTING_SESSION.c.until < now.timestamp()))
        connection.execute(LASTING_SESSION.insert().values(id=session, until=until.timestamp(), **values))
        return Renewal(session, user, f"{session}.{secret}", until)

    def note(self, user: str, client: str, until: datetime, password: str | None = None) -> str:
        """Note a session that nothing renews; its id. NotSignedIn where the user was shut out meanwhile, or no longer
        has the password of which this hash was verified."""
        session, now = secrets.token_hex(16), self._clock.now().timestamp()
        values = {"user": user, "client": client, "token": _RENEWED_BY_NONE, "began": now, "until": until.timestamp()}

        same = [USER.c.name == user, USER.c.disabled == 0]
        same += [] if password is None else [USER.c.password == password]

        def work(connection: sa.Connection) -> None:
            # Held until the session is there: a change of the password finds and ends it, or was before it.
            if connection.execute(select(USER.c.name).where(*same).with_for_update()).first() is None:
                raise NotSignedIn("the account or its password was changed just now; sign in again")
            connection.execute(LASTING_SESSION.delete().where(LASTING_SESSION.c.until < now))
            connection.execute(LASTING_SESSION.insert().values(id=session, **values))

        self._database.write(work)
        return session

    def listed(self, user: str | None = None) -> list[SessionFacts]:
        """List the sessions that go on, newest first; of one user, where one is named."""
        mine = [LASTING_SESSION.c.until > self._clock.now().timestamp()]
        mine += [] if user is None else [LASTING_SESSION.c.user == user]
        query = select(LASTING_SESSION).where(*mine).order_by(LASTING_SESSION.c.began.desc(), LASTING_SESSION.c.id)
        rows = self._database.read(lambda c: c.execute(query).all())
        times = [(datetime.fromtimestamp(row.began, UTC), datetime.fromtimestamp(row.until, UTC)) for row in rows]
        return [SessionFacts(row.id, row.user, row.client, *each) for row, each in zip(rows, times, strict=True)]

    def end_listed(self, session: str, user: str | None = None) -> None:
        """End one by its id, at once; of one user, where one is named. NotFound where there is no such."""
        mine = [LASTING_SESSION.c.id == session, LASTING_SESSION.c.until > self._clock.now().timestamp()]
        mine += [] if user is None else [LASTING_SESSION.c.user == user]
        if self._database.write(lambda c: c.execute(LASTING_SESSION.delete().where(*mine)).rowcount) != 1:
            raise NotFound("there is no such session, or it has ended")

    def end_noted(self, session: str) -> None:
        """End one that nothing renews; one that a program renews goes on."""
        mine = (LASTING_SESSION.c.id == session, LASTING_SESSION.c.token == _RENEWED_BY_NONE)
        self._database.write(lambda c: c.execute(LASTING_SESSION.delete().where(*mine)))

    def renew(self, token: str) -> Renewal:
        """Give a new token for one that counts; NotSignedIn, and the session has ended, for one that does no longer."""
        session, _, secret = token.partition(".")  # one that nothing renews ends here like any other that is tried
        mine, fresh, now = LASTING_SESSION.c.id == session, secrets.token_urlsafe(32), self._clock.now()

        def work(connection: sa.Connection) -> Renewal | None:
            found = connection.execute(
                select(LASTING_SESSION, USER.c.disabled).join(USER, USER.c.name == LASTING_SESSION.c.user).where(mine)
            ).first()
            if found is None:
                return None
            until = min(now + UNUSED, datetime.fromtimestamp(found.began, UTC) + LONGEST)
            if now.timestamp() < found.until and not found.disabled:
                same = mine & (LASTING_SESSION.c.token == self._hashed(secret))
                values = {"token": self._hashed(fresh), "until": until.timestamp()}
                if connection.execute(LASTING_SESSION.update().where(same).values(**values)).rowcount == 1:
                    return Renewal(session, found.user, f"{session}.{fresh}", until)
            connection.execute(LASTING_SESSION.delete().where(mine))
            return None

        renewed = self._database.write(work)
        if renewed is None:
            raise NotSignedIn(_OVER)
        return renewed

    def lives(self, session: str) -> bool:
        """Return whether a session goes on."""
        known = select(LASTING_SESSION.c.until).where(LASTING_SESSION.c.id == session)
        row = self._database.read(lambda c: c.execute(known).first())
        return row is not None and self._clock.now().timestamp() < row.until

    def end(self, token: str) -> None:
        """End the session of a token that counts; anything else is left alone."""
        session, _, secret = token.partition(".")
        same = (LASTING_SESSION.c.id == session) & (LASTING_SESSION.c.token == self._hashed(secret))
        self._database.write(lambda c: c.execute(LASTING_SESSION.delete().where(same)))

    def _hashed(self, secret: str) -> str:
        return hmac.new(self._key(), b"thebes renewal " + secret.encode(), "sha256").hexdigest()


def end_all(connection: sa.Connection, user: str) -> None:
    """End what a user began: every session, and every program that was let in and has not begun its own yet. Those
    first: one that begins meanwhile has its session by then, or begins none."""
    connection.execute(DEVICE_CODE.delete().where(DEVICE_CODE.c.user == user))
    connection.execute(LASTING_SESSION.delete().where(LASTING_SESSION.c.user == user))
