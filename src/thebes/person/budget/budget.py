"""The person's ledger as budget periods: what may be spent this period, within a year and ever, kept apart by whom one
has to trust.

What must stay true: every claim is set aside in its period, its year and the overall block together, so none is passed.
What two servers are trusted with is always set aside in blocks of its own, and in those of one server besides while it
is part of that budget: so a budget of its own forgets nothing of what there was before it, and no limit grows unasked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from thebes.ledger import Block, Budget, Ledger, LedgerClaim
from thebes.ledger.amounts import Amount
from thebes.ledger.block_name import base_name
from thebes.person.budget.blocks import (
    OVERALL,
    YEAR_DAYS,
    PersonBlocks,
    claimed_kinds,
    held_by,
    of_period,
    step,
)
from thebes.person.settings import TRUSTS, PersonSettings
from thebes.privacy.faults import Refusal
from thebes.privacy.promise import Adjacency, Unit

#: on what a budget rests that is not of this machine alone
PROMISES = {"trusted": "if the server keeps its promise", "split": "if one of the two servers keeps its promise"}
Blocks = tuple[Block, Block, Block]


class PersonBudget:
    """`settings` are read anew for every claim, `clock` gives today."""

    def __init__(
        self, ledger: Ledger, settings: Callable[[], PersonSettings], clock: Callable[[], datetime] | None = None
    ) -> None:
        self.ledger = ledger
        self._blocks = PersonBlocks(ledger)
        self._settings = settings
        self._clock = clock or (lambda: datetime.now(UTC))
        self._lock = threading.RLock()

    def reserve(
        self, key: str, *, trust: str, epsilon: Decimal, delta: Decimal, requestor: str, purpose: str
    ) -> LedgerClaim:
        """Set the price aside, or raise BudgetExceeded and change nothing. The same key gives the same claim."""
        with self._lock:
            earlier = self.claim(key)
            if earlier is not None:
                return earlier
            drawn_on = self._drawn_on(trust)
            for of_now, *_ in drawn_on:
                self._cap(requestor, of_now)
            return self.ledger.reserve(
                [block.name for blocks in drawn_on for block in blocks],
                epsilon=epsilon,
                delta=delta,
                purpose=purpose,
                spender=requestor,
                key=key,
                unit=Unit.DEVICE,
                adjacency=Adjacency.REPLACE_ONE,
            )

    def under_cap(self, requestor: str, trust: str) -> dict[str, Any] | None:
        """Tell what the cap of this requestor leaves in this period, which `reserve` will hold them to; None without
        one. Nothing is written: whoever names requestors would fill the ledger otherwise."""
        cap = self._settings().cap_of(requestor)
        if cap is None:
            return None
        with self._lock:
            periods = [of_now.name for of_now, *_ in self._drawn_on(trust)]
            claims = [self.ledger.claims(spender=requestor, block=name) for name in periods]
        held = [held_by(each).get(requestor, (Decimal(0), Decimal(0))) for each in claims]
        epsilon, delta = (max(each) for each in zip(*held, strict=True))
        rest = cap.epsilon - epsilon, (cap.delta or Decimal(0)) - delta
        left = Budget(*(Amount(max(Decimal(0), each)) for each in rest))
        remaining = left.as_json()
        return {
            "epsilon": float(cap.epsilon),
            "remaining": remaining if cap.delta is not None else {**remaining, "delta": None},
        }

    def claim(self, key: str) -> LedgerClaim | None:
        """The claim under a key, if there is one."""
        return self.ledger.claimed(key)

    def release(self, key: str) -> None:
        """Give back what was not consumed."""
        claim = self.claim(key)
        if claim is not None:
            claim.release()

    def _drawn_on(self, trust: str) -> list[Blocks]:
        """List the blocks of each budget that a task draws on, its own first."""
        settings, moment = self._settings(), self._clock()  # once: changed in between, neither would bound the task
        return [self._blocks_of(budget, settings, moment) for budget in settings.budgets(trust)]

    def blocks(self, trust: str, now: datetime | None = None) -> Blocks:
        """This period's block (`now`'s), the rolling year's and the overall one, with the limits the person set."""
        return self._blocks_of(trust, self._settings(), now or self._clock())

    def _blocks_of(self, trust: str, settings: PersonSettings, moment: datetime) -> Blocks:
        allowed = settings.allowance(trust)
        of_now = of_period(trust, *period(moment, settings.period_days))
        with self._lock:
            return (
                self._blocks.of(of_now, allowed.epsilon, allowed.delta),
                self._blocks.of_year(trust, moment, *allowed.year),
                self._blocks.of(f"{trust}{OVERALL}", allowed.overall_epsilon, allowed.overall_delta),
            )

    def view(self) -> dict[str, Any]:
        """Tell what was spent, is set aside and is left, by trust. What is `within` another budget counts in both."""
        settings, moment = self._settings(), self._clock()  # once: at midnight one period's would be shown as another's
        with self._lock:
            blocks = {trust: self._blocks_of(trust, settings, moment) for trust in TRUSTS}
            taken = 0.0 if settings.split is not None else self._taken(blocks["split"][0], blocks["trusted"][0])
        spans = period(moment, settings.period_days)
        view = {trust: _standing(trust, [blocks[b] for b in settings.budgets(trust)], spans) for trust in TRUSTS}
        if "within" in view["split"]:
            view["split"]["taken"] = taken
        return view

    def _taken(self, own: Block, other: Block) -> float:
        """Add up what two servers hold of the period of another budget: what they had of one of their own is no part of
        it."""
        if not any(meter.spent or meter.reserved for meter in own.meters.values()):
            return 0.0
        name = base_name(other.name)  # a changed limit is another block of that name
        claims = [
            claim
            for claim in self.ledger.claims()
            if "split" in claimed_kinds(claim.blocks) and name in map(base_name, claim.blocks)
        ]
        return float(sum((epsilon for epsilon, _ in held_by(claims).values()), Decimal(0)))

    def _cap(self, requestor: str, block: Block) -> None:
        wanted = self._settings().cap_of(requestor)
        held = {(cap.spender, cap.block): (cap.epsilon, cap.delta) for cap in self.ledger.caps()}
        current = held.get((requestor, block.name))
        if wanted is None:
            if current is not None and current[0] != block.budget.epsilon:
                self.ledger.cap(requestor, block.budget.epsilon, block.budget.delta, block=block.name)
        elif current != (wanted.epsilon, wanted.delta):
            self.ledger.cap(requestor, wanted.epsilon, wanted.delta, block=block.name)


class PacketClaim:
    """The claim that an owner's half is given: it takes a note of what will be consumed, within what is left. The
    ledger is charged when the bytes are about to leave, so that bytes that never leave cost nothing."""

    def __init__(self, claim: LedgerClaim) -> None:
        self._left = claim.remaining
        self.epsilon = Decimal(0)
        self.delta = Decimal(0)
        #: so much later than otherwise what is made must leave
        self.held = 0.0

    def hold(self, moment: float) -> None:
        """Keep what is made until `moment` (of `time.monotonic`) or later: until then, how long it took may be the
        data's doing. When this is called is the data's doing, too, so only how long it is from now on counts."""
        self.held = max(self.held, moment - time.monotonic())

    def consume(self, *, epsilon: Any, delta: Any = 0) -> None:
        from thebes.privacy import exact

        self.epsilon += exact.declared("epsilon", epsilon)
        self.delta += exact.declared("delta", delta)
        if self.epsilon > self._left.epsilon or self.delta > self._left.delta:
            raise Refusal("this contribution would cost more than was set aside for it; nothing is sent")


def period(now: datetime, days: int) -> tuple[date, date]:
    """The first day of the budget period and the first day after it; periods are counted from 1970."""
    return step(now.astimezone(UTC).date(), days)


def _standing(trust: str, drawn_on: Sequence[Blocks], days: tuple[date, date]) -> dict[str, Any]:
    now, year, ever = zip(*drawn_on, strict=True)
    start, end = (day.isoformat() for day in days)
    view: dict[str, Any] = {
        "period": {"start": start, "end": end, **_amounts(now)},
        "year": {"days": YEAR_DAYS, **_amounts(year)},
        "overall": _amounts(ever),
    }
    if trust in PROMISES:
        view["promise"] = PROMISES[trust]
    if len(now) > 1:
        view["within"] = "trusted"
    return view


def _amounts(blocks: Sequence[Block]) -> dict[str, Any]:
    """Tell what the first of these blocks holds, and what all of them leave."""
    block, left = blocks[0], [each.remaining for each in blocks]
    spent = {place: meter.spent for place, meter in block.meters.items()}
    reserved = {place: meter.reserved for place, meter in block.meters.items()}
    return {
        "epsilon": float(block.budget.epsilon),
        "delta": float(block.budget.delta),
        "spent": Budget.of_steps(spent.get("epsilon", 0), spent.get("delta", 0)).as_json(),
        "reserved": Budget.of_steps(reserved.get("epsilon", 0), reserved.get("delta", 0)).as_json(),
        "remaining": Budget(min(each.epsilon for each in left), min(each.delta for each in left)).as_json(),
    }
