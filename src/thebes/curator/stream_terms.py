"""What a growing data set's blocks hold, and as whom they are shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_FLOOR, Decimal
from typing import Any

from thebes.data.growing.manifest import State
from thebes.ledger import Budget
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Adjacency, Unit

DEVELOPER = "developer"  #: separate ledgers for everybody who asks


@dataclass(frozen=True, slots=True)
class Terms:
    """Of every block: what everything ever charged to it stays within, how that is counted, which share of epsilon
    buys its size, and below which share that is left it retires. Of users, `periods` counts are paid by that share.
    With `separate`, (epsilon, delta) holds within each context only: for each developer, or for each declared value of
    a column."""

    epsilon: Decimal
    delta: Decimal = Decimal(0)
    filter: str = "basic"
    size_share: Decimal = Decimal("0.05")
    retire_below: Decimal = Decimal("0.01")
    periods: int = 20
    separate: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.size_share < 1:
            raise Mistake("blocks.size_share", "must lie between 0 and 1")
        if not 0 <= self.retire_below < 1:
            raise Mistake("blocks.retire_below", "must be at least 0 and less than 1")
        if not 1 <= self.periods <= 10_000:
            raise Mistake("blocks.periods", "must be between 1 and 10000")
        if not self.size_epsilon:
            raise Mistake("blocks.size_share", "leaves no epsilon for sizes")

    @property
    def size_epsilon(self) -> Decimal:
        """What a block's size costs."""
        return (self.epsilon * self.size_share).quantize(exact.EPSILON_STEP, ROUND_FLOOR)

    @property
    def count_epsilon(self) -> Decimal:
        """What the counts of users in one period cost."""
        return (self.size_epsilon / self.periods).quantize(exact.EPSILON_STEP, ROUND_FLOOR)

    def of_ledger(self, unit: str, *, share: str = "whole") -> dict[str, Any]:
        """For a block of the ledger: the whole, what sizes may cost (`sizes`), or what is left beside that (`rest`)."""
        part = {"whole": Decimal(1), "sizes": self.size_share, "rest": 1 - self.size_share}[share]
        return {
            "epsilon": (self.epsilon * part).quantize(exact.EPSILON_STEP, ROUND_FLOOR),
            "delta": (self.delta * part).quantize(exact.DELTA_STEP, ROUND_FLOOR),
            "filter": self.filter,
            "unit": Unit(unit),
            "adjacency": Adjacency.ADD_REMOVE_ONE,
        }

    @property
    def assumption(self) -> str:
        """What a certificate must say where budgets are separate; else nothing."""
        if not self.separate:
            return ""
        whom = "developer" if self.separate == DEVELOPER else f"value of {self.separate}"
        return (
            f"The budget holds for each {whom} by itself: whoever joins what several of them were told may learn more "
            "than this epsilon allows. The data set's steward has accepted that they do not."
        )


@dataclass(frozen=True, slots=True)
class StreamBlock:
    """A block as it is shown. `name` is that of its block in the ledger; `value` is what its rows have in common where
    that is not a time. `size` is its noisy number of rows: public, and None before it is bought. `left` is the share of
    its budget that is neither spent nor set aside."""

    name: str
    state: State
    remaining: Budget
    left: float
    size: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    value: str | None = None
