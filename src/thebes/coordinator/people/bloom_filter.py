"""Names that were surely never seen, at two bytes a name: what spares most arrivals a look into the database.

A Bloom filter (Bloom 1970) that grows in layers. It errs to one side only: a name that was added is never new.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

_FIRST = 2**14  #: names in the first layer; each further layer takes four times as many
_BITS = 16  #: for each name; with four places that lets one new name in 400 look like a known one
_PLACES = 4


class BloomFilter:
    """A set that has what was added, and a little more."""

    def __init__(self) -> None:
        self._layers: list[bytearray] = []
        self._left = 0  # names that the newest layer still takes

    def add(self, name: bytes) -> None:
        if not self._left:
            self._left = _FIRST * 4 ** len(self._layers)
            self._layers.append(bytearray(self._left * _BITS // 8))
        layer, self._left = self._layers[-1], self._left - 1
        size = len(layer) * 8
        for place in _places(name):
            bit = place % size
            layer[bit >> 3] |= 1 << (bit & 7)

    def may_have(self, name: bytes) -> bool:
        """False only of what was never added."""
        places = _places(name)
        return any(all(_has(layer, place) for place in places) for layer in self._layers)


def _has(layer: bytearray, place: int) -> bool:
    bit = place % (len(layer) * 8)
    return bool(layer[bit >> 3] >> (bit & 7) & 1)


@lru_cache(maxsize=1024)  # a new name is looked for, and then added
def _places(name: bytes) -> tuple[int, ...]:
    hashed = int.from_bytes(hashlib.blake2b(name, digest_size=8 * _PLACES).digest(), "big")
    return tuple(hashed >> 64 * n & 0xFFFFFFFFFFFFFFFF for n in range(_PLACES))
