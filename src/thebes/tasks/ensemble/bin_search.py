"""The search for where to cut a range: AnonML's algorithm 1, binary search over disjoint groups of peers, for several
quantiles.

Each step asks people of its own on which side of a threshold their value lies; quantiles that still share an estimate
share the question. A search steps only where the answers leave no doubt beyond their margin of error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from thebes.privacy.mechanisms.local.response import RandomizedResponse
from thebes.tasks.document import Range


class Search:
    """The estimates of one feature's quantiles. It starts in the middle of the range; every step is half the last."""

    def __init__(self, bound: Range, bins: int) -> None:
        self._bound = bound
        self.above = [1 - number / bins for number in range(1, bins)]  #: the share of values sought at or above each
        self.estimates = [bound.middle] * (bins - 1)
        self.step = (bound.high - bound.low) / 2

    def questions(self) -> list[float]:
        """The thresholds to ask about now."""
        return sorted(set(self.estimates))

    def hear(self, answers: Mapping[float, tuple[int, int]], coin: RandomizedResponse) -> None:
        """One step: {threshold: (how many answered, how many said that they are at or above it)}."""
        self.step /= 2
        moved = []
        for sought, estimate in zip(self.above, self.estimates, strict=True):
            told, yes = answers[estimate]
            moved.append(estimate + self.step * direction(told, yes, sought, coin))
        self.estimates = moved

    def thresholds(self) -> tuple[float, ...]:
        """Rising, each once."""
        return tuple(sorted(set(self.estimates)))

    def as_json(self) -> dict[str, Any]:
        return {"estimates": self.estimates, "step": self.step}

    def restore(self, told: Mapping[str, Any]) -> None:
        self.estimates, self.step = [float(e) for e in told["estimates"]], float(told["step"])


def direction(told: int, yes: int, sought: float, coin: RandomizedResponse) -> int:
    """1 where surely more than the sought share lie above, -1 where surely fewer, else 0."""
    if not told:
        return 0
    gap = float(coin.hold - coin.stray)
    share = (yes / told - float(coin.stray)) / gap
    off = share - sought
    return 0 if abs(off) <= margin(told, coin) else 1 if off > 0 else -1


def margin(told: int, coin: RandomizedResponse) -> float:
    """One standard error of the debiased share at worst: of the coins and of who happened to be asked."""
    return 0.5 / (float(coin.hold - coin.stray) * math.sqrt(told))
