"""A peer's commitment to its pseudonym secrets, with a proof that it knows what is inside.

The commitment hides perfectly: for every secret there is a blind that gives the same point, so that no power of
computing, now or later, finds the secret from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from thebes.tokens.bbs.curve import ORDER, POINT_BYTES, SCALAR_BYTES, Point, combine, read_point, read_scalars
from thebes.tokens.bbs.suite import Suite, count, write
from thebes.tokens.refusals import Flaw, Flawed


def commit(suite: Suite, values: Sequence[int], *, blind: int, masks: Sequence[int]) -> bytes:
    """The commitment to `values` and its proof. `masks` are one more than the values, secret and never used again."""
    generators = suite.blind_generators(len(values) + 1)
    hidden = [blind, *values]
    commitment, masked = combine(generators, hidden), combine(generators, masks)
    challenge = _challenge(suite, generators, commitment, masked)
    shown = [(mask + value * challenge) % ORDER for mask, value in zip(masks, hidden, strict=True)]
    return write(commitment, *shown, challenge)


def length(values: int) -> int:
    """The bytes of a commitment to so many values, with its proof."""
    return POINT_BYTES + (values + 2) * SCALAR_BYTES


def opened(suite: Suite, raw: bytes, values: int) -> Point:
    """The commitment to exactly `values` values in `raw`, once its proof is verified."""
    if len(raw) != length(values):
        raise Flawed(Flaw.LENGTH)
    commitment = read_point(raw[:POINT_BYTES])
    *shown, challenge = read_scalars(raw[POINT_BYTES:])
    generators = suite.blind_generators(values + 1)
    masked = combine([*generators, commitment], [*shown, -challenge])
    if _challenge(suite, generators, commitment, masked) != challenge:
        raise Flawed(Flaw.PROOF)
    return commitment


def _challenge(suite: Suite, generators: Sequence[Point], commitment: Point, masked: Point) -> int:
    return suite.hash_to_scalar(count(len(generators) - 1) + write(*generators, commitment, masked))
