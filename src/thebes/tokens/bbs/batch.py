"""The pairings of many proofs under one key, as one product with random weights.

Were any single equation false, the weighted product would hold with odds of at most 2^-128. When it does not hold,
halves are tried: every bad proof is found, at no more than about twice the cost of checking one by one.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from thebes.tokens.bbs.curve import KeyPoint, combine, signed_by
from thebes.tokens.bbs.proof import Proof

_WEIGHT_BITS = 128


def verified(key: KeyPoint, proofs: Sequence[Proof]) -> list[bool]:
    """For each proof, whether a signature of `key` stands behind it."""
    if not proofs:
        return []
    if _all_hold(key, proofs):
        return [True] * len(proofs)
    if len(proofs) == 1:
        return [False]
    half = len(proofs) // 2
    return verified(key, proofs[:half]) + verified(key, proofs[half:])


def _all_hold(key: KeyPoint, proofs: Sequence[Proof]) -> bool:
    if len(proofs) == 1:
        return signed_by(key, proofs[0].a, proofs[0].b)
    weights = [secrets.randbits(_WEIGHT_BITS) + 1 for _ in proofs]  # unknown to whoever made the proofs
    return signed_by(
        key, combine([proof.a for proof in proofs], weights), combine([proof.b for proof in proofs], weights)
    )
