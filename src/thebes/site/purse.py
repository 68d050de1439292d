"""A site's ledger under its policy: what a data set's block still has, and what a rule still allows.

What must stay true: a rule never pays out more than it says at a data set, whoever of its requestors asks and however
the file is edited: what counts against it is everything that was ever claimed there and that it would cover today. A
rule counts what documents say: their epsilons add up, and their deltas. The block counts in its own way beside it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from thebes.ledger import Block, Budget, BudgetExceeded, Claim, Ledger
from thebes.ledger.amounts import NOTHING, Amount, Steps, delta_steps
from thebes.ledger.filters import FILTERS
from thebes.ledger.states import ClaimState
from thebes.privacy import exact
from thebes.privacy.faults import Fault, Mistake, Refusal
from thebes.privacy.losses import Pure
from thebes.site.dataset import DataSet
from thebes.site.outbox import CLAIM, Outbox, Request, Subject
from thebes.site.policy import ANY, Asked, Rule
from thebes.site.pricing import Cost
from thebes.tasks.sites import SiteDocument


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


class _Sums:
    """What the claims on one block count for, by payer."""

    def __init__(self) -> None:
        self._claims: dict[int, tuple[_Payer, Budget]] = {}
        self._sums: dict[_Payer, Budget] = {}

    def set(self, claim: int, counts: Budget, payer: _Payer | None = None) -> None:
        """What a claim counts for from now on; `payer` is told the first time."""
        who, before = self._claims.get(claim, (payer, NOTHING))
        if who is None:
            raise Fault("a claim is nobody's")
        total = self._sums.get(who, NOTHING)
        self._sums[who] = Budget(
            total.epsilon - before.epsilon + counts.epsilon, total.delta - before.delta + counts.delta
        )
        self._claims[claim] = (who, counts)

    def under(self, rule: Rule) -> Budget:
        """What counts against a rule."""
        found = [total for payer, total in self._sums.items() if payer.counts(rule)]
        return Budget(Amount(sum(t.epsilon for t in found)), Amount(sum(t.delta for t in found)))


class Purse:
    """The claims of one home. Only one process makes claims there, so that what a rule has left is known here."""

    def __init__(self, ledger: Ledger, outbox: Outbox) -> None:
        self.ledger = ledger
        self._lock = threading.RLock()
        self._counted: dict[str, _Sums] = {}  # by block
        self._blocks: dict[str, tuple[DataSet, Block]] = {}
        subjects = outbox.subjects()
        claims = {claim.id: claim for claim in ledger.claims()}
        for block in ledger.blocks():
            for number, steps in ledger.held(block.name).items():
                claim = claims[number]
                subject = subjects.get(claim.key or "")
                self._of(block.name).set(
                    number, _counts(claim, block, subject, steps), _payer(block.name, claim, subject)
                )

    def block(self, dataset: DataSet) -> Block:
        """The data set's block, for its terms, which never change: how it stands may be from before, as reckoning what
        it still has takes longer than many an answer."""
        with self._lock:
            known = self._blocks.get(dataset.name)
            if known is None or known[0] is not dataset:
                known = self._blocks[dataset.name] = dataset, block_of(self.ledger, dataset)
            return known[1]

    def reserve(self, request: Request, document: SiteDocument, dataset: DataSet, cost: Cost, rule: Rule) -> Claim:
        """Set the cost of a task aside, or raise BudgetExceeded and change nothing. Again gives the same claim."""
        with self._lock:
            earlier = self.claim(request)
            if earlier is not None:
                return earlier
            block = self.block(dataset)
            price = Budget(Amount(exact.epsilon(document.epsilon)), Amount(exact.delta(document.delta)))
            self._allow(rule, block, price)
            try:
                claim = self.ledger.reserve(
                    [block.name],
                    loss=cost.whole,
                    purpose=f"{request.kind} {request.key}",
                    spender=request.requestor,
                    key=request.key,
                    unit=block.unit,
                    adjacency=block.adjacency,
                )
            except Mistake as unpriced:
                raise Refusal(f"this data set's budget cannot pay for this task: {unpriced.message}") from None
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
            if claim.state is ClaimState.RELEASED:
                self._of(request.dataset).set(claim.id, NOTHING)
            elif isinstance(claim.loss, Pure) and isinstance(claim.left, Pure):
                spent = Amount(claim.loss.epsilon - claim.left.epsilon)
                self._of(request.dataset).set(claim.id, Budget(spent, Amount(0)))

    def left(self, rule: Rule, block: Block) -> Budget:
        """The most that one more answer may cost under a rule, as far as the data set itself has it."""
        with self._lock:
            left = self._left(rule, block)
        return Budget(min(left.epsilon, block.remaining.epsilon), min(left.delta, block.remaining.delta))

    def _allow(self, rule: Rule, block: Block, price: Budget) -> None:
        left = self._left(rule, block)
        beyond = rule.delta is not None and price.delta > left.delta
        if price.epsilon > left.epsilon or beyond:
            raise BudgetExceeded(block.name, price, left, str(rule))

    def _left(self, rule: Rule, block: Block) -> Budget:
        """What of a rule is left; without a delta of its own the block alone says which deltas are too many."""
        counted = self._of(block.name).under(rule)
        delta = block.budget.delta if rule.delta is None else rule.delta - counted.delta
        return Budget(Amount(max(Decimal(0), rule.epsilon - counted.epsilon)), Amount(max(Decimal(0), delta)))

    def _of(self, block: str) -> _Sums:
        return self._counted.setdefault(block, _Sums())


def _payer(block: str, claim: Claim, subject: Subject | None) -> _Payer:
    kind, noise = ("", "") if subject is None else (subject.kind, subject.noise)
    return _Payer(Asked(claim.spender, block, kind, noise), known=subject is not None)


def _counts(claim: Claim, block: Block, subject: Subject | None, steps: Steps) -> Budget:
    """What a claim from before counts for: what it holds or has spent where that is an epsilon; else what its document
    said, whole; and where nobody remembers that, what the block reads off its own count."""
    if isinstance(claim.loss, Pure):
        return Budget.of_steps(steps.get("epsilon", 0), 0)
    if subject is not None:
        return Budget(Amount(str(subject.epsilon)), Amount(str(subject.delta)))
    return FILTERS[block.filter].reading(steps, delta_steps(block.budget.delta))


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
