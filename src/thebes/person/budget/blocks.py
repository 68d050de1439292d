"""The blocks of a person's ledger: for each kind of trust one for a budget period, and one for ever.

What must stay true: the terms of a block never change, so another limit, or periods of another length, mean another
block; into it everything is carried that was claimed before, and no claim is ever in neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal

from thebes.ledger import Block, BlockState, Budget, ClaimState, Ledger, LedgerClaim
from thebes.ledger.amounts import Amount
from thebes.privacy.losses import Approximate, Loss, Pure
from thebes.privacy.promise import Adjacency, Unit

CARRIED = "carried over"
OVERALL = ", overall"  #: how the name of a block ends that holds for ever
_GENERATION = re.compile(r" #(\d+)$")
_PERIOD = re.compile(r"(\w+), (\d{4}-\d\d-\d\d) to (\d{4}-\d\d-\d\d)")  #: of the name of a period's block


class PersonBlocks:
    """One thread at a time asks for them."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def of(self, base: str, epsilon: Decimal, delta: Decimal) -> Block:
        """The block of that name with this limit, or with as much as was claimed before where that is more."""
        blocks = self.ledger.blocks()
        own = sorted((b for b in blocks if base_name(b.name) == base), key=lambda b: _generation(b.name))
        if own and self.ledger.frozen:
            # It carries nothing, and spends nothing; what is to be carried is found once it is thawed.
            return self.ledger.block(own[-1].name)
        beside = [] if self.ledger.frozen else [b for b in blocks if _overlap(base, b)]
        if not own and not beside:
            return self._open(base, epsilon, delta)
        if len(own) > 1 and own[-2].state is BlockState.OPEN:
            self._carry(own[-2], own[-1])  # a crash came in between
        newest = [self.ledger.block(block.name) for block in own[-1:]]
        sources = beside + [b for b in newest if b.state is BlockState.OPEN or not beside]  # else it was carried itself
        limit = _enough(epsilon, delta, sources)
        if newest and not beside and (newest[0].budget.epsilon, newest[0].budget.delta) == limit:
            return newest[0]
        fresh = self._open(f"{base} #{_generation(newest[0].name) + 1}" if newest else base, *limit)
        for block in sources:
            self._carry(block, fresh)
        return self.ledger.block(fresh.name)

    def _open(self, name: str, epsilon: Decimal, delta: Decimal) -> Block:
        return self.ledger.open_block(
            name, epsilon=epsilon, delta=delta, unit=Unit.DEVICE, adjacency=Adjacency.REPLACE_ONE
        )

    def _carry(self, old: Block, new: Block) -> None:
        # Claims still open in the old block count whole, so what they give back later is lost to the new one.
        for who, (epsilon, delta) in _by_spender(self.ledger.claims(block=old.name)).items():
            key = f"{CARRIED} from {old.name} to {new.name} for {who}"
            claim = self.ledger.claimed(key) or self.ledger.reserve(
                [new.name],
                loss=Approximate(epsilon, delta) if delta else Pure(epsilon),
                purpose=CARRIED,
                spender=who,
                key=key,
            )
            if claim.state.open:
                claim.consume()
        self.ledger.retire_block(old.name)


def of_period(trust: str, start: date, end: date) -> str:
    """The name of a period's block."""
    return f"{trust}, {start} to {end}"


def base_name(name: str) -> str:
    """A block's name without the number of its generation."""
    return _GENERATION.sub("", name)


def loss_as_budget(loss: Loss) -> Budget:
    """A person's claims are pure or approximate."""
    return Budget(Amount(loss.epsilon), Amount(getattr(loss, "delta", 0)))  # type: ignore[union-attr]


def consumed(claim: LedgerClaim) -> Budget:
    """Return what a claim has consumed for good."""
    if claim.state in (ClaimState.RESERVED, ClaimState.RELEASED):
        return Budget(Amount(0), Amount(0))
    asked, left = loss_as_budget(claim.loss), loss_as_budget(claim.left)
    return Budget(asked.epsilon - left.epsilon, asked.delta - left.delta)


def added(amounts: Iterable[Budget]) -> Budget:
    """Return the sum of amounts."""
    every = list(amounts)
    return Budget(Amount(sum(each.epsilon for each in every)), Amount(sum(each.delta for each in every)))


def _by_spender(claims: Iterable[LedgerClaim]) -> dict[str, tuple[Decimal, Decimal]]:
    held: dict[str, tuple[Decimal, Decimal]] = {}
    for claim in claims:
        amount = loss_as_budget(claim.loss) if claim.state.open else consumed(claim)
        epsilon, delta = held.get(claim.spender, (Decimal(0), Decimal(0)))
        if amount.epsilon or amount.delta:
            held[claim.spender] = (epsilon + amount.epsilon, delta + amount.delta)
    return held


def _enough(epsilon: Decimal, delta: Decimal, blocks: Sequence[Block]) -> tuple[Decimal, Decimal]:
    """That limit, or what is spent or set aside in these blocks where that is more."""
    steps = [{place: meter.reserved + meter.spent for place, meter in block.meters.items()} for block in blocks]
    held = [Budget.of_steps(each.get("epsilon", 0), each.get("delta", 0)) for each in steps]
    return (
        max(epsilon, sum((each.epsilon for each in held), Decimal(0))),
        max(delta, sum((each.delta for each in held), Decimal(0))),
    )


def _overlap(base: str, other: Block) -> bool:
    """Return whether an open block is another period's that shares a day with this one: periods had another length
    then."""
    own, its = (_PERIOD.fullmatch(name) for name in (base, base_name(other.name)))
    if own is None or its is None or own[0] == its[0] or own[1] != its[1] or other.state is not BlockState.OPEN:
        return False
    return its[2] < own[3] and own[2] < its[3]  # days are written so that they compare as text


def _generation(name: str) -> int:
    found = _GENERATION.search(name)
    return int(found.group(1)) if found else 1
