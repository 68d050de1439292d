"""The cost of a synopsis so far beside what answers alone would have cost: whether it may be risked to pay for more.

Both follow from what was released and paid: public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thebes.curator.cache.purchase import Purchase, size_of


@dataclass(slots=True)
class Account:
    """Losses as a budget counts them (`loss_in`), added up over the blocks that paid. Where nothing is bought that
    `bears` was not asked about, `paid` never exceeds `alone` by more than the share `risk`."""

    paid: float = 0.0
    alone: float = 0.0

    def bears(self, cost: float, worth: float, risk: float) -> bool:
        """Return whether, should all of this be paid for an answer that alone would cost `worth`, the risk is kept."""
        return self.paid + cost <= (1 + risk) * (self.alone + worth)

    def add(self, cost: float, worth: float) -> None:
        """An answer that cost so much, or what was bought for later ones (and is worth nothing yet)."""
        self.paid += cost
        self.alone += worth


def loss_in(filter: str, purchases: Sequence[Purchase]) -> float:
    """Return what purchases cost a block, in one number: epsilon, or rho where losses add up in rho."""
    return float(sum(size_of(purchase, filter) for purchase in purchases))
