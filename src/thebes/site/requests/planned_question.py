"""One ask on its way through a data set's planner: which rows it is about, what is set aside for it, what it pays.

What must stay true: rows are looked at only after what they cost is set aside; every amount that an answer says it cost
was charged under its task, and nothing beyond that stays charged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Generic, Protocol, TypeVar

from thebes.curator.cache.answer import NOTHING, Amounts, Answered
from thebes.curator.cache.planner import BOUGHT, Paying, Planner
from thebes.curator.cache.purchase import Purchase, amounts, loss_of
from thebes.curator.cache.requirement import Wanted
from thebes.curator.cache.synopsis import View
from thebes.curator.questions.plans import Integers, QuestionPlan
from thebes.curator.streams.stream import BlockStage, Context, Stream
from thebes.data.table import Table
from thebes.ledger import Budget, Ledger, LedgerClaim
from thebes.ledger.amounts import Amount
from thebes.ledger.losses import text_of
from thebes.ledger.states import ClaimState
from thebes.privacy.faults import Fault, Refusal
from thebes.privacy.losses import Approximate, Loss, Pure
from thebes.privacy.randomness import Randomness
from thebes.site.budget.budget import SiteBudget
from thebes.site.budget.policy import PolicyRule
from thebes.site.budget.purchases import SPENDER, shares
from thebes.site.dataset import DataSet
from thebes.site.requests.response_store import SiteRequest
from thebes.tasks.block_price import Cost
from thebes.tasks.site_document import SiteDocument


def whole(stream: Stream, context: Context) -> View:
    """Every block that is over and has its rows, also those that can pay no more: what was released about all of them
    costs nothing."""
    offered = {block.name for block in stream.offered(context=context or None)}
    return tuple(b.name for b in stream.blocks(context=context or None) if b.name in offered or b.state == "retired")


class AskPayer(Protocol):
    """From whose budget, and under which rule, an ask is paid."""

    def payable(self, loss: Loss, price: Budget) -> list[str]:
        """The blocks of a growing data set that can pay so much."""
        ...

    def blocks(self) -> list[str]:
        """Those of a claim that was made for this ask before; none where there is no such claim."""
        ...

    def check(self, loss: Loss, price: Budget) -> None:
        """Refuse what a new claim would be refused now; nothing is set aside."""
        ...

    def reserve(self, loss: Loss, price: Budget, blocks: Sequence[str]) -> LedgerClaim:
        """Set so much aside in the data set's own block, or in all of these; a Refusal where that cannot be."""
        ...

    def settle(self, claim: LedgerClaim, paid: Budget | None) -> None:
        """This is all that the ask cost; None where an attempt before this one had paid as well."""
        ...


Whose = TypeVar("Whose", bound=AskPayer)


@dataclass
class Planning(Generic[Whose]):
    """One ask. `opened` gives the rows of some blocks (of a set that does not grow, all), `looking` is called once,
    when they are about to be read for it."""

    planner: Planner
    dataset: DataSet
    account: Whose
    ledger: Ledger
    stream: Stream | None
    opened: Callable[[Sequence[str]], Table]
    looking: Callable[[], None]
    part: str
    context: Context = ""
    view: View = ()
    #: whether an answer says by itself what its ask cost: no attempt before it had paid
    afresh: bool = False
    _tables: dict[View, Table] = field(default_factory=dict)

    def answer(
        self, plan: QuestionPlan, wanted: Wanted, *, payer: str, question: str | None, randomness: Randomness
    ) -> Answered:
        """The answer; `view` says then which blocks it is about."""

        def answer() -> Answered:
            return self.planner.answer(
                plan,
                wanted,
                self,
                reserve=self._reserve,
                buy=partial(self._buy, plan, wanted),
                randomness=randomness,
                payer=payer,
                context=self._own,
                question=question,
            )

        if self.stream is not None:
            self.view = tuple(self.account.blocks()) or whole(self.stream, self.context)
            known = self.planner.recall(plan, wanted, self.view, payer=payer, context=self._own, question=question)
            if known is not None:
                return known
            self._forget(self.stream)
            if not self.account.blocks():
                _, purchase = wanted.calibrated(plan, self.dataset.schema, filter=self.dataset.budget.filter)
                price = self._loss([purchase]), budget_of([purchase])
                return self._of_payable(price, answer)
        return answer()

    def _of_payable(self, price: tuple[Loss, Budget], answer: Callable[[], Answered]) -> Answered:
        """The answer over the blocks that can pay; over those that still can, where somebody else was first."""
        self.view = tuple(self.account.payable(*price))
        while self.view:
            try:
                return answer()
            except Refusal:
                fewer = tuple(self.account.payable(*price))
                if self.account.blocks() or not set(fewer) < set(self.view):
                    raise
                self.view = fewer
        self.account.reserve(*price, ())  # refused, saying why
        raise Fault("a claim on no block was not refused")

    @property
    def _own(self) -> str:
        """The one whose answers are used again: of one with a budget of their own only theirs."""
        return self.context if isinstance(self.context, str) else ""

    def again(self, plan: QuestionPlan, wanted: Wanted, *, question: str | None) -> Answered | None:
        """The answer for nobody yet known, if it was released before: it waits for no other's."""
        if self.stream is not None:
            self.view = whole(self.stream, self.context)
        return self.planner.recall(plan, wanted, self.view, context=self._own, question=question)

    def _forget(self, stream: Stream) -> None:
        """Answers that can be given to nobody again: about blocks whose rows are deleted or, where all share a budget,
        about blocks that pay no more, except together with all others there are."""
        there = whole(stream, "")
        states = {block.name: block.state for block in stream.blocks()}
        kept = {name for name, state in states.items() if state != BlockStage.DROPPED}
        paying = kept if stream.terms.separate else {name for name in kept if states[name] != BlockStage.RETIRED}
        gone = frozenset(states.keys() - paying)
        self.planner.ended(gone, lambda view: view != there and not paying.issuperset(view))

    # --- rows -----------------------------------------------------------------------------------------------

    def table(self, blocks: View | None = None) -> Table:
        wanted = self.view if blocks is None else blocks
        if wanted not in self._tables:
            self._tables[wanted] = self.opened(wanted)
        return self._tables[wanted]

    def totals(self, plan: QuestionPlan, blocks: View | None = None) -> Integers:
        return plan.totals(self.table(blocks))

    # --- what is paid ---------------------------------------------------------------------------------------

    def _loss(self, purchases: Sequence[Purchase]) -> Loss:
        return loss_of(purchases, self.dataset.budget.filter)

    def _reserve(self, purchases: Sequence[Purchase]) -> Paying:
        if self.stream is None:
            self.table()  # rows that cannot be reached cost nothing
        if not purchases:
            self.looking()
            return _Free()
        claim = self.account.reserve(self._loss(purchases), budget_of(purchases), self.view)
        self.looking()
        self.afresh = afresh = claim.left == claim.loss
        return _Paid(
            claim,
            self.part,
            self._loss,
            lambda paid: self.account.settle(claim, budget_of(paid) if afresh else None),
        )

    def _buy(self, plan: QuestionPlan, wanted: Wanted, purchases: Sequence[Purchase], name: str) -> Paying:
        """Reserve the price of what a synopsis is made of: it is the data set's own purchase, whoever asked first; of a
        set that grows, of the blocks that it is about. A Refusal where it is more than the data set may spend on
        itself, or where the question could not be paid for without it and beside it: a question that is refused
        for a budget makes its data set buy nothing."""
        key, purpose, loss = f"{BOUGHT}{name}", "what a synopsis is made of", self._loss(purchases)
        lacking = self.planner.lacking(self.view) if self.stream is not None else (self.dataset.name,)
        taken = shares(self.ledger, map(self.ledger.block, lacking), more=loss, without=key)
        if max(taken.values(), default=0.0) > self.dataset.cache.own_share:
            raise Refusal("what a synopsis is made of costs more than this data set may spend on itself")
        if self.ledger.claimed(key) is None:  # else it was begun, and a crash lay between
            self._check_beside(purchases, self.planner.mechanism(plan, wanted).purchases, lacking)
        if self.stream is not None:
            claim = self.stream.reserve(lacking, loss=loss, purpose=purpose, spender=SPENDER, key=key)
        else:
            self.table()
            claim = self.ledger.reserve(
                [self.dataset.name],
                loss=loss,
                purpose=purpose,
                spender=SPENDER,
                key=key,
                unit=self.dataset.terms["unit"],
                adjacency=self.dataset.terms["adjacency"],
            )
        return _Paid(claim, "cache", self._loss, lambda _: claim.release() if claim.state.open else None)

    def _check_beside(self, purchases: Sequence[Purchase], alone: Sequence[Purchase], lacking: Sequence[str]) -> None:
        """Refuse where the question could not be paid for without a synopsis, or no more once that is bought."""
        self.account.check(self._loss(alone), budget_of(alone))
        both = self._loss([*purchases, *alone])
        if self.stream is None:
            self.ledger.check(lacking, loss=both, spender=SPENDER)
            return
        if not {*lacking} <= {block.name for block in self.stream.offered(loss=both, context=self.context or None)}:
            raise Refusal("what a synopsis is made of leaves too little for the question itself")


@dataclass(frozen=True)
class TaskAccount:
    """A task that a coordinator asked, under the rule that allows it."""

    budget: SiteBudget
    request: SiteRequest
    document: SiteDocument
    dataset: DataSet
    stream: Stream | None
    rule: PolicyRule

    def payable(self, loss: Loss, price: Budget) -> list[str]:
        assert self.stream is not None  # noqa: S101
        return self.budget.payable(self.request, self.stream, Cost(loss, None), price, self.rule)

    def blocks(self) -> list[str]:
        claim = self.budget.claim(self.request)
        return [] if claim is None or self.stream is None else self.stream.named(claim)

    def check(self, loss: Loss, price: Budget) -> None:
        self.budget.check(self.request, self.dataset, self.stream, Cost(loss, None), price, (self.rule,))

    def reserve(self, loss: Loss, price: Budget, blocks: Sequence[str]) -> LedgerClaim:
        asked, cost = (self.request, self.document), Cost(loss, None)
        if self.stream is None:
            return self.budget.reserve(*asked, self.dataset, cost, (self.rule,), price=price)
        return self.budget.reserve_blocks(*asked, self.stream, cost, self.rule, names=blocks, price=price)[0]

    def settle(self, claim: LedgerClaim, paid: Budget | None) -> None:
        self.budget.settle(self.request, claim, paid)

    def charged(self) -> Amounts:
        """Return what a claim of this task has kept, where an answer does not say it: a crash lay between."""
        claim = self.budget.claim(self.request)
        if claim is None or claim.state is ClaimState.RELEASED:
            return NOTHING
        untouched = claim.state.open and claim.left == claim.loss
        kept = self.budget.settle(self.request, claim, Budget(Amount(0), Amount(0)) if untouched else None)
        return Decimal(kept.epsilon), Decimal(kept.delta)


class _Free:
    """Nothing is paid, because everything was before."""

    def pay(self, purchase: Purchase, number: int) -> None:
        raise AssertionError("what costs nothing pays nothing")

    def settle(self, paid: Sequence[Purchase]) -> None:
        """There is nothing to give back."""


@dataclass(frozen=True)
class _Paid:
    """A claim in the hands of the planner. The same part is charged once, however often a crash makes it try again."""

    claim: LedgerClaim
    part: str
    loss: Callable[[Sequence[Purchase]], Loss]
    settled: Callable[[Sequence[Purchase]], object]

    def pay(self, purchase: Purchase, number: int) -> None:
        loss = self.loss([purchase])
        if isinstance(self.claim.loss, Approximate) and isinstance(loss, Pure):
            loss = Approximate(loss.epsilon, 0)
        self.claim.consume(loss=loss, part=f"{self.part} {number} {_name(purchase, loss)}")

    def settle(self, paid: Sequence[Purchase]) -> None:
        self.settled(paid)


def _name(purchase: Purchase, loss: Loss) -> str:
    """One for each event at its price: what costs as much as another is not the same, and what is charged again must
    not have become dearer."""
    return hashlib.sha256(f"{purchase!r} {text_of(loss)}".encode()).hexdigest()[:32]


def budget_of(purchases: Sequence[Purchase]) -> Budget:
    epsilon, delta = amounts(purchases)
    return Budget(Amount(epsilon), Amount(delta))
