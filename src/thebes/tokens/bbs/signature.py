"""The authority's blind signature: over its own messages, what a peer committed to, and the entropy it adds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from thebes.tokens.bbs.curve import (
    ORDER,
    POINT_BYTES,
    SCALAR_BYTES,
    FixedPoints,
    KeyPoint,
    Point,
    combine,
    inverse,
    read_key,
    read_point,
    read_scalar,
    signed_by,
    times,
    write_scalar,
)
from thebes.tokens.bbs.suite import P1, Suite, count, write
from thebes.tokens.refusals import Flaw, Flawed

SIGNATURE_BYTES = POINT_BYTES + SCALAR_BYTES


class Issuer:
    """The public side of an authority, worked out once: its key, and all that its signatures have in common."""

    def __init__(self, suite: Suite, public_key: bytes, generators: Sequence[Point], header: bytes) -> None:
        self.suite = suite
        self.key: KeyPoint = read_key(public_key)
        self.generators = tuple(generators[1:])  #: one for each signed scalar
        self.domain = suite.domain(public_key, generators, header)
        self.base = P1 + times(generators[0], self.domain)

    @classmethod
    def of_pseudonyms(
        cls, suite: Suite, public_key: bytes, header: bytes, *, messages: int, committed: int, secrets: int
    ) -> Issuer:
        """One that signs its own `messages`, then a blind, `committed` messages and pseudonym `secrets` of a peer."""
        generators = suite.generators(messages + 1) + suite.blind_generators(committed + secrets + 1)
        return cls(suite, public_key, generators, header + count(secrets))

    @cached_property
    def fixed(self) -> FixedPoints:
        """The base and the generators, for verifying many proofs."""
        return FixedPoints((self.base, *self.generators))

    def signed_point(self, scalars: Sequence[int]) -> Point:
        """Return the point that a signature on these scalars signs."""
        return self.base + combine(self.generators, scalars)


@dataclass(frozen=True, slots=True)
class Signature:
    """A pair (A, e) with A times (secret key + e) equal to what is signed."""

    a: Point
    e: int

    @classmethod
    def read(cls, raw: bytes) -> Signature:
        if len(raw) != SIGNATURE_BYTES:
            raise Flawed(Flaw.LENGTH)
        return cls(read_point(raw[:POINT_BYTES]), read_scalar(raw[POINT_BYTES:]))

    def write(self) -> bytes:
        return write(self.a, self.e)

    def verify(self, issuer: Issuer, scalars: Sequence[int]) -> None:
        """Passes only if the issuer signed exactly these scalars."""
        if not signed_by(issuer.key, self.a, issuer.signed_point(scalars), shift=self.e):
            raise Flawed(Flaw.SIGNATURE)


def sign_blindly(issuer: Issuer, key: int, *, messages: Sequence[int], commitment: Point, entropy: int) -> Signature:
    """A signature on the issuer's messages and a checked commitment, whose last secret grows by `entropy`.

    The published vectors hash (key, B) into e, without the domain that one of the drafts' texts adds.
    """
    own = combine(issuer.generators[: len(messages)], messages)
    point = issuer.base + own + commitment + times(issuer.generators[-1], entropy)
    return sign_point(key, issuer.suite.hash_to_scalar(write_scalar(key) + write(point)), point)


def sign_point(key: int, e: int, point: Point) -> Signature:
    if (key + e) % ORDER == 0:
        raise ValueError("this key cannot sign this point")  # one chance in the order of the group
    return Signature(times(point, inverse(key + e)), e)
