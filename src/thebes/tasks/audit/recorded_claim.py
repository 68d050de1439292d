"""A claim for whoever tests an owner's half: nothing is refused, and all is added up."""

from __future__ import annotations

from decimal import Decimal

from thebes.privacy import exact


class RecordedClaim:
    """A claim that adds up what was consumed for one packet."""

    def __init__(self) -> None:
        self.epsilon = Decimal(0)
        self.delta = Decimal(0)

    def consume(self, *, epsilon: exact.Number, delta: exact.Number = 0) -> None:
        self.epsilon += exact.declared("epsilon", epsilon)
        self.delta += exact.declared("delta", delta)
