"""A proof that one holds a signature, and that a pseudonym belongs to what is signed, and of nothing else.

Bound by its challenge to the disclosed messages, the issuer's domain, the context and a presentation header. The
proof is zero-knowledge in the random oracle model: whoever sees it learns that it is true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thebes.tokens.bbs.curve import (
    ORDER,
    POINT_BYTES,
    SCALAR_BYTES,
    Point,
    combine,
    inverse,
    read_point,
    read_scalars,
    times,
)
from thebes.tokens.bbs.pseudonym import ContextPoint
from thebes.tokens.bbs.signature import Issuer, Signature
from thebes.tokens.bbs.suite import count, prefixed, write
from thebes.tokens.refusals import Flaw, Flawed

OWN_MASKS = 5  #: masks that a proof needs beside one for each hidden scalar
Disclosed = Mapping[int, int]  # index of a signed scalar -> its value


@dataclass(frozen=True, slots=True)
class Proof:
    """The three blinded points, the responses and the challenge of one proof."""

    a: Point
    b: Point
    d: Point
    e: int
    r1: int
    r3: int
    hidden: tuple[int, ...]
    challenge: int

    @classmethod
    def read(cls, raw: bytes, hidden: int) -> Proof:
        """A proof that keeps exactly `hidden` scalars to itself."""
        if len(raw) != length(hidden):
            raise Flawed(Flaw.LENGTH)
        a, b, d = (read_point(raw[start : start + POINT_BYTES]) for start in range(0, 3 * POINT_BYTES, POINT_BYTES))
        e, r1, r3, *shown, challenge = read_scalars(raw[3 * POINT_BYTES :])
        return cls(a, b, d, e, r1, r3, tuple(shown), challenge)

    def write(self) -> bytes:
        return write(self.a, self.b, self.d, self.e, self.r1, self.r3, *self.hidden, self.challenge)

    def commitments(self, issuer: Issuer, disclosed: Disclosed) -> tuple[Point, Point]:
        """The two points that the prover must have begun with, if the proof is true."""
        if len(self.hidden) + len(disclosed) != len(issuer.generators):
            raise Flawed(Flaw.LENGTH)
        first = combine((self.b, self.a, self.d), (self.challenge, self.e, self.r1))
        left = iter(self.hidden)
        scalars = [
            disclosed[index] * self.challenge if index in disclosed else next(left)
            for index in range(len(issuer.generators))
        ]
        return first, issuer.fixed.combine([self.challenge, *scalars]) + times(self.d, self.r3)


def length(hidden: int) -> int:
    """The bytes of a proof that keeps so many scalars to itself."""
    return 3 * POINT_BYTES + (hidden + 4) * SCALAR_BYTES


def challenge_of(issuer: Issuer, disclosed: Disclosed, points: Sequence[Point], *bound: bytes) -> int:
    """The challenge: everything the proof says, then everything it is bound to."""
    shown = b"".join(count(index) + write(value) for index, value in sorted(disclosed.items()))
    transcript = count(len(disclosed)) + shown + write(*points, issuer.domain) + prefixed(*bound)
    return issuer.suite.hash_to_scalar(transcript)


def prove(
    issuer: Issuer,
    signature: Signature,
    scalars: Sequence[int],
    disclosed: Sequence[int],
    *,
    context: ContextPoint,
    secrets: int,
    header: bytes,
    masks: Sequence[int],
) -> tuple[Proof, Point]:
    """The proof and the pseudonym. The last `secrets` of the signed scalars are the pseudonym's, and stay hidden.

    `masks` are secret and used once: two proofs with the same masks reveal the secrets.
    """
    hidden = [index for index in range(len(scalars)) if index not in disclosed]
    r1, r2, e_mask, r1_mask, r3_mask, *own_masks = masks
    d = times(issuer.signed_point(scalars), r2)
    a = times(signature.a, r1 * r2)
    b = combine((d, a), (r1, -signature.e))
    first = combine((a, d), (e_mask, r1_mask))
    second = combine((d, *(issuer.generators[index] for index in hidden)), (r3_mask, *own_masks))
    pseudonym = context.pseudonym(scalars[-secrets:])
    third = context.pseudonym(own_masks[-secrets:])
    shown = {index: scalars[index] for index in disclosed}
    c = challenge_of(issuer, shown, (a, b, d, first, second, pseudonym, third), header, context.digest)
    proof = Proof(
        a,
        b,
        d,
        (e_mask + signature.e * c) % ORDER,
        (r1_mask - r1 * c) % ORDER,
        (r3_mask - inverse(r2) * c) % ORDER,
        tuple((mask + scalars[index] * c) % ORDER for mask, index in zip(own_masks, hidden, strict=True)),
        c,
    )
    return proof, pseudonym


def check(
    issuer: Issuer,
    proof: Proof,
    pseudonym: Point,
    disclosed: Disclosed,
    *,
    context: ContextPoint,
    secrets: int,
    header: bytes,
) -> None:
    """Passes if the proof is true *provided that* `proof.b` is `proof.a` times the issuer's key.

    The caller must still check that by a pairing (`batch.verified`): without it nothing is proven.
    """
    first, second = proof.commitments(issuer, disclosed)
    third = context.fixed.combine([context.exponent(proof.hidden[-secrets:])]) + times(pseudonym, -proof.challenge)
    points = (proof.a, proof.b, proof.d, first, second, pseudonym, third)
    if challenge_of(issuer, disclosed, points, header, context.digest) != proof.challenge:
        raise Flawed(Flaw.PROOF)
