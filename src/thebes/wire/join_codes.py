"""The one-time code by which a site joins a coordinator: what stands in it, and what both sides prove by it.

What must stay true: the code's secret never travels, so that whoever listens or stands in between can neither join in
the site's place nor change what either side hears; the code names the coordinator's authority, so that even somebody
who has read it shows the site no other. Proofs are HMAC-SHA256 (RFC 2104) under a key of the secret and the site's
name.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from thebes.privacy.faults import Mistake
from thebes.tasks.site_document import SITE_NAME

_SECRET, _AUTHORITY, _CHECK = 16, 16, 3  #: bytes; together 56 letters and digits in base 32
MOST_LETTERS = 200  #: of what somebody types


@dataclass(frozen=True, slots=True)
class JoinCode:
    """A code for one site. `authority` begins the SHA-256 of what the site is to believe: the certificates, as PEM, of
    the coordinator's authority, or of two while another takes its place."""

    site: str
    secret: bytes
    authority: bytes

    @classmethod
    def new(cls, site: str, believed: str) -> Self:
        return cls(site, secrets.token_bytes(_SECRET), sha256(believed.encode()).digest()[:_AUTHORITY])

    @classmethod
    def read(cls, typed: str) -> Self:
        """A code as somebody typed it; a slip of the hand is told apart from a code that counts no longer."""
        site, dot, rest = "".join(typed.split()).lower().rpartition(".")
        letters = rest.replace("-", "")
        wrong = Mistake(
            "code", "is not a join code, or has a wrong letter: copy it again, whole, as the operator gave it"
        )
        if not dot or len(typed) > MOST_LETTERS or not re.fullmatch(SITE_NAME, site):
            raise wrong
        try:
            told = base64.b32decode(letters.upper())
        except ValueError:
            raise wrong from None
        if len(told) != _SECRET + _AUTHORITY + _CHECK:
            raise wrong
        made = cls(site, told[:_SECRET], told[_SECRET : _SECRET + _AUTHORITY])
        if made._check() != told[-_CHECK:]:
            raise wrong
        return made

    def __str__(self) -> str:
        told = base64.b32encode(self.secret + self.authority + self._check()).decode().lower()
        return f"{self.site}.{told}"

    @property
    def name(self) -> str:
        """Tells this code from others, and nothing about it: a digest of 128 random bits."""
        return sha256(b"thebes join code 1\0" + self.secret).hexdigest()

    @property
    def key(self) -> bytes:
        """The key of both proofs, which the coordinator keeps instead of the code."""
        return _mac(self.secret, b"key", self.site.encode())

    def names(self, believed: str) -> bool:
        """Return whether these are the certificates that the code names: all of them, and no others."""
        return hmac.compare_digest(self.authority, sha256(believed.encode()).digest()[:_AUTHORITY])

    def _check(self) -> bytes:
        told = b"\0".join((b"thebes join code check 1", self.site.encode(), self.secret + self.authority))
        return sha256(told).digest()[:_CHECK]


def request_proof(key: bytes, request: str) -> str:
    """Prove that the holder of the code made this request for a certificate."""
    return _mac(key, b"request", request.encode()).hex()


def answer_proof(key: bytes, request: str, certificate: str, authority: str) -> str:
    """Prove that the giver of the code gave this answer to that request."""
    return _mac(key, b"answer", request.encode(), certificate.encode(), authority.encode()).hex()


def equal(shown: str, made: str) -> bool:
    """Compare two proofs in a time that tells nothing of them."""
    return hmac.compare_digest(shown.encode(), made.encode())


def _mac(key: bytes, what: bytes, *parts: bytes) -> bytes:
    """Each part is told apart from the next by its length."""
    said = b"".join(len(part).to_bytes(8, "big") + part for part in (b"thebes join 1", what, *parts))
    return hmac.new(key, said, sha256).digest()
