"""Unary encoding: one bit per category, each turned by its own coin."""

from __future__ import annotations

from abc import abstractmethod
from decimal import Decimal
from typing import Any

import numpy as np

from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Pure
from thebes.privacy.mechanisms.local import coins
from thebes.privacy.mechanisms.local.sets import Bits, SetMechanism
from thebes.privacy.mechanisms.local.shape import Integers
from thebes.privacy.randomness import Coin, Randomness

_BLOCK = 1 << 22  # bits drawn at once


class UnaryEncoding(SetMechanism):
    """The owner's own bit is 1 with probability p, every other bit with probability q < p.

    Protects which category the owner has, up to epsilon.

    Proof: two categories i and j change two bits only; the likelihood ratio is largest where bit i is 1 and bit j is
    0, and is p (1 - q) / (q (1 - p)) there (AnonML, theorem 1). p's coin is any; q's coin is the unlikeliest whose
    ratio with p's is at most e^epsilon.
    """

    def __init__(self, size: int, epsilon: exact.Number) -> None:
        super().__init__(size, epsilon)
        own = self._own(coins.exponential(self.epsilon))
        self.one = coins.at_most(coins.WIDE.divide(own, 1 - own) if own < 1 else Decimal(coins.WORD))
        least = coins.WIDE.divide(coins.ratio(coins.odds_of(self.one)), coins.exponential(self.epsilon))
        self.other: Coin = coins.at_least(least)
        if self.other.heads >= self.one.heads:
            raise Mistake("epsilon", "is too small for so many categories")
        self.hold, self.stray = self.one.probability, self.other.probability

    @abstractmethod
    def _own(self, growth: Decimal) -> Decimal:
        """Return p for e^epsilon = growth."""

    def loss(self) -> Pure:
        return Pure(coins.loss_of(coins.odds_of(self.one) / coins.odds_of(self.other), self.epsilon))

    def parameters(self) -> dict[str, Any]:
        return {"categories": self.size, "p": float(self.hold), "q": float(self.stray)}

    def _draw(self, categories: Integers, randomness: Randomness) -> Bits:
        reports = np.empty((categories.size, self.size), dtype=np.uint8)
        rows = max(1, _BLOCK // self.size)
        for start in range(0, categories.size, rows):
            block = reports[start : start + rows]
            block[...] = coins.toss(randomness, self.other, block.size).reshape(block.shape)
        own = coins.toss(randomness, self.one, categories.size)
        reports[np.arange(categories.size), categories] = own
        return reports


class SymmetricUnaryEncoding(UnaryEncoding):
    """p = 1 - q: every bit keeps its value with the same probability e^(epsilon/2) / (1 + e^(epsilon/2)).

    Source: basic one-time RAPPOR (Erlingsson, Pihur & Korolova 2014).
    """

    name = "symmetric-unary"

    def _own(self, growth: Decimal) -> Decimal:
        root = growth.sqrt(coins.WIDE)
        return coins.WIDE.divide(root, root + 1)


class AsymmetricUnaryEncoding(UnaryEncoding):
    """p and q with the least expected squared error over all categories together.

    Source: AnonML (Cyphers & Veeramachaneni 2017), eq. 5. p tends to 1/2 with many categories, where this is the
    optimised unary encoding of Wang et al. (2017).
    """

    name = "asymmetric-unary"

    def _own(self, growth: Decimal) -> Decimal:
        return best_own(self.size, growth)


def best_own(size: int, growth: Decimal) -> Decimal:
    """AnonML's p_min for `size` categories at e^epsilon = growth: where the error of theorem 2 is least."""
    m, x, wide = Decimal(size - 1), growth, coins.WIDE
    square = wide.multiply(x, x)
    inside = wide.add(wide.multiply(m, wide.add(wide.multiply(square, x), x)), wide.multiply(m * m + 1, square))
    top = wide.subtract(wide.add(square, wide.multiply(m, x)), inside.sqrt(wide))
    return wide.divide(top, wide.subtract(square, Decimal(1)))
