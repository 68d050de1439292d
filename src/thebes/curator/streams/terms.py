"""The terms of a growing data set: what its blocks hold, and as whom they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from thebes.data.growing.block_record import BlockStage
from thebes.data.growing.block_rule import USER, BlockBy
from thebes.ledger import Budget
from thebes.ledger.filter_protocol import EventFilter
from thebes.ledger.filters import BASIC, CONCENTRATED, FILTERS
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.losses import Concentrated, Pure
from thebes.privacy.mechanisms.concentrated import quieter
from thebes.privacy.promise import Adjacency, Unit

#: For whom something is asked: nobody in particular, a developer with a budget of their own, or in which contexts.
Context = str | Sequence[str] | None
DEVELOPER = "developer"  #: separate ledgers for everybody who asks


@lru_cache(maxsize=1024)
def within(filter: str, epsilon: Decimal, delta: Decimal, part: Fraction) -> Decimal:
    """The largest pure epsilon that costs a block of (epsilon, delta) no more than this part of it, as it counts."""
    counting = FILTERS[filter]
    capacity = counting.capacity(epsilon, delta)
    return Decimal(counting.worth({place: int(steps * part) for place, steps in capacity.items()}, 0).epsilon)


@lru_cache(maxsize=1024)
def count_within(filter: str, epsilon: Decimal, delta: Decimal, part: Fraction) -> Pure | Concentrated:
    """The loss of the quietest count that costs a block of (epsilon, delta) no more than this part of it, as it counts:
    of discrete Laplace noise, or of discrete Gaussian noise where a block has a price for that. `either` has one, but
    its pure place would pay for nothing any more."""
    counting = FILTERS[filter]
    capacity = counting.capacity(epsilon, delta)
    rho = counting.rho_worth({place: int(steps * part) for place, steps in capacity.items()})
    return quieter(within(filter, epsilon, delta, part), rho)


#: A batch comes in whole or not at all, and which of the two follows from each of its rows; so the promise cannot be
#: about rows that were brought.
KEPT = (
    "The promise is about the rows that were kept. A batch with a row that does not fit is refused whole, and the "
    "promise does not cover that it was."
)


@dataclass(frozen=True, slots=True)
class Terms:
    """Of every block: what everything ever charged to it stays within, how that is counted, which share of epsilon
    buys its size, and below which share that is left it retires. Of users, `periods` counts are paid by that share.
    With `separate`, (epsilon, delta) holds for each developer by themselves, over the same rows; or blocks are cut
    further by the declared values of a column, and each has it for its own rows."""

    epsilon: Decimal
    delta: Decimal = Decimal(0)
    filter: str = BASIC.name
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
        if self.retire_below > 1 - self.size_share:
            raise Mistake("blocks.retire_below", "is more than sizes leave: a block would retire as soon as it has one")

    def check(self, by: BlockBy) -> None:
        """Refuse blocks that could never pay for their sizes, or for nothing beside them."""
        if by.kind == USER and self.separate not in ("", DEVELOPER):
            raise Mistake(
                "blocks.separate_by",
                "by a column does not go with blocks of users: a person may have rows of several values, and a budget "
                "for each would promise a person nothing",
            )
        apart = self.separate == DEVELOPER or by.kind == USER
        for share in ("sizes", "rest") if apart else ("whole",):
            held = self.of_ledger("event", share=share)
            what = {"sizes": " for sizes", "rest": " beside sizes", "whole": ""}[share]
            if not held["epsilon"]:
                raise Mistake("blocks.size_share", f"leaves no epsilon{what}")
            try:
                FILTERS[held["filter"]].capacity(held["epsilon"], held["delta"])
            except Mistake as nothing:
                raise Mistake(
                    nothing.argument, f"{nothing.message} (a block has epsilon {held['epsilon']}{what})"
                ) from None
        sizes = self.of_ledger("event", share="sizes" if apart else "whole")
        part = Fraction(1, self.periods) if by.kind == USER else Fraction(1) if apart else Fraction(self.size_share)
        if not within(sizes["filter"], sizes["epsilon"], sizes["delta"], part):
            counts = f"each of {self.periods} counts" if by.kind == USER else "sizes"
            raise Mistake("blocks.size_share", f"leaves no epsilon for {counts}")

    @property
    def size_epsilon(self) -> Decimal:
        """The cost of its size for a block that pays for everything: so much that its share of the block, as that
        counts, is `size_share`."""
        return within(self.filter, self.epsilon, self.delta, Fraction(self.size_share))

    @property
    def size_loss(self) -> Pure | Concentrated:
        """The loss of its size for a block that pays for everything: of the quietest noise that `size_share` of the
        block, as that counts, buys."""
        return count_within(self.filter, self.epsilon, self.delta, Fraction(self.size_share))

    def of_ledger(self, unit: str, *, share: str = "whole") -> dict[str, Any]:
        """For a block of the ledger: the whole, what sizes may cost (`sizes`), what counts of users may (`counts`), or
        what is left beside that (`rest`).

        Sizes are bought with pure epsilon alone, and a block for them counts just that. So are counts of users, unless
        (s epsilon, s delta) of zCDP makes them quieter, `periods` of them. What stays within these, and what any filter
        keeps within ((1 - s) epsilon, (1 - s) delta), are together (epsilon, delta), in whatever order they are spent,
        because both limits are fixed beforehand (concurrent composition: Vadhan & Zhang 2023). (`earlier`: as blocks
        for sizes were opened before; they count with the filter of the others.)
        """
        if share == "counts":
            share = "sizes"
            if self.delta and isinstance(FILTERS[self.filter], EventFilter):
                plain, smooth = (self.of_ledger(unit, share=one) for one in ("sizes", "earlier"))
                each = Fraction(1, self.periods)
                held = CONCENTRATED.allowance(smooth["epsilon"], smooth["delta"], ())
                rho = CONCENTRATED.rho_worth({place: int(steps * each) for place, steps in held.items()})
                pure = within(plain["filter"], plain["epsilon"], plain["delta"], each)
                if isinstance(quieter(pure, rho), Concentrated):
                    return smooth | {"filter": CONCENTRATED.name}
        part = {"whole": Decimal(1), "rest": 1 - self.size_share}.get(share, self.size_share)
        delta = Decimal(0) if share == "sizes" and isinstance(FILTERS[self.filter], EventFilter) else self.delta * part
        return {
            "epsilon": (self.epsilon * part).quantize(exact.EPSILON_STEP, ROUND_FLOOR),
            "delta": delta.quantize(exact.DELTA_STEP, ROUND_FLOOR),
            "filter": BASIC.name if share == "sizes" else self.filter,
            "unit": Unit(unit),
            "adjacency": Adjacency.ADD_REMOVE_ONE,
        }

    @property
    def assumption(self) -> str:
        """The sentences that a certificate must say: of which rows it speaks, and whether the same have several
        budgets."""
        if self.separate != DEVELOPER:
            return KEPT
        return (
            f"{KEPT} The budget holds for each developer by itself: whoever joins what several of them were told may "
            "learn more than this epsilon allows. The data set's steward has accepted that they do not."
        )


def beside(earlier: Budget) -> str:
    """Say what a certificate must say that rests on sizes of blocks, which everybody in them paid for so much
    before."""
    return (
        f"It rests on noisy sizes of blocks, which were paid for once, for all who ask, at epsilon "
        f"{figure(float(earlier.epsilon))}{f' and delta {figure(float(earlier.delta))}' if earlier.delta else ''}. "
        "Somebody who had not seen these sizes learns that much beside."
    )


@dataclass(frozen=True, slots=True)
class StreamBlock:
    """A block as it is shown. `name` is that of its block in the ledger; `value` is what its rows have in common where
    that is not a time. `size` is its noisy number of rows: public, and None before it is bought. `left` is the share of
    its budget that is neither spent nor set aside, `account` that and what one answer may cost in words."""

    name: str
    state: BlockStage
    remaining: Budget
    left: float
    account: str
    size: int | None = None
    since: datetime | None = None
    until: datetime | None = None
    value: str | None = None
