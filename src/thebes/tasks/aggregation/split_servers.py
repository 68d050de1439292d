"""The two servers of split trust: each verifies shares of reports, adds its shares up, and noises its own sum once.

Promise: what one server shows of its sum carries noise that suffices alone. So a reader of the opened sum, and the
other server with everything that it holds, meet at least one noise that they do not know (`privacy.mechanisms.additive`
proves what one promises; adding to it whatever does not depend on the person is post-processing). Noise is added to a
share, modulo the field's order: shares of a sum plus noise are the sum plus noise in shares, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Fault
from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.randomness import Randomness
from thebes.sharing import Elements, Prio3, elements, opened, signed
from thebes.sharing.field import Bytes, add, multiply
from thebes.sharing.prio3 import Flags, PreparedShares


@dataclass(frozen=True, slots=True)
class CoordinateNoise:
    """The noise on `count` coordinates that follow each other."""

    noise: Additive
    count: int


class Splitting(Protocol):
    """The way in which a document's reports are verified, and the noise that each of two servers adds to its sum: the
    same at both, from the document alone."""

    @property
    def make(self) -> Callable[[bytes], Prio3]: ...

    @property
    def noises(self) -> tuple[CoordinateNoise, ...]: ...

    @property
    def influence(self) -> str:
        """Say how far one person who lies can move the answer, by what their proof shows."""
        ...


class SplitServer:
    """One of the two: number 0 is the leader, 1 the helper. Neither ever holds what the other has."""

    def __init__(
        self, number: int, prio: Prio3, noises: Sequence[CoordinateNoise], *, verify_key: bytes, randomness: Randomness
    ) -> None:
        self._number, self._prio, self._noises = number, prio, tuple(noises)
        self._verify_key, self._randomness = verify_key, randomness
        self._total: Elements | None = prio.nothing()

    def prepared(self, nonces: Bytes, public: Bytes, shares: Bytes) -> PreparedShares:
        """Verify shares as far as one server can; what it tells the other is `verifier`."""
        return self._prio.prepare(self._number, self._verify_key, nonces, public, shares)

    def confirmed(self, prepared: PreparedShares, held: Flags, seed: Bytes) -> Flags:
        return self._prio.confirmed(prepared, held, seed)

    def add(self, prepared: PreparedShares, accepted: Flags) -> None:
        """Add the shares of accepted reports to those from before."""
        self._total = add(self._open, self._prio.aggregate(prepared, accepted))

    def close(self) -> Elements:
        """Return this server's sum with its noise, which is drawn once: afterwards there is nothing left to noise."""
        total, self._total = self._open, None
        return noised(total, self._noises, self._randomness)

    @property
    def _open(self) -> Elements:
        if self._total is None:
            raise Fault("a server of split trust was asked for its sum twice; noise must not be drawn again")
        return self._total


def noised(total: Elements, noises: Sequence[CoordinateNoise], randomness: Randomness) -> Elements:
    """Return one server's sum with noise that suffices alone. Whoever calls this must not do so twice for one sum."""
    finer = np.concatenate([np.full(each.count, each.noise.finer, dtype=np.int64) for each in noises])
    drawn = np.concatenate([each.noise.drawn((each.count,), randomness) for each in noises])
    return add(multiply(total, elements(finer)), elements(drawn))


def totals(shares: Sequence[Elements], noises: Sequence[CoordinateNoise]) -> Floats:
    """Open noised sums, in the steps of what was added up."""
    finer: NDArray[np.int64] = np.concatenate([np.full(each.count, each.noise.finer) for each in noises])
    return np.array(signed(opened(shares)), dtype=np.float64) / finer
