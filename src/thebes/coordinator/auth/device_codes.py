"""Codes by which somebody lets a program in from a page (RFC 8628): the program shows a code, they type it and decide.

What must stay true: a code is found by nobody who tries (34 bits, ten minutes, five tries); the program proves itself
by a longer one, of which a hash alone is kept, and is let in once.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

import sqlalchemy as sa
from sqlalchemy import func, select

from thebes.coordinator.auth.lasting_sessions import LastingSessions, Renewal
from thebes.coordinator.clock import Clock
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import DEVICE_CODE, USER, WRONG_CODE
from thebes.privacy.plain_text import shortened
from thebes.wire.refusals import Busy, NotAllowed, NotFound, NotSignedIn

LETTERS = "BCDFGHJKLMNPQRSTVWXZ"  #: no vowels, so that no word comes out
LENGTH = 8
LIFE = timedelta(minutes=10)
MOST_WRONG = 5
INTERVAL = 5  #: seconds between two looks of a program
_MOST_WAITING = 1000


@dataclass(frozen=True, slots=True)
class WaitingProgram:
    """A program that waits to be let in, as somebody sees it who decides. `client` is its own word."""

    code: str
    client: str
    address: str


class DeviceCodes:
    """The codes in the database."""

    def __init__(self, database: Database, clock: Clock, sessions: LastingSessions) -> None:
        self._database, self._clock, self._sessions = database, clock, sessions

    def begin(self, client: str, address: str) -> tuple[str, str]:
        """Return what a program proves itself by, and the code it shows."""
        device, now = secrets.token_urlsafe(32), self._clock.now()

        def work(connection: sa.Connection) -> str:
            connection.execute(DEVICE_CODE.delete().where(DEVICE_CODE.c.until <= now.timestamp()))
            if connection.execute(select(func.count()).select_from(DEVICE_CODE)).scalar_one() >= _MOST_WAITING:
                raise Busy("too many programs wait to be let in just now", 60.0)
            code = "".join(secrets.choice(LETTERS) for _ in range(LENGTH))
            named = {"client": shortened(client, 100), "address": address, "until": (now + LIFE).timestamp()}
            connection.execute(DEVICE_CODE.insert().values(device=_hashed(device), code=code, refused=0, **named))
            return code

        return device, self._database.write(work)

    def waiting(self, typed: str, user: str) -> WaitingProgram:
        """Return which program shows the code that somebody typed. NotFound for one that is none, which is counted;
        after five of them NotAllowed for ten minutes, whatever is typed."""
        found = self._database.write(lambda connection: self._found(connection, typed, user))
        if found is None:
            raise NotFound("no program waits with this code; compare it letter by letter, or begin again")
        return found

    def decide(self, typed: str, user: str, *, let_in: bool) -> WaitingProgram:
        """Let the program in that shows this code, as this user; or refuse it."""

        def work(connection: sa.Connection) -> WaitingProgram | None:
            found = self._found(connection, typed, user)
            if found is not None:
                values = {"user": user} if let_in else {"refused": 1}
                connection.execute(DEVICE_CODE.update().where(DEVICE_CODE.c.code == found.code).values(**values))
            return found

        decided = self._database.write(work)
        if decided is None:
            raise NotFound("no program waits with this code any more; begin again")
        return decided

    def claim(self, device: str) -> Renewal | None:
        """Begin the session of a program that was let in; None while nobody has decided."""

        def work(connection: sa.Connection) -> Renewal | str | None:
            mine = DEVICE_CODE.c.device == _hashed(device)
            found = connection.execute(select(DEVICE_CODE).where(mine)).first()
            if found is None or found.until <= self._clock.now().timestamp():
                return "expired"
            if found.user is None and not found.refused:
                return None
            if connection.execute(DEVICE_CODE.delete().where(mine)).rowcount != 1:
                return "expired"
            disabled = connection.execute(select(USER.c.disabled).where(USER.c.name == found.user)).scalar()
            return (
                "refused" if found.refused or disabled else self._sessions.begin(connection, found.user, found.client)
            )

        told = self._database.write(work)
        if told == "refused":
            raise NotAllowed("this sign-in was refused on the page")
        if isinstance(told, str):
            raise NotSignedIn("the code is no longer valid; begin again: thebes login")
        return told

    def _found(self, connection: sa.Connection, typed: str, user: str) -> WaitingProgram | None:
        now = self._clock.now()
        own = WRONG_CODE.c.user == user
        connection.execute(WRONG_CODE.delete().where(WRONG_CODE.c.until <= now.timestamp()))
        wrong = connection.execute(select(WRONG_CODE.c.count).where(own)).scalar() or 0
        if wrong >= MOST_WRONG:
            raise NotAllowed(f"{MOST_WRONG} codes were wrong; wait ten minutes, then begin again")
        code = "".join(letter for letter in typed.upper() if letter.isalpha())
        waits = (DEVICE_CODE.c.code == code) & (DEVICE_CODE.c.until > now.timestamp())
        waits &= DEVICE_CODE.c.user.is_(None) & (DEVICE_CODE.c.refused == 0)
        found = connection.execute(select(DEVICE_CODE).where(waits)).first()
        if found is not None:
            return WaitingProgram(found.code, found.client, found.address)
        until = (now + LIFE).timestamp()
        if not connection.execute(
            WRONG_CODE.update().where(own).values(count=WRONG_CODE.c.count + 1, until=until)
        ).rowcount:
            connection.execute(WRONG_CODE.insert().values(user=user, count=1, until=until))
        return None


def shown(code: str) -> str:
    """Write a code as it is read aloud: in two halves."""
    return f"{code[: LENGTH // 2]}-{code[LENGTH // 2 :]}"


def _hashed(device: str) -> str:
    return sha256(device.encode()).hexdigest()
