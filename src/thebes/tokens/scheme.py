"""The abilities that a scheme of anonymous credentials must have: bytes in, bytes out, nothing remembered.

Rooms above never name a scheme; a group's parameters do, so that another one can come beside the first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from thebes.tokens.refusals import Flaw


@dataclass(frozen=True, slots=True)
class PresentedToken:
    """One token as its verifier meets it: what it must be bound to, and its bytes."""

    context: bytes
    binding: bytes
    core: bytes


class Scheme(ABC):
    """Blindly signed secrets, shown under one pseudonym per context.

    `header` is the same for everybody in a group and epoch. A method raises `Flawed` for bytes that it does not
    accept, and never anything else, whatever those bytes are. None takes chance from its caller.
    """

    name: str
    #: the first byte of every request, response and token of this scheme
    version: int
    request_bytes: int
    response_bytes: int
    token_bytes: int

    @property
    @abstractmethod
    def fingerprint(self) -> bytes:
        """SHA-256 of the public constants that both sides derive by themselves."""

    @abstractmethod
    def new_key(self) -> bytes:
        """A fresh secret key for an authority."""

    @abstractmethod
    def public_key(self, key: bytes) -> bytes:
        """The public half of a secret key."""

    @abstractmethod
    def check_public_key(self, public_key: bytes) -> None:
        """Passes only for a key that tokens may be verified under."""

    @abstractmethod
    def request(self) -> tuple[bytes, bytes]:
        """(what the authority is sent and can read nothing from, what the peer keeps secret)."""

    @abstractmethod
    def answer(self, key: bytes, header: bytes, request: bytes) -> bytes:
        """The authority's blind signature; the same request always gets the same answer."""

    @abstractmethod
    def finish(self, public_key: bytes, header: bytes, secret: bytes, response: bytes) -> bytes:
        """The credential, once the response is verified under this key and header."""

    @abstractmethod
    def check_credential(self, public_key: bytes, header: bytes, credential: bytes) -> None:
        """Passes only for a credential of this key and header."""

    @abstractmethod
    def pseudonym(self, credential: bytes, context: bytes) -> bytes:
        """The pseudonym that every token of this credential shows in this context."""

    @abstractmethod
    def present(self, public_key: bytes, header: bytes, credential: bytes, context: bytes, binding: bytes) -> bytes:
        """A token for this context and no other, bound to `binding`; fresh each time, its pseudonym always the same."""

    @abstractmethod
    def verify(self, public_key: bytes, header: bytes, shown: Sequence[PresentedToken]) -> list[bytes | Flaw]:
        """For each token the pseudonym it proves, or what is wrong with it; one bad token never spoils another."""
