"""The blocks of a person's ledger: for each kind of trust one for a budget period, one for a year, and one for ever.

What must stay true: the terms of a block never change, so another limit, or periods of another length, mean another
block; into it everything is carried that was claimed before, and no claim is ever in neither.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from thebes.ledger import Block, BlockState, Budget, ClaimState, Ledger, LedgerClaim
from thebes.ledger.amounts import Amount
from thebes.ledger.block_name import base_name, generation, next_name
from thebes.privacy.losses import Approximate, Loss, Pure
from thebes.privacy.promise import Adjacency, Unit

CARRIED = "carried over"
YEAR_DAYS, STEP_DAYS = 365, 30  #: a year's block serves for the days of one step
EVERYBODY = "everybody"  #: who is said to have what a year's block begins with
OVERALL = ", overall"  #: how the name of a block ends that holds for ever
_YEAR = re.compile(r"(\w+), year to (\d{4}-\d\d-\d\d)")  #: of the name of a year's block
_PERIOD = re.compile(r"(\w+), (\d{4}-\d\d-\d\d) to (\d{4}-\d\d-\d\d)")  #: of the name of a period's block


class PersonBlocks:
    """One thread at a time asks for them."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._begun: set[str] = set()  #: years' blocks that have what was claimed before them
        self._whole = False  #: whether nothing is carried by halves: a process before this one may have died over it

    def of_year(self, trust: str, now: datetime, epsilon: Decimal, delta: Decimal) -> Block:
        """The block of the rolling year, which holds at least what was claimed in the 365 days that end `now`.

        A year is no block: it ends anew each day. So one block serves for a step of days. It begins with all that was
        claimed on days less than a year before it was opened, and every claim of the step comes on top. On a later day
        of the step the year has lost days that the block still counts: never less is counted than the year holds. A
        claim's day is known from the names of its blocks, as the last day of its step or, before there were years, of
        its period. So a claim counts for a year, up to a step, and up to its own step or period on top of it.
        """
        today = now.astimezone(UTC).date()
        end = step(today, STEP_DAYS)[1]
        base, before = f"{trust}, year to {end}", Budget(Amount(0), Amount(0))
        key = f"{CARRIED} into {base}"
        begins = base not in self._begun and not self.ledger.frozen
        begun = self.ledger.claimed(key) if begins else None
        if begins and begun is None:
            before = self._claimed_since(trust, today - timedelta(days=YEAR_DAYS), base)
        block = self.of(base, *self._with_room(base, epsilon, delta, before))
        if begun is None and (before.epsilon or before.delta):
            loss = Approximate(before.epsilon, before.delta) if before.delta else Pure(before.epsilon)
            begun = self.ledger.reserve([block.name], loss=loss, purpose=CARRIED, spender=EVERYBODY, key=key)
        if begun is not None and begun.state.open:
            begun.consume()
        if begins:
            self._begun.add(base)
        return self.ledger.block(block.name)

    def _with_room(self, base: str, epsilon: Decimal, delta: Decimal, more: Budget) -> tuple[Decimal, Decimal]:
        """Return that limit, or as much as is needed for what the newest block of a name holds and this on top."""
        if not more.epsilon and not more.delta:
            return epsilon, delta
        own = [b for b in self.ledger.blocks() if base_name(b.name) == base and b.state is BlockState.OPEN]
        held = _enough(Decimal(0), Decimal(0), own)
        return max(epsilon, held[0] + more.epsilon), max(delta, held[1] + more.delta)

    def _claimed_since(self, trust: str, first: date, year: str) -> Budget:
        """Add up what may have been claimed on this day or later, into no block of this year. What is still open counts
        whole, however long ago it was agreed to: it may leave today."""
        return added(
            loss_as_budget(claim.loss) if claim.state.open else consumed(claim)
            for claim in self.ledger.claims()
            if claim.purpose != CARRIED
            and all(base_name(name) != year for name in claim.blocks)
            and (ends := [end for name in claim.blocks if (end := _last_day(trust, name)) is not None])
            and (claim.state.open or min(ends) > first)
        )

    def of(self, base: str, epsilon: Decimal, delta: Decimal) -> Block:
        """The block of that name with this limit, or with as much as was claimed before where that is more."""
        self._finish_carrying()
        blocks = self.ledger.blocks()
        own = sorted((b for b in blocks if base_name(b.name) == base), key=lambda b: generation(b.name))
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
        fresh = self._open(next_name(newest[0].name) if newest else base, *limit)
        self._whole = False
        for block in sources:
            self._carry(block, fresh)
        self._whole = True
        return self.ledger.block(fresh.name)

    def _open(self, name: str, epsilon: Decimal, delta: Decimal) -> Block:
        return self.ledger.open_block(
            name, epsilon=epsilon, delta=delta, unit=Unit.DEVICE, adjacency=Adjacency.REPLACE_ONE
        )

    def _finish_carrying(self) -> None:
        """Carry the rest to where the first part went. Carried elsewhere, and that part with it, the first part would
        count twice, and twice as much again at every such crash."""
        if self._whole or self.ledger.frozen:
            return
        still_open = {block.name: block for block in self.ledger.blocks() if block.state is BlockState.OPEN}
        for claim in self.ledger.claims():
            if claim.purpose == CARRIED and (new := still_open.get(claim.blocks[0])) is not None:
                for old in list(still_open):
                    if (claim.key or "").startswith(_carried(old, new.name)):
                        self._carry(still_open.pop(old), new)
        self._whole = True

    def _carry(self, old: Block, new: Block) -> None:
        # Claims still open in the old block count whole, so what they give back later is lost to the new one.
        for who, (epsilon, delta) in held_by(self.ledger.claims(block=old.name)).items():
            key = _carried(old.name, new.name) + who
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


def step(day: date, days: int) -> tuple[date, date]:
    """The first day of the step of so many days that a day lies in, and the first day after it; they are counted from
    1970."""
    since = day.toordinal() - date(1970, 1, 1).toordinal()
    start = date(1970, 1, 1) + timedelta(days=since - since % days)
    return start, start + timedelta(days=days)


def of_period(trust: str, start: date, end: date) -> str:
    """The name of a period's block."""
    return f"{trust}, {start} to {end}"


def claimed_kinds(blocks: Iterable[str]) -> set[str]:
    """Return the kinds of trust whose overall blocks are among these: every claim but a carried one has one of each."""
    return {name.removesuffix(OVERALL) for name in map(base_name, blocks) if name.endswith(OVERALL)}


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


def held_by(claims: Iterable[LedgerClaim]) -> dict[str, tuple[Decimal, Decimal]]:
    """Return what each spender holds of these claims: what is open counts whole."""
    held: dict[str, tuple[Decimal, Decimal]] = {}
    for claim in claims:
        amount = loss_as_budget(claim.loss) if claim.state.open else consumed(claim)
        epsilon, delta = held.get(claim.spender, (Decimal(0), Decimal(0)))
        if amount.epsilon or amount.delta:
            held[claim.spender] = (epsilon + amount.epsilon, delta + amount.delta)
    return held


def _carried(old: str, new: str) -> str:
    """Return how the keys of the claims begin that carry one block into another; who holds it follows."""
    return f"{CARRIED} from {old} to {new} for "


def _enough(epsilon: Decimal, delta: Decimal, blocks: Sequence[Block]) -> tuple[Decimal, Decimal]:
    """That limit, or what is spent or set aside in these blocks where that is more."""
    steps = [{place: meter.reserved + meter.spent for place, meter in block.meters.items()} for block in blocks]
    held = [Budget.of_steps(each.get("epsilon", 0), each.get("delta", 0)) for each in steps]
    return (
        max(epsilon, sum((each.epsilon for each in held), Decimal(0))),
        max(delta, sum((each.delta for each in held), Decimal(0))),
    )


def _last_day(trust: str, name: str) -> date | None:
    """Return the first day after those on which something can have been claimed into a block of a year or a period."""
    found = _YEAR.fullmatch(base_name(name)) or _PERIOD.fullmatch(base_name(name))
    return date.fromisoformat(found[found.lastindex or 0]) if found and found[1] == trust else None


def _overlap(base: str, other: Block) -> bool:
    """Return whether an open block is another period's that shares a day with this one: periods had another length
    then."""
    own, its = (_PERIOD.fullmatch(name) for name in (base, base_name(other.name)))
    if own is None or its is None or own[0] == its[0] or own[1] != its[1] or other.state is not BlockState.OPEN:
        return False
    return its[2] < own[3] and own[2] < its[3]  # days are written so that they compare as text
