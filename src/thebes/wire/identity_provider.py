"""The identity provider of an institution, by OpenID Connect: who somebody is, by the code flow with PKCE.

What must stay true: only the issuer that a home's settings name is trusted, and what it discovers below itself; a token
counts only if the provider signed it, for this client, for the sign-in that began here, and not long ago. The
algorithms are listed here, never taken from a token.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import jwt
from pydantic import BaseModel, ConfigDict, Field, field_validator

from thebes.confinement import answers
from thebes.privacy.faults import Mistake
from thebes.privacy.reading import NotJSON, read_json
from thebes.wire.address import is_loopback
from thebes.wire.refusals import NotSignedIn, Unreachable

ALGORITHMS = ["RS256", "ES256", "EdDSA"]  #: never "none" and none with a shared secret: the provider's key is public
SECONDS = 10.0  #: for each answer of the provider
LEEWAY = 60  #: seconds by which clocks may differ
_MOST_BYTES = 2**20  #: of an answer
_KEYS_LAST = 600.0  #: seconds
_KEYS_AGAIN = 10.0  #: seconds between two looks for a key that is not known
_LONGEST = 255  #: characters of a subject, as the standard has it
_LONGEST_NAME = 64
_MOST_BEGUN = 100


class ProviderSettings(BaseModel):
    """The provider, and which of its groups (values of `claim`) have which role here. Whose home this is names the
    roles that there are."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    issuer: str = Field(min_length=1, max_length=1000)
    client_id: str = Field(min_length=1, max_length=1000)
    client_secret_file: str | None = Field(default=None, min_length=1, max_length=4096)
    claim: str = Field(default="groups", min_length=1, max_length=200)
    roles: dict[str, str] = Field(min_length=1, max_length=1000)
    #: asked for besides openid and profile; some providers want a scope of its own for groups
    scopes: list[str] = Field(default=[], max_length=20)

    @field_validator("issuer")
    @classmethod
    def _address(cls, value: str) -> str:
        parts = urlsplit(value)
        secure = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
        if not secure or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("must be an https:// address, as the provider calls itself")
        return value

    @field_validator("roles")
    @classmethod
    def _roles(cls, value: dict[str, str]) -> dict[str, str]:
        if unknown := next((role for role in value.values() if role not in cls.ranks()), None):
            raise ValueError(f"gives the role {unknown[:40]!r}, which is none of {', '.join(cls.ranks())}")
        return value

    @classmethod
    def ranks(cls) -> Sequence[str]:
        """The roles that there are, the strongest first."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class BegunSignIn:
    """A sign-in that is under way: the address at the provider, and what it must come back with."""

    url: str
    state: str
    nonce: str
    verifier: str


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of somebody, as the provider says it, and the role that their groups have; None: none here."""

    issuer: str
    subject: str
    role: str | None

    @property
    def name(self) -> str:
        """The name by which they are shown: subject and provider if they make a name, else `digest`."""
        name = f"{self.subject}@{urlsplit(self.issuer).hostname or ''}"
        return name if re.fullmatch(r"[A-Za-z0-9._@-]+", name) and len(name) <= _LONGEST_NAME else self.digest

    @property
    def digest(self) -> str:
        """A name that nobody else has: a digest of issuer and subject."""
        return "oidc-" + hashlib.sha256(f"{self.issuer}\0{self.subject}".encode()).hexdigest()[:32]


class IdentityProvider:
    """The provider, for several threads. Its keys are kept for minutes, and looked for anew when one is missing.
    `now` tells seconds since 1970."""

    def __init__(self, settings: ProviderSettings, secret: str | None, now: Callable[[], float]) -> None:
        self.settings, self._secret, self._now = settings, secret, now
        self._lock = threading.Lock()
        self._facts: dict[str, Any] | None = None
        self._keys: jwt.PyJWKSet | None = None
        self._looked = 0.0

    def begin(self, back: str) -> BegunSignIn:
        """Return where to send somebody, who comes back to the address `back`."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        asked = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": back,
            "scope": " ".join(["openid", "profile", *self.settings.scopes]),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        place = self._endpoint("authorization_endpoint")
        self._check_pkce()
        return BegunSignIn(f"{place}{'&' if '?' in place else '?'}{urlencode(asked)}", state, nonce, verifier)

    def finish(self, begun: BegunSignIn, back: str, *, state: str, code: str) -> Identity:
        """Return who came back; NotSignedIn where that is not proved."""
        if not secrets.compare_digest(state.encode(), begun.state.encode()):
            raise NotSignedIn("this sign-in was not begun in this browser; begin it again")
        told = {"grant_type": "authorization_code", "code": code, "redirect_uri": back, "code_verifier": begun.verifier}
        if self._secret is None:
            told["client_id"] = self.settings.client_id
        auth = None if self._secret is None else (self.settings.client_id, self._secret)
        answer = self._asked("POST", self._endpoint("token_endpoint"), data=told, auth=auth)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise NotSignedIn("the identity provider did not say who you are; begin the sign-in again")
        return self.checked(token, begun.nonce)

    def checked(self, token: str, nonce: str) -> Identity:
        """Return whose token this is, if the provider made it for this client and this sign-in."""
        try:
            claims = jwt.decode(
                token,
                self._key_of(token),
                algorithms=ALGORITHMS,
                audience=self.settings.client_id,
                issuer=self.settings.issuer,
                # Times are compared below, with the one clock there is.
                options={
                    "require": ["exp", "iat", "iss", "aud", "sub"],
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                },
            )
            now = self._now()
            fresh = float(claims["iat"]) - LEEWAY <= now < float(claims["exp"]) + LEEWAY
        except (jwt.PyJWTError, TypeError, ValueError):
            raise _unproved() from None
        said, subject = claims.get("nonce"), claims["sub"]
        mine = isinstance(said, str) and secrets.compare_digest(said.encode(), nonce.encode())
        # Somebody else's token for us too, where there are several audiences, must name us as the party.
        several = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        party = claims.get("azp", None if several else self.settings.client_id) == self.settings.client_id
        if not fresh or not mine or not party or not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST:
            raise _unproved()
        return Identity(self.settings.issuer, subject, self._role(claims.get(self.settings.claim)))

    def _role(self, groups: object) -> str | None:
        """Return the strongest role that these groups have."""
        told = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
        had = {group for group in told if isinstance(group, str)}
        given = {role for group, role in self.settings.roles.items() if group in had}
        return next((role for role in self.settings.ranks() if role in given), None)

    # --- the provider -------------------------------------------------------------------------------------

    def _endpoint(self, name: str) -> str:
        with self._lock:
            if self._facts is None:
                issuer = self.settings.issuer.rstrip("/")
                found = self._asked("GET", f"{issuer}/.well-known/openid-configuration")
                if found.get("issuer") != self.settings.issuer:
                    raise Mistake("oidc.issuer", "is not how the provider calls itself; write it exactly so")
                self._facts = found
            place = self._facts.get(name)
        parts = urlsplit(place) if isinstance(place, str) else None
        if parts is None or not (parts.scheme == "https" or is_loopback(parts.hostname or "")):
            raise Mistake("oidc.issuer", f"discovers no {name} that is an https:// address")
        return str(place)

    def _check_pkce(self) -> None:
        """Refuse a client without a secret where the provider does not say that it checks PKCE: nothing else would bind
        a code to whoever began the sign-in."""
        methods = (self._facts or {}).get("code_challenge_methods_supported")
        if self._secret is None and not (isinstance(methods, list) and "S256" in methods):
            raise Mistake(
                "oidc.client_secret_file",
                "is missing, and the provider does not say that it checks PKCE (S256 among its"
                " code_challenge_methods_supported); register a client with a secret there, and name its file",
            )

    def _key_of(self, token: str) -> jwt.PyJWK:
        """Return the provider's key that a token names; look for its keys anew where it is not among them."""
        named = jwt.get_unverified_header(token).get("kid")
        for _ in range(2):
            keys = [key for key in self._known_keys().keys if named is None or key.key_id == named]
            if len(keys) == 1:
                return keys[0]
            if not self._look_again():
                break
        raise _unproved()

    def _known_keys(self) -> jwt.PyJWKSet:
        now = self._now()
        with self._lock:
            kept = self._keys if now - self._looked < _KEYS_LAST else None
        if kept is None:
            found = self._asked("GET", self._endpoint("jwks_uri"))
            try:
                kept = jwt.PyJWKSet.from_dict(found)
            except (jwt.PyJWTError, TypeError, ValueError, AttributeError):
                raise Unreachable("the identity provider", "shows no keys that can be read") from None
            with self._lock:
                self._keys, self._looked = kept, now
        return kept

    def _look_again(self) -> bool:
        """Forget the keys, unless they were looked for just now: nobody makes us ask without end."""
        with self._lock:
            if self._now() - self._looked < _KEYS_AGAIN:
                return False
            self._keys, self._looked = None, float("-inf")
            return True

    def _asked(self, method: str, place: str, **more: Any) -> dict[str, Any]:
        try:
            with answers.client(seconds=SECONDS, most_bytes=_MOST_BYTES, follow_redirects=False) as client:
                answer = client.request(method, place, headers={"accept": "application/json"}, **more)
                body, status = answer.content, answer.status_code
        except httpx.HTTPError:
            raise Unreachable("the identity provider", "does not answer; try again, or use a password") from None
        if status in (400, 401, 403):
            raise NotSignedIn("the identity provider does not accept this sign-in; begin it again")
        try:
            found = read_json(body) if status == 200 else None
        except NotJSON:
            found = None
        if not isinstance(found, dict):
            raise Unreachable("the identity provider", "does not answer as one does; its operator finds why")
        return found


class BegunSignIns:
    """The sign-ins that left from here and did not come back yet, each under a name that its browser keeps: it counts
    once, and for `seconds`."""

    def __init__(self, seconds: float, now: Callable[[], float]) -> None:
        self._seconds, self._now = seconds, now
        self._kept: dict[str, tuple[BegunSignIn, float]] = {}  # until when, oldest first

    def keep(self, begun: BegunSignIn) -> str:
        name, until = secrets.token_urlsafe(32), self._now() + self._seconds
        self._kept = dict([*self._kept.items(), (name, (begun, until))][-_MOST_BEGUN:])
        return name

    def take(self, name: str) -> BegunSignIn | None:
        """Return what was begun under a name; None where it was taken before, or is too old."""
        begun, until = self._kept.pop(name, (None, 0.0))
        return begun if self._now() < until else None


def secret_of(settings: ProviderSettings, folder: Path) -> str | None:
    """Return the secret in its file beside the settings; None of a public client."""
    if settings.client_secret_file is None:
        return None
    path = folder / settings.client_secret_file
    try:
        if path.stat().st_mode & 0o077:
            raise Mistake(
                "oidc.client_secret_file", f"{path.name} must be a file that only its owner reads (chmod 600)"
            )
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise Mistake("oidc.client_secret_file", f"cannot read {path.name}: {type(error).__name__}") from None


def _unproved() -> NotSignedIn:
    return NotSignedIn("what came back does not prove who you are; begin the sign-in again")
