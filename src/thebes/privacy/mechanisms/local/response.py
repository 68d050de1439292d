"""Randomised response: say the truth with a known probability, else one of the other answers."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact
from thebes.privacy.events import Event, RandomizedResponseEvent
from thebes.privacy.faults import Fault
from thebes.privacy.losses import Approximate, Pure
from thebes.privacy.mechanisms.local import coins
from thebes.privacy.mechanisms.local.categories import CategoryMechanism
from thebes.privacy.mechanisms.local.shape import Integers, integers_within
from thebes.privacy.randomness import Randomness


class RandomizedResponse(CategoryMechanism):
    """A report is one category: the true one with probability `hold`, each other one equally likely.

    Protects which category the owner has, up to (epsilon, delta).

    Proof: with delta 0 the only two likelihoods are hold and stray = (1 - hold) / (m - 1), and
    hold / stray <= e^epsilon by the choice of the coin (Kairouz, Oh & Viswanath 2014). With delta, hold is
    (e^epsilon + delta (m - 1)) / (m + e^epsilon - 1) (Tiresias, eq. 4.10): hold - e^epsilon stray = delta, and no set
    of answers does worse than the true one alone, since adding another answer to it adds stray - e^epsilon stray < 0.
    """

    name = "randomized-response"

    def __init__(self, size: int, epsilon: exact.Number, delta: exact.Number = 0) -> None:
        super().__init__(size, epsilon, delta)
        growth, others = coins.exponential(self.epsilon), Decimal(self.size - 1)
        truth = growth + self.delta * others
        lie = (1 - self.delta) * others
        self.coin = coins.at_most(coins.WIDE.divide(truth, lie))
        self.hold = self.coin.probability
        self.stray = (1 - self.hold) / (self.size - 1)

    def loss(self) -> Pure | Approximate:
        if not self.delta:
            return Pure(coins.loss_of(self.hold / self.stray, self.epsilon))
        growth = coins.exponential(self.epsilon)
        excess = coins.ratio(self.hold) - growth * coins.ratio(self.stray)
        delta = max(Decimal(0), excess).quantize(exact.DELTA_STEP, ROUND_CEILING, coins.WIDE)
        if excess > self.delta:
            raise Fault("the odds of a randomised response exceed its delta")
        return Approximate(self.epsilon, min(delta, self.delta))

    def event(self) -> Event:
        keep = math.nextafter(float(self.hold), 1.0)
        if self.delta or keep >= 1:
            return super().event()
        return RandomizedResponseEvent(self.size, keep)

    def parameters(self) -> dict[str, Any]:
        return {"categories": self.size, "p": float(self.hold), "q": float(self.stray)}

    def check(self, reports: ArrayLike) -> Integers:
        return integers_within("reports", reports, 0, self.size - 1)

    def _draw(self, categories: Integers, randomness: Randomness) -> Integers:
        other = randomness.below(self.size - 1, categories.size)
        other += other >= categories
        return np.where(coins.toss(randomness, self.coin, categories.size), categories, other)

    def _support(self, reports: NDArray[Any]) -> Integers:
        return np.bincount(reports, minlength=self.size)
