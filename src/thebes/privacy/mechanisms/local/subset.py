"""Subset selection: report a small set of categories that holds the true one more often than chance."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Pure
from thebes.privacy.mechanisms.local import coins
from thebes.privacy.mechanisms.local.sets import Bits, SetMechanism
from thebes.privacy.mechanisms.local.shape import Integers
from thebes.privacy.randomness import Randomness


class SubsetSelection(SetMechanism):
    """A report is a set of exactly `members` categories; the true one is in it with probability `hold`.

    Protects which category the owner has, up to epsilon. With one member it is randomised response; its expected
    error is never above that of randomised response or unary encoding.

    Proof: a set that holds the owner's category has likelihood hold / C(m-1, w-1), any other (1 - hold) / C(m-1, w);
    their ratio hold / (1 - hold) * (m - w) / w is at most e^epsilon by the choice of the coin (Ye & Barg 2018). Given
    the coin, all sets of their kind are equally likely, exactly: Floyd's algorithm over unbiased integers.
    """

    name = "subset-selection"

    def __init__(self, size: int, epsilon: exact.Number) -> None:
        super().__init__(size, epsilon)
        self.members = self._best()
        m, w = Decimal(self.size), Decimal(self.members)
        self.coin = coins.at_most(coins.WIDE.divide(coins.exponential(self.epsilon) * w, m - w))
        self.hold = self.coin.probability
        self.stray = (self.hold * (self.members - 1) + (1 - self.hold) * self.members) / (self.size - 1)
        if self.hold <= self.stray:
            raise Mistake("epsilon", "is too small for so many categories")

    def loss(self) -> Pure:
        likelier = coins.odds_of(self.coin) * (self.size - self.members) / self.members
        return Pure(coins.loss_of(likelier, self.epsilon))

    def parameters(self) -> dict[str, Any]:
        return {
            "categories": self.size,
            "members": self.members,
            "p": float(self.hold),
            "q": float(self.stray),
        }

    def check(self, reports: ArrayLike) -> Bits:
        """Rows of `size` zeros and ones, `members` of them ones."""
        rows = super().check(reports)
        if (rows.sum(axis=1, dtype=np.int64) != self.members).any():
            raise Mistake("reports", f"must hold exactly {self.members} ones in each row")
        return rows

    def _best(self) -> int:
        # The error is convex in the number of members, with its minimum beside m / (e^epsilon + 1).
        e, m = math.exp(min(float(self.epsilon), 700.0)), self.size
        centre = math.floor(m / (e + 1))

        def error(w: int) -> float:
            hold = w * e / (w * e + m - w)
            stray = (hold * (w - 1) + (1 - hold) * w) / (m - 1)
            return ((m - 1) * stray * (1 - stray) + hold * (1 - hold)) / (hold - stray) ** 2

        return min((w for w in range(centre - 1, centre + 3) if 1 <= w < m), key=error)

    def _draw(self, categories: Integers, randomness: Randomness) -> Bits:
        reports = np.zeros((categories.size, self.size), dtype=np.uint8)
        true = coins.toss(randomness, self.coin, categories.size)
        with_own, without = np.flatnonzero(true), np.flatnonzero(~true)
        self._fill(reports, categories, with_own, self.members - 1, randomness)
        self._fill(reports, categories, without, self.members, randomness)
        reports[with_own, categories[with_own]] = 1
        return reports

    def _fill(self, reports: Bits, own: Integers, rows: Integers, count: int, randomness: Randomness) -> None:
        # Floyd's algorithm on all `rows` at once: `count` of the other m - 1 categories, every choice equally likely.
        skip = own[rows]
        for last in range(self.size - 1 - count, self.size - 1):
            drawn = randomness.below(last + 1, rows.size)
            column = drawn + (drawn >= skip)
            taken = reports[rows, column] == 1
            reports[rows, np.where(taken, last + (last >= skip), column)] = 1
