"""A site's ledger under its policy: what a data set's block still has, and what a rule still allows.

What must stay true: a rule never pays out more than it says at a data set, whoever of its requestors asks and however
the file is edited: what counts against it is everything that was ever claimed there and that it would cover today.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

from thebes.ledger import Block, Budget, BudgetExceeded, Claim, Ledger
from thebes.ledger.amounts import Steps, delta_steps
from thebes.ledger.asked import after
from thebes.ledger.filters import FILTERS
from thebes.ledger.states import ClaimState
from thebes.privacy.faults import Fault, Mistake, Refusal
from thebes.privacy.losses import Loss
from thebes.site.dataset import DataSet
from thebes.site.outbox import CLAIM, Outbox, Request
from thebes.site.policy import ANY, Asked, Rule
from thebes.site.pricing import Cost


@dataclass(frozen=True, slots=True)
class _Payer:
    """What a rule is asked about a claim. Of one whose task is not known any more every rule that speaks of its
    requestor counts it."""

    asked: Asked
    known: bool

    def counts(self, rule: Rule) -> bool:
        if self.known:
            return rule.covers(self.asked)
        return self.asked.requestor in rule.requestors or ANY in rule.requestors


class _Held:
    """What the claims on one block hold or have spent, and what those of one payer do together."""

    def __init__(self) -> None:
        self._claims: dict[int, tuple[_Payer, Steps]] = {}
        self._sums: dict[_Payer, Counter[str]] = {}

    def set(self, claim: int, steps: Steps, payer: _Payer | None = None) -> None:
        """What a claim holds from now on; `payer` is told the first time."""
        who, before = self._claims.get(claim, (payer, {}))
        if who is None:
            raise Fault("a claim is nobody's")
        total = self._sums.setdefault(who, Counter())
        total.subtract(before)
        total.update(steps)
        self._claims[claim] = (who, steps)

    def under(self, rule: Rule) -> Counter[str]:
        """What counts against a rule."""
        total: Counter[str] = Counter()
        for payer, steps in self._sums.items():
            if payer.counts(rule):
                total.update(steps)
        return total


class Purse:
    """The claims of one home. Only one process makes claims there, so that what a rule has left is known here."""

    def __init__(self, ledger: Ledger, outbox: Outbox) -> None:
        self.ledger = ledger
        self._lock = threading.RLock()
        self._held: dict[str, _Held] = {}  # by block
        subjects = outbox.subjects()
        claims = {claim.id: claim for claim in ledger.claims()}
        for block in ledger.blocks():
            for number, steps in ledger.held(block.name).items():
                payer = _payer(block.name, claims[number], subjects.get(claims[number].key or ""))
                self._of(block.name).set(number, steps, payer)

    def block(self, dataset: DataSet) -> Block:
        """The data set's block."""
        return block_of(self.ledger, dataset)

    def reserve(self, request: Request, dataset: DataSet, cost: Cost, rule: Rule) -> Claim:
        """Set the cost of a task aside, or raise BudgetExceeded and change nothing. Again gives the same claim."""
        with self._lock:
            earlier = self.claim(request)
            if earlier is not None:
                return earlier
            block = self.block(dataset)
            price = self._allowed(rule, block, cost.whole)
            claim = self.ledger.reserve(
                [block.name],
                loss=cost.whole,
                purpose=f"{request.kind} {request.key}",
                spender=request.requestor,
                key=request.key,
                unit=block.unit,
                adjacency=block.adjacency,
            )
            asked = Asked(request.requestor, block.name, request.kind, request.noise)
            self._of(block.name).set(claim.id, price, _Payer(asked, known=True))
            return claim

    def claim(self, request: Request) -> Claim | None:
        """The claim of a task, if there is one."""
        try:
            return self.ledger.claim(key=request.key)
        except Mistake:
            return None

    def holding(self) -> list[str]:
        """Tasks whose claims are still open."""
        keys = [claim.key or "" for claim in self.ledger.claims() if claim.state.open]
        return [key.removeprefix(CLAIM) for key in keys if key.startswith(CLAIM)]

    def release(self, request: Request) -> None:
        """Give back what a task has not consumed."""
        with self._lock:
            claim = self.claim(request)
            if claim is None or not claim.state.open:
                return
            claim.release()
            spent = after(claim.loss, claim.left)
            if spent is not None:
                block = self.ledger.block(request.dataset)
                some = claim.state is not ClaimState.RELEASED
                self._of(block.name).set(claim.id, FILTERS[block.filter].price(spent, block.meters) if some else {})

    def left(self, rule: Rule, block: Block) -> Budget:
        """What a rule still allows at a data set, as far as the data set itself has it."""
        with self._lock:
            left = self._left(rule, block)
        reading = FILTERS[block.filter].reading(left, _delta_steps(block))
        return Budget(
            min(reading.epsilon, block.remaining.epsilon),
            min(reading.delta, block.remaining.delta),
        )

    def _allowed(self, rule: Rule, block: Block, loss: Loss) -> Steps:
        counting = FILTERS[block.filter]
        try:
            price = counting.price(loss, block.meters)
        except Mistake as unpriced:
            raise Refusal(f"this data set's budget cannot pay for this task: {unpriced.message}") from None
        left = self._left(rule, block)
        if not counting.fits(price, left):
            delta = _delta_steps(block)
            raise BudgetExceeded(block.name, counting.reading(price, delta), counting.reading(left, delta), str(rule))
        return price

    def _left(self, rule: Rule, block: Block) -> dict[str, int]:
        delta = block.budget.delta if rule.delta is None else rule.delta
        allowed = FILTERS[block.filter].allowance(rule.epsilon, delta, block.meters)
        held = self._of(block.name).under(rule)
        return {place: allowed.get(place, 0) - held[place] for place in block.meters}

    def _of(self, block: str) -> _Held:
        return self._held.setdefault(block, _Held())


def _payer(block: str, claim: Claim, subject: tuple[str, str] | None) -> _Payer:
    kind, noise = subject or ("", "")
    return _Payer(Asked(claim.spender, block, kind, noise), known=subject is not None)


def _delta_steps(block: Block) -> int:
    return delta_steps(block.budget.delta)


def block_of(ledger: Ledger, dataset: DataSet) -> Block:
    """A data set's block; a Refusal where the ledger has another than the file says."""
    try:
        block = ledger.block(dataset.name)
    except Mistake:
        raise Refusal("this data set has no budget in the site's ledger") from None
    held = {"epsilon": block.budget.epsilon, "delta": block.budget.delta, "filter": block.filter}
    held |= {"unit": block.unit, "adjacency": block.adjacency}
    if held != dataset.terms:
        raise Refusal("this data set is declared on other terms than its budget in the site's ledger")
    return block


def standing(block: Block) -> dict[str, Any]:
    """A block as its owner is shown it. `remaining` is the most that one more answer could cost, `left` the share of
    the budget that is not spent or set aside."""
    return {
        "block": block.name,
        **block.budget.as_json(),
        "remaining": block.remaining.as_json(),
        "left": _share(block),
        "state": str(block.state),
        "filter": block.filter,
        "unit": str(block.unit),
    }


def _share(block: Block) -> float:
    shares = [max(0, meter.left) / meter.capacity for meter in block.meters.values() if meter.capacity]
    return (min if FILTERS[block.filter].firm else max)(shares, default=0.0)
