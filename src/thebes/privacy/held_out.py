"""The part of rows or people that a model is not made from, but tested on: set aside by a coin that sees none of them.

*Price.* Training and testing each have the whole (epsilon, delta), and both together cost no more. Given the coins,
nobody is in both parts. Where the number is public a part is a set of places, and whoever is replaced is replaced in
the same part; where it is private each unit has a coin of its own, and the others keep theirs when one comes or goes.
So of two neighbours one part is the same, and what is released of it has the same law; the other part alone is paid
for. Coins do not depend on rows, so averaging over them changes nothing: in every unit that an accountant counts, the
larger of the two prices holds.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.randomness import Coin, Randomness

LEAST, MOST = 0.1, 0.3  #: shares
ENOUGH = 300  #: rows from which a verdict can be hoped for: a larger share is taken of fewer than ten times as many
#: the share where the number is private: one that followed it would move others between the parts
PRIVATE_SHARE = LEAST


def share_of(rows: int, *, numbers: bool = False) -> float:
    """Return the share of a public number of rows that is set aside: to test a model of `numbers` the least, as of
    these it takes thousands to tell anything, and what is missing in the training would buy nothing."""
    return LEAST if numbers else min(MOST, max(LEAST, ENOUGH / max(rows, 1)))


def places(rows: int, share: float, randomness: Randomness) -> NDArray[np.bool_]:
    """Choose which of a public number of places are set aside: a public share of them, rounded down."""
    chosen = np.zeros(rows, dtype=np.bool_)
    chosen[randomness.permutation(rows)[: math.floor(share * rows)]] = True
    return chosen


def tossed(rows: int, randomness: Randomness) -> NDArray[np.bool_]:
    """Toss a coin for each of a private number of rows. The coins are told to nobody; nor is their number."""
    return randomness.toss(Coin.nearest(PRIVATE_SHARE), rows)


class ContentCoins:
    """Coins for units of which only the contents are known: each by a hash, under a key, of what the unit holds and how
    many others that hold the same came before it. So whoever asks again for the same units gets the same coins, in
    whatever order they come; one unit more or less changes no other's; and equal units have coins of their own."""

    def __init__(self, key: str) -> None:
        self._key = hashlib.sha256(key.encode()).digest()
        self._heads = Coin.nearest(PRIVATE_SHARE).heads
        self._before: Counter[bytes] = Counter()

    def toss(self, content: bytes) -> bool:
        """Return whether the next unit with this content is set aside."""
        held = hashlib.blake2b(content, digest_size=16).digest()
        place = self._before[held]
        self._before[held] += 1
        drawn = hashlib.blake2b(held + place.to_bytes(8, "big"), key=self._key, digest_size=8).digest()
        return int.from_bytes(drawn, "big") < self._heads
