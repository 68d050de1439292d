"""A holder's name in one context: the context's point times the holder's secret.

The same every time in that context; in two contexts, to whoever lacks the secret, as unlike as two holders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from thebes.tokens.bbs.curve import ORDER, FixedPoints, Point, hash_to_point, times
from thebes.tokens.bbs.suite import Suite


@dataclass(frozen=True, slots=True)
class ContextPoint:
    """The context's own point, and the place at which a vector of secrets is evaluated as a polynomial."""

    digest: bytes
    base: Point
    fixed: FixedPoints
    place: int

    def exponent(self, secrets: Sequence[int]) -> int:
        """The one number that a vector of secrets (constant term first) is in this context."""
        total = 0
        for secret in reversed(secrets):
            total = (total * self.place + secret) % ORDER
        return total

    def pseudonym(self, secrets: Sequence[int]) -> Point:
        return times(self.base, self.exponent(secrets))


@lru_cache(maxsize=32)  # each about 1.5 MB once it has a table
def context_point(suite: Suite, digest: bytes) -> ContextPoint:
    """The context with this digest, kept for as long as its tokens keep coming."""
    base = hash_to_point(digest, suite.api_id)
    return ContextPoint(digest, base, FixedPoints((base,)), suite.hash_to_scalar(digest, "VECT_NYM_SECRETS"))
