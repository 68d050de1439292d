"""The accounts of who may ask: users with passwords and roles, the tokens they get for a quarter of an hour, the
operator's token.

What must stay true: a password is kept as argon2id only; an unknown name takes as long as a wrong password;
a token is read with one algorithm and one key, and counts only while its user does and nobody ended it.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

import jwt
import sqlalchemy as sa
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerifyMismatchError
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import select

from thebes.coordinator.auth.capabilities import Capabilities
from thebes.coordinator.auth.device_codes import DeviceCodes
from thebes.coordinator.auth.federated_users import FederatedUsers
from thebes.coordinator.auth.lasting_sessions import LastingSessions, Renewal, end_all
from thebes.coordinator.clock import Clock
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import ENDED, FEDERATED_USER, USER
from thebes.privacy.faults import Mistake
from thebes.wire.refusals import Conflict, NotAllowed, NotFound, NotSignedIn

LIFE = timedelta(minutes=15)
LONGEST_NAME = 64
SHORTEST_PASSWORD, LONGEST_PASSWORD = 12, 1024
_ISSUER = "thebes coordinator"
_AUDIENCE = "thebes api"
_BROWSER = "thebes browser"  #: of what a browser keeps for us, which is no token
_NEEDED = ["exp", "iat", "iss", "aud", "sub", "jti"]


class Role(StrEnum):
    """The role that says what a user may do. Everybody may read tasks, releases and the list without any."""

    REQUESTOR = "requestor"  #: put tasks up, cancel one's own
    OPERATOR = "operator"  #: the same, cancel anybody's, publish collectors' schemas
    AUDITOR = "auditor"  #: known by name, changes nothing


@dataclass(frozen=True, slots=True)
class Somebody:
    """The one who asks."""

    name: str
    role: Role


#: whoever holds admin.token; no user can have a name with a space
ADMIN = Somebody("the operator", Role.OPERATOR)


@dataclass(frozen=True, slots=True)
class User:
    """A user as `thebes user list` shows them."""

    name: str
    role: Role
    disabled: bool


class Accounts:
    """The users in the database and the tokens they are given. The operator's token and the key of sessions are asked
    for each time they are needed, so that others count as soon as they were replaced. `hasher` is for tests that are
    not about passwords: nothing that serves gives one."""

    def __init__(
        self,
        database: Database,
        *,
        admin_token: Callable[[], str],
        session_key: Callable[[], bytes],
        clock: Clock,
        hasher: PasswordHasher | None = None,
    ) -> None:
        self._database = database
        self._admin_token = admin_token
        self._session_key = session_key
        self._clock = clock
        self._hasher = hasher or PasswordHasher(time_cost=3, memory_cost=64 * 1024, parallelism=4)
        self._nobody: str | None = None
        self.capabilities = Capabilities(database)
        self.lasting = LastingSessions(database, clock, session_key)
        self.devices = DeviceCodes(database, clock, self.lasting)
        self.federated = FederatedUsers(database, partial(self._begun, client="an identity provider"))

    # --- users ------------------------------------------------------------------------------------------

    def add(self, name: str, password: str, role: Role) -> None:
        """A new user; the name must be free."""
        if not name.isascii() or not name.isprintable() or not 0 < len(name) <= LONGEST_NAME or {" ", ","} & {*name}:
            raise Mistake("NAME", f"must be 1 to {LONGEST_NAME} printable ASCII characters without spaces or commas")
        hashed = self._hashed(password)

        def work(connection: sa.Connection) -> None:
            if connection.execute(select(USER.c.name).where(USER.c.name == name)).first() is not None:
                raise Conflict(f"there is a user {name!r} already")
            connection.execute(USER.insert().values(name=name, password=hashed, role=str(role), disabled=0))

        self._database.write(work)

    def users(self) -> list[User]:
        """Everybody, by name."""
        query = select(USER.c.name, USER.c.role, USER.c.disabled).order_by(USER.c.name)
        rows = self._database.read(lambda c: c.execute(query).all())
        return [User(row.name, Role(row.role), bool(row.disabled)) for row in rows]

    def change_password(self, name: str, password: str) -> None:
        """Another password; the one before logs nobody in any more, and every session of before has ended."""
        self._change(name, password=self._hashed(password))

    def _hashed(self, password: str) -> str:
        if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
            raise Mistake("password", f"must have {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters")
        return self._hasher.hash(password)

    def disable(self, name: str) -> None:
        """From now on neither the user's password nor a token given before counts."""
        self._change(name, disabled=1)

    def grant(self, name: str, role: Role) -> None:
        """Give a user this role instead of the one before, and let a disabled one in again."""
        self._change(name, role=str(role), disabled=0)

    def _change(self, name: str, **values: Any) -> None:
        def work(connection: sa.Connection) -> int:
            # The user first: a login at the same time waits for this, or what it began is ended below.
            found = connection.execute(USER.update().where(USER.c.name == name).values(**values)).rowcount
            if "password" in values or values.get("disabled"):
                end_all(connection, name)
            if "disabled" in values:  # by an operator, whatever a provider said before
                connection.execute(FEDERATED_USER.update().where(FEDERATED_USER.c.name == name).values(lost=0))
            return found

        if self._database.write(work) != 1:
            raise NotFound(f"there is no user {name!r}")

    def _renew(self, name: str, before: str, hashed: str) -> None:
        """The same password at another cost, unless it was changed meanwhile."""
        same = (USER.c.name == name) & (USER.c.password == before)
        self._database.write(lambda c: c.execute(USER.update().where(same).values(password=hashed)))

    # --- tokens -----------------------------------------------------------------------------------------

    def login(self, name: str, password: str) -> tuple[str, datetime]:
        """A token and when it ends; slow on purpose."""
        found = self._found(name) if name.isascii() and name.isprintable() else None
        if self._nobody is None:
            self._nobody = self._hasher.hash(secrets.token_hex(16))
        try:
            self._hasher.verify(self._nobody if found is None else found[0], password[:LONGEST_PASSWORD])
        except (VerifyMismatchError, InvalidHashError):
            found = None
        if found is None or found[2] or len(password) > LONGEST_PASSWORD:
            raise NotSignedIn("there is no such user with this password")
        verified = found[0]
        if self._hasher.check_needs_rehash(verified):
            verified = self._hasher.hash(password)
            self._renew(name, found[0], verified)
        return self._begun(name, client="a password", password=verified)

    def _begun(self, name: str, *, client: str, password: str | None = None) -> tuple[str, datetime]:
        """A token of a session that begins now, and when both end; `password` is the hash that it rests on."""
        session = self.lasting.note(name, client, self._clock.now() + LIFE, password)
        return self._token(name, session=session)

    def access(self, renewal: Renewal) -> tuple[str, datetime]:
        """A token of a session that lasts, and when it ends; it ends with its session."""
        return self._token(renewal.user, session=renewal.session)

    def who(self, bearer: str) -> Somebody:
        """Return whose token this is."""
        if self._is_admins(bearer):
            return ADMIN
        claims = self._claims(bearer)
        admin, of = claims["sub"] == ADMIN.name, claims.get("ses")
        found = None if admin else self._found(claims["sub"])
        if not admin and (found is None or found[2]):
            raise NotSignedIn("the token's user may no longer log in")
        if self._ended(claims["jti"]) or (of is not None and not self.lasting.lives(str(of))):
            raise NotSignedIn("the session was ended; log in again")
        return ADMIN if found is None else Somebody(claims["sub"], found[1])

    def session(self, bearer: str) -> str:
        """Return what a browser keeps for whoever has this token: one that ends by itself, also for the operator's,
        which does not. A browser hands a cookie to every port of the host."""
        return self._token(ADMIN.name)[0] if self._is_admins(bearer) else bearer

    def end(self, bearer: str) -> None:
        """This token counts no longer, whoever has a copy of it. The operator's own is replaced by `thebes rotate`; one
        that counts no longer anyway is left alone."""
        if self._is_admins(bearer):
            return
        try:
            claims = self._claims(bearer)
        except NotSignedIn:
            return

        def work(connection: sa.Connection) -> None:
            connection.execute(ENDED.delete().where(ENDED.c.until < self._clock.now().timestamp()))
            if connection.execute(select(ENDED.c.id).where(ENDED.c.id == claims["jti"])).first() is None:
                connection.execute(ENDED.insert().values(id=claims["jti"], until=claims["exp"]))

        self._database.write(work)
        if (session := claims.get("ses")) is not None:
            self.lasting.end_noted(str(session))

    def session_of(self, bearer: str) -> str | None:
        """Return the id of the session that a token is of; None of the operator's, and of one that does not count."""
        try:
            found = self._claims(bearer).get("ses")
        except NotSignedIn:
            return None
        return None if found is None else str(found)

    def sealed(self, facts: dict[str, str], seconds: float) -> str:
        """Return facts that a browser keeps for us so long, and cannot change."""
        ends = int(self._clock.now().timestamp() + seconds)
        return jwt.encode({**facts, "aud": _BROWSER, "exp": ends}, self._key(), algorithm="EdDSA")

    def unsealed(self, kept: str) -> dict[str, str] | None:
        """Return what was sealed; None where it was not by us, or it is too late."""
        options: Any = {"require": ["exp", "aud"], "verify_exp": False}
        try:
            found = jwt.decode(kept, self._key().public_key(), algorithms=["EdDSA"], audience=_BROWSER, options=options)
        except (jwt.PyJWTError, ValueError):
            return None
        late = self._clock.now().timestamp() >= found["exp"]
        return None if late else {name: value for name, value in found.items() if isinstance(value, str)}

    def _ended(self, session: str) -> bool:
        known = select(ENDED.c.id).where(ENDED.c.id == session)
        return self._database.read(lambda c: c.execute(known).first()) is not None

    def ends(self, bearer: str) -> datetime | None:
        """Return when this token stops counting; None for the operator's own, which does not."""
        if self._is_admins(bearer):
            return None
        return datetime.fromtimestamp(self._claims(bearer)["exp"], UTC)

    def _is_admins(self, bearer: str) -> bool:
        return hmac.compare_digest(bearer.encode(), self._admin_token().encode())

    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self._session_key())

    def _claims(self, bearer: str) -> dict[str, Any]:
        """Return what a token of this coordinator says that still counts."""
        now = self._clock.now().timestamp()
        try:
            claims: dict[str, Any] = jwt.decode(
                bearer,
                self._key().public_key(),
                algorithms=["EdDSA"],
                audience=_AUDIENCE,
                issuer=_ISSUER,
                # Times are compared below, with the one clock there is.
                options={"require": _NEEDED, "verify_exp": False, "verify_iat": False, "verify_nbf": False},
            )
        except (jwt.PyJWTError, ValueError):
            raise NotSignedIn("the token is not one of this coordinator's") from None
        if not claims["iat"] <= now < claims["exp"] <= claims["iat"] + LIFE.total_seconds():
            raise NotSignedIn("the token is no longer valid; log in again")
        return claims

    def _token(self, name: str, *, session: str | None = None) -> tuple[str, datetime]:
        now = self._clock.now().replace(microsecond=0)
        claims = {
            "iss": _ISSUER,
            "aud": _AUDIENCE,
            "sub": name,
            "jti": secrets.token_hex(16),
            "iat": int(now.timestamp()),
            "exp": int((now + LIFE).timestamp()),
            **({} if session is None else {"ses": session}),
        }
        return jwt.encode(claims, self._key(), algorithm="EdDSA"), now + LIFE

    def _found(self, name: str) -> tuple[str, Role, bool] | None:
        row = self._database.read(lambda c: c.execute(select(USER).where(USER.c.name == name)).first())
        return None if row is None else (row.password, Role(row.role), bool(row.disabled))


def operates(asking: Somebody) -> None:
    """Refuse everybody but operators."""
    if asking.role is not Role.OPERATOR:
        raise NotAllowed("only operators see and change users, groups and join codes")
