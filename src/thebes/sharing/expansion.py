"""Seeds stretched to elements or to other seeds, each for one purpose only.

Source: XofTurboShake128 and the domain separation of draft-irtf-cfrg-vdaf (version byte 18).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from thebes.privacy.faults import Mistake
from thebes.sharing.field import ELEMENT_BYTES, Bytes, Elements, canonical, read
from thebes.sharing.turboshake import RATE, turboshake128

SEED_BYTES = 32
NONCE_BYTES = 16
_VERSION = 18
_CLASS = 0  #: of the draft's functions: those with a public aggregation parameter that is empty


class Usage(IntEnum):
    """The purpose of an expansion; the numbers are the draft's."""

    MEASUREMENT_SHARE = 1
    PROOF_SHARE = 2
    JOINT_RANDOMNESS = 3
    PROVE_RANDOMNESS = 4
    QUERY_RANDOMNESS = 5
    JOINT_SEED = 6
    JOINT_PART = 7


def joined(count: int, *pieces: Bytes | bytes) -> Bytes:
    """Return `count` rows of the pieces one after the other; bytes stand in every row."""
    columns = []
    for piece in pieces:
        one = np.frombuffer(piece, dtype=np.uint8)[None] if isinstance(piece, bytes) else piece
        columns.append(np.broadcast_to(one, (count, one.shape[1])))
    return np.concatenate(columns, axis=1)


@dataclass(frozen=True, slots=True)
class Expansion:
    """Expansions for one algorithm in one context: the same seed gives something else anywhere else."""

    algorithm: int
    context: bytes

    def __post_init__(self) -> None:
        if not isinstance(self.context, bytes) or len(self.context) > 1000:
            raise Mistake("context", "must be at most 1000 bytes")

    def _stretched(self, usage: Usage, seeds: Bytes, binder: Bytes, length: int) -> Bytes:
        tag = bytes([_VERSION, _CLASS]) + self.algorithm.to_bytes(4, "big") + usage.to_bytes(2, "big") + self.context
        head = len(tag).to_bytes(2, "little") + tag + bytes([seeds.shape[1]])
        return turboshake128(joined(len(seeds), head, seeds, binder), length)

    def seeds(self, usage: Usage, seeds: Bytes, binder: Bytes) -> Bytes:
        """Return one more seed for each."""
        return self._stretched(usage, seeds, binder, SEED_BYTES)

    def elements(self, usage: Usage, seeds: Bytes, binder: Bytes, count: int) -> Elements:
        """Return `count` uniform elements for each seed: of the stream's words, the first that are below ORDER.

        A word is not once in 2^32, so rows that hold one are stretched again, one block further, until enough are.
        """
        found = read(self._stretched(usage, seeds, binder, ELEMENT_BYTES * count))
        for row in np.flatnonzero(~canonical(found)).tolist():
            found[row] = self._kept(usage, seeds[row : row + 1], binder[row : row + 1], count)
        return found

    def _kept(self, usage: Usage, seed: Bytes, binder: Bytes, count: int) -> Elements:
        words = count
        while True:
            words += RATE // ELEMENT_BYTES
            stream = read(self._stretched(usage, seed, binder, ELEMENT_BYTES * words))[0]
            kept: Elements = stream[canonical(stream[:, None])]
            if len(kept) >= count:
                return kept[:count]
