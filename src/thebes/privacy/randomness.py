"""The one door through which chance enters.

`system()` is for real releases; `seeded_for_simulation(seed)` must be asked for by name and marks whatever it touched
as simulated. Both draw with the exact samplers of `samplers`, where their proof stands.
Nothing is pooled in user space, so a forked child never repeats its parent's draws.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]

_WORD = 2**64


@dataclass(frozen=True, slots=True)
class Coin:
    """A probability that is exactly `heads` / 2^64, so that its odds can be stated without rounding."""

    heads: int

    @classmethod
    def nearest(cls, probability: float | Fraction) -> Coin:
        """The coin closest to `probability`; price the coin, not the number it was made from."""
        if not 0 <= probability <= 1:
            raise Mistake("probability", "must lie between 0 and 1")
        return cls(round(Fraction(probability) * _WORD))

    @property
    def probability(self) -> Fraction:
        return Fraction(self.heads, _WORD)


class Randomness(ABC):
    """Uniform 64-bit words, and noise drawn from them on the integers."""

    #: whether anybody who knows the seed can repeat every draw
    simulated: bool = False
    #: who drew, as the certificate names it
    drawn_by: str = "thebes"

    @abstractmethod
    def words(self, count: int) -> Words:
        """`count` independent uniform 64-bit words."""

    @abstractmethod
    def laplace(self, values: Integers, *, scale: float) -> Integers:
        """Each value plus its own exact discrete Laplace noise: P(k) proportional to exp(-|k| / scale)."""

    @abstractmethod
    def gaussian(self, values: Integers, *, scale: float) -> Integers:
        """Each value plus its own exact discrete Gaussian noise: P(k) proportional to exp(-k^2 / (2 scale^2))."""

    def gaussian_rounds(self, width: int, *, times: int, scale: float) -> Callable[[Integers], Integers]:
        """A function that adds noise as `gaussian` to `times` vectors of `width` numbers, call after call: where that
        is quicker, all of it is drawn at once, before any vector is known. The vectors must leave room for it."""
        return lambda values: self.gaussian(values, scale=scale)

    def toss(self, coin: Coin, count: int) -> NDArray[np.bool_]:
        """`count` independent tosses: True with exactly the coin's probability."""
        if coin.heads >= _WORD:
            return np.ones(count, dtype=np.bool_)
        return self.words(count) < np.uint64(coin.heads)

    def below(self, bound: int, count: int) -> Integers:
        """`count` independent uniform integers in [0, bound), unbiased (by rejection)."""
        if not 0 < bound <= 2**63:
            raise Mistake("bound", "must lie between 1 and 2^63")
        last = np.uint64(_WORD - _WORD % bound - 1)
        drawn = self.words(count).copy()
        late = drawn > last
        while late.any():
            drawn[late] = self.words(int(late.sum()))
            late = drawn > last
        return (drawn % np.uint64(bound)).astype(np.int64)

    def permutation(self, count: int) -> Integers:
        """A uniform order of 0 .. count-1 (ties among 64-bit keys, odds below count^2 / 2^64, are drawn again)."""
        while True:
            keys = self.words(count)
            order = np.argsort(keys, kind="stable")
            ranked = keys[order]
            if not (ranked[1:] == ranked[:-1]).any():
                return order.astype(np.int64)


class _OwnSamplers(Randomness):
    """Noise by the vectorised exact samplers of `samplers`."""

    def laplace(self, values: Integers, *, scale: float) -> Integers:
        from thebes.privacy import samplers

        return samplers.add_laplace(self, values, scale=scale)

    def gaussian(self, values: Integers, *, scale: float) -> Integers:
        from thebes.privacy import samplers

        return samplers.add_gaussian(self, values, scale=scale)

    def gaussian_rounds(self, width: int, *, times: int, scale: float) -> Callable[[Integers], Integers]:
        drawn = iter(self.gaussian(np.zeros((times, width), dtype=np.int64), scale=scale))
        return lambda values: values + next(drawn)


class _System(_OwnSamplers):
    """Words straight from the operating system."""

    def words(self, count: int) -> Words:
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class _Seeded(_OwnSamplers):
    simulated = True
    drawn_by = "thebes (seeded)"

    def __init__(self, seed: int) -> None:
        self._stream = np.random.Philox(seed)

    def words(self, count: int) -> Words:
        return self._stream.random_raw(count).astype(np.uint64, copy=False)


def system() -> Randomness:
    """Operating-system entropy: what real releases use."""
    return _System()


def seeded_for_simulation(seed: int) -> Randomness:
    """A repeatable stream for simulation and tests. Whatever it touches says `simulated`, and protects nobody."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise Mistake("seed", "must be a whole number that is not negative")
    return _Seeded(seed)
