"""The ledger's blocks of a growing data set: one for each of its own, or one for each of its own and each developer.

What must stay true: every block is on the data set's terms, and a developer with a budget of their own pays from none
but that.
"""

from __future__ import annotations

from collections.abc import Iterable

from thebes.curator.streams.terms import DEVELOPER, Context, Terms
from thebes.curator.streams.user_counts import EVERYONE
from thebes.data.growing.block_rule import USER, BlockBy
from thebes.data.schema import Schema
from thebes.ledger import Block, Ledger
from thebes.ledger.filters import BASIC, FILTERS
from thebes.ledger.states import BlockState
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.losses import Concentrated, Loss, Pure


class BlockBudgets:
    """The budgets that pay for the blocks of one data set. `each`: every developer has one of their own, over the same
    rows."""

    def __init__(self, name: str, schema: Schema, by: BlockBy, terms: Terms, ledger: Ledger) -> None:
        self._name, self._schema, self._by, self._terms, self._ledger = name, schema, by, terms, ledger
        self.each = terms.separate == DEVELOPER

    def whose(self, said: Context) -> str:
        """The developer whose own budget pays."""
        if not isinstance(said, str) or not said or "@" in said:
            raise Mistake("context", "must say for whom, because budgets of this data set are separate")
        return said

    def inside(self, said: Context) -> frozenset[str] | None:
        """In which contexts; None where rows are not kept apart, or of all."""
        if not self._by.apart or said is None:
            return None
        named = frozenset((said,) if isinstance(said, str) else said)
        if not named or not named <= set(self._by.names):
            raise Mistake("context", f"must be of the declared values of {self._by.apart}")
        return named

    def block(self, payer: str) -> str:
        """The block that one in the ledger pays for."""
        return payer.partition("@")[0] if self.each else payer

    def payer(self, block: str, context: Context) -> str:
        """The block in the ledger that pays."""
        return block + (f"@{context}" if context and self.each else "")

    def held(self) -> dict[str, Block]:
        """Return this data set's blocks in the ledger, by name."""
        return {block.name: block for block in self._ledger.blocks(f"{self._name}/")}

    def open(self, blocks: Iterable[str], context: str | None = None) -> None:
        """Every block has one in the ledger, on these terms; with separate budgets that one pays for sizes only."""
        held = self.held()
        wanted = [self.payer(block, context) for block in blocks]
        if context is not None:
            share = "rest"
        elif self._by.kind == USER:
            share, wanted = "rest", [] if self.each else wanted
            everyone = held.get(f"{self._name}/{EVERYONE}")
            fresh = self._terms.of_ledger(self._schema.unit, share="counts")["filter"]
            was = fresh if everyone is None else everyone.filter
            self._open_all(
                [f"{self._name}/{EVERYONE}"],
                held,
                "counts" if was == fresh else "sizes" if was == BASIC.name else "earlier",
            )
        else:
            share = "sizes" if self.each else "whole"
        self._open_all(wanted, held, share)

    def _open_all(self, names: list[str], held: dict[str, Block], share: str) -> None:
        terms = self._terms.of_ledger(self._schema.unit, share=share)
        same = [terms["epsilon"], terms["delta"], terms["filter"], terms["unit"]]
        for name in names:
            block = held.get(name)
            if block is not None and [block.budget.epsilon, block.budget.delta, block.filter, block.unit] != same:
                whole = f", which have {block.budget} (filter {block.filter}, unit {block.unit})"
                raise Refusal(
                    "this data set is declared on other terms than its blocks in the ledger"
                    f"{whole if share == 'whole' else ''}; its steward declares it again on the earlier ones"
                )
        self._ledger.open_blocks([name for name in names if name not in held], **terms)

    def pays(self, block: Block, loss: Loss | None, *, sized: bool) -> bool:
        """Return whether a block could be charged this, beside its size if that is still to be bought."""
        if block.state is not BlockState.OPEN:
            return False
        counting = FILTERS[block.filter]
        meters = {place: m for place, m in block.meters.items() if counting.firm or m.spent <= (m.capacity or 0)}
        losses = [loss] if loss is not None else []
        if self._by.sealed and not self.each and not sized:
            losses.append(self.size_price)
        price: dict[str, int] = {}
        for one in losses:
            for place, amount in counting.price(one, meters).items():
                price[place] = price.get(place, 0) + amount
        if not price:
            return any(meter.left > 0 for meter in meters.values())
        return counting.fits(price, {place: m.left for place, m in meters.items()})

    def spent(self, block: Block | None) -> bool:
        """Return whether less than the stated share of a block is left, for everybody who may ask."""
        if self.each:
            return False  # another developer may still come
        return block is not None and _unspent(block) < float(self._terms.retire_below)

    @property
    def size_price(self) -> Pure | Concentrated:
        """The loss of a size: a share of its block, or all of the block that pays for it alone."""
        if not self.each:
            return self._terms.size_loss
        return Pure(self._terms.of_ledger(self._schema.unit, share="sizes")["epsilon"])


def _unspent(block: Block) -> float:
    """The share of a block's epsilon, or of what its filter counts, that is not spent; what is set aside may come
    back."""
    shares = [
        max(0, meter.capacity - meter.spent) / meter.capacity
        for place, meter in block.meters.items()
        if meter.capacity and place != "delta"
    ]
    return (min if FILTERS[block.filter].firm else max)(shares, default=0.0)
