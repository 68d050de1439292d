"""Hadamard response: one small number per report, whatever the number of categories."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact
from thebes.privacy.losses import Pure
from thebes.privacy.mechanisms.local import coins
from thebes.privacy.mechanisms.local.categories import CategoryMechanism
from thebes.privacy.mechanisms.local.shape import Integers, integers_within
from thebes.privacy.randomness import Randomness


class HadamardResponse(CategoryMechanism):
    """A report is a row number of the Hadamard matrix; half of all rows support each category.

    Protects which category the owner has, up to epsilon. Reports have about log2(size) bits and 1,000,000 of them
    are read in no time; the error stops falling once epsilon is well above 1.

    Proof: category x is column x + 1. Row y, with sign (-1)^popcount(y & (x+1)), is reported with probability
    hold / (K/2) if the sign is plus and (1 - hold) / (K/2) if it is minus; the ratio of the two is the coin's odds,
    at most e^epsilon (Acharya, Sun & Zhang 2019). Two different columns agree on exactly half of the rows, so any
    other category is supported with probability exactly 1/2.
    """

    name = "hadamard-response"

    def __init__(self, size: int, epsilon: exact.Number) -> None:
        super().__init__(size, epsilon)
        self.rows = 1 << self.size.bit_length()  # a power of two above `size`
        self.coin = coins.at_most(coins.exponential(self.epsilon))
        self.hold = self.coin.probability
        self.stray = Fraction(1, 2)

    def loss(self) -> Pure:
        return Pure(coins.loss_of(coins.odds_of(self.coin), self.epsilon))

    def parameters(self) -> dict[str, Any]:
        return {"categories": self.size, "rows": self.rows, "p": float(self.hold), "q": 0.5}

    def check(self, reports: ArrayLike) -> Integers:
        return integers_within("reports", reports, 0, self.rows - 1)

    def _draw(self, categories: Integers, randomness: Randomness) -> Integers:
        column = categories + 1
        row = (randomness.words(categories.size) & np.uint64(self.rows - 1)).astype(np.int64)
        minus = (np.bitwise_count(row & column) & 1).astype(np.bool_)
        # Turning the column's lowest set bit in the row's number pairs every plus row with a minus row.
        wrong = minus == coins.toss(randomness, self.coin, categories.size)
        return np.where(wrong, row ^ (column & -column), row)

    def _support(self, reports: NDArray[Any]) -> Integers:
        signed = np.bincount(reports, minlength=self.rows)
        step = 1
        while step < self.rows:  # the fast Walsh-Hadamard transform, on whole numbers
            pairs = signed.reshape(-1, 2, step)
            signed = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
            step *= 2
        return np.asarray((reports.shape[0] + signed[1 : self.size + 1]) // 2, dtype=np.int64)
