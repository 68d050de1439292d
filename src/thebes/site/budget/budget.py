"""A site's ledger under its policy: what a data set's block still has, and what a rule still allows.

What must stay true: a rule never pays out more than it says at a data set, whoever of its requestors asks and however
the file is edited: what counts against it is everything that was ever claimed there and that it would cover today. A
rule counts what documents say: their epsilons add up, and their deltas. The block counts in its own way beside it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from decimal import Decimal

from thebes.curator.streams.stream import Context, Stream
from thebes.ledger import Block, Budget, BudgetExceeded, Frozen, Ledger, LedgerClaim
from thebes.ledger.amounts import NOTHING, Amount
from thebes.ledger.states import ClaimState
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.losses import Approximate, Pure
from thebes.site.budget.blocks import block_of, price_of
from thebes.site.budget.counted_claims import CountedClaims, Payer
from thebes.site.budget.policy import PolicyRule, TaskFacts
from thebes.site.dataset import DataSet
from thebes.site.requests.response_store import CLAIM, CLOSED, ResponseStore, SiteRequest
from thebes.site.streams import context_of
from thebes.tasks.block_price import Cost
from thebes.tasks.site_document import SiteDocument


class SiteBudget:
    """The claims of one home. Only one process makes those of tasks, so that what a rule has left is known here; what
    others claim there (a pipeline, sizes of blocks) is read off the journal. `deciding` is held while a rule is asked
    and a claim is made where others claim too; `attempts` tells what each attempt of a pipeline may spend, by the key
    of its claim."""

    def __init__(
        self,
        ledger: Ledger,
        outbox: ResponseStore,
        *,
        deciding: Callable[[], AbstractContextManager[None]] = nullcontext,
        attempts: Callable[[], Mapping[str, Budget]] = dict,
    ) -> None:
        self.ledger, self._outbox, self._deciding = ledger, outbox, deciding
        self._lock = threading.RLock()
        self._claims = CountedClaims(ledger, outbox.subjects, attempts)
        self._blocks: dict[str, tuple[DataSet, Block]] = {}
        self._searched, self._copied = 0, False

    def block(self, dataset: DataSet) -> Block:
        """The data set's block, for its terms, which never change: how it stands may be from before, as reckoning what
        it still has takes longer than many an answer."""
        with self._lock:
            known = self._blocks.get(dataset.name)
            if known is None or known[0] is not dataset:
                known = self._blocks[dataset.name] = dataset, block_of(self.ledger, dataset)
            return known[1]

    def reserve(
        self,
        request: SiteRequest,
        document: SiteDocument,
        dataset: DataSet,
        cost: Cost,
        rules: Sequence[PolicyRule],
        *,
        price: Budget | None = None,
    ) -> LedgerClaim:
        """Set the cost of a task aside in every data set that pays, each under its rule, or raise BudgetExceeded and
        change nothing. Again gives the same claim, as long as all that was claimed under each rule is within what it
        says by now. `price` is what counts under the rules; unless it is named, what the document says."""
        with self._lock:
            earlier = self.claim(request)
            paying = self._paying(dataset, rules)
            if earlier is not None:
                self._claims.refresh()
                self._thawed(dataset.name, price or price_of(document))
                more = self._more(request, earlier, price)
                for block, rule in paying:
                    if block.name not in earlier.blocks or not self._within(rule, block.name, more):
                        raise BudgetExceeded(block.name, price or price_of(document), NOTHING, str(rule))
                self._count_more(request, earlier, more)
                return earlier
            counts = self._told(request, document, price)
            for block, rule in paying:
                self._allow(rule, block, counts)
            with _priced():
                claim = self.ledger.reserve(
                    [block.name for block, _ in paying],
                    loss=cost.whole,
                    purpose=f"{request.kind} {request.key}",
                    spender=request.requestor,
                    key=request.key,
                    unit=paying[0][0].unit,
                    adjacency=paying[0][0].adjacency,
                )
            for block, _ in paying:
                asked = TaskFacts(request.requestor, block.name, request.kind, request.noise)
                self._claims.of(block.name).set(claim.id, counts, Payer(asked, known=True), request.digest)
            return claim

    def _paying(self, dataset: DataSet, rules: Sequence[PolicyRule]) -> list[tuple[Block, PolicyRule]]:
        """Return the blocks that pay, each with the rule that allows it."""
        return [(self.block(each), rule) for each, rule in zip(dataset.paying, rules, strict=True)]

    def reserve_blocks(
        self,
        request: SiteRequest,
        document: SiteDocument,
        stream: Stream,
        cost: Cost,
        rule: PolicyRule,
        *,
        names: Sequence[str] | None = None,
        price: Budget | None = None,
    ) -> tuple[LedgerClaim, list[str]]:
        """Set the cost of a task aside in every block of a growing data set that is over and can pay it, under the rule
        and by its own budget, or in exactly the blocks that are named: the claim, and the blocks. Again gives the same.
        A Refusal where no block can."""
        with self._deciding(), self._lock:
            earlier = self.claim(request)
            context = context_of(stream, rule, request.requestor)
            if earlier is not None:
                self._claims.refresh()
                self._thawed(stream.name, price or price_of(document))
                more, claimed = self._more(request, earlier, price), stream.named(earlier)
                if stream.contexts and not {block.name for block in stream.blocks(context=context)}.issuperset(claimed):
                    raise Refusal(f"{rule} does not let {request.requestor} ask in all contexts of this claim any more")
                if not all(self._within(rule, name, more) for name in claimed):
                    raise BudgetExceeded(stream.name, price or price_of(document), NOTHING, str(rule))
                self._count_more(request, earlier, more)
                return earlier, claimed
            counts = self._told(request, document, price)
            able = self._payable(stream, cost, counts, context, rule)
            chosen = able if names is None else [name for name in names if name in set(able)]
            if not chosen or (names is not None and len(chosen) < len(names)):
                raise _no_block(rule)
            claim = stream.reserve(
                chosen,
                loss=cost.whole,
                purpose=f"{request.kind} {request.key}",
                spender=request.requestor,
                key=request.key,
                context=context,
            )
            asked = TaskFacts(request.requestor, stream.name, request.kind, request.noise)
            for name in claim.blocks:
                self._claims.of(name).set(claim.id, counts, Payer(asked, known=True), request.digest)
            return claim, chosen

    def check(
        self,
        request: SiteRequest,
        dataset: DataSet,
        stream: Stream | None,
        cost: Cost,
        price: Budget,
        rules: Sequence[PolicyRule],
    ) -> None:
        """Refuse what a new task would be refused that costs so much and counts for `price` under the rule; nothing is
        set aside."""
        with self._lock:
            if stream is None:
                paying = self._paying(dataset, rules)
                for block, rule in paying:
                    self._allow(rule, block, price)
                names, first = [block.name for block, _ in paying], paying[0][0]
                terms = {"unit": first.unit, "adjacency": first.adjacency}
                with _priced():
                    self.ledger.check(names, loss=cost.whole, spender=request.requestor, **terms)
                return
            context = context_of(stream, rules[0], request.requestor)
            able = self._payable(stream, cost, price, context, rules[0])
            if not able:
                raise _no_block(rules[0])
            stream.check(able, loss=cost.whole, spender=request.requestor, context=context)

    def payable(self, request: SiteRequest, stream: Stream, cost: Cost, price: Budget, rule: PolicyRule) -> list[str]:
        """The blocks that are over and can pay so much, under the rule and by their own budgets."""
        with self._lock:
            context = context_of(stream, rule, request.requestor)
            return self._payable(stream, cost, price, context, rule)

    def _payable(self, stream: Stream, cost: Cost, price: Budget, context: Context, rule: PolicyRule) -> list[str]:
        with _priced():
            offered = stream.offered(loss=cost.whole, context=context)
        self._claims.refresh()
        return [block.name for block in offered if self._within(rule, block.name, price)]

    def _told(self, request: SiteRequest, document: SiteDocument, price: Budget | None) -> Budget:
        """Return what a new claim of a task counts for: as its document says, or as it is named and then written down.
        Refuse it of a task that was closed meanwhile, of which may be said already that it was charged nothing."""
        known = self._outbox.request(request.task)
        if known is not None and known.state == CLOSED:
            raise Refusal("this task was closed; nothing more is answered")
        if price is None:
            return price_of(document)
        self._outbox.claim(request.task, price.epsilon, price.delta)
        return price

    def _more(self, request: SiteRequest, claim: LedgerClaim, price: Budget | None) -> Budget:
        """Return how much more a claim may buy than it counts for, where another attempt buys with it. What is left of
        it bounds that where it is an epsilon; where it is not, what costs little there may be a large epsilon."""
        if price is None or not claim.state.open or spent(claim) is not None:
            return NOTHING
        if claim.left != claim.loss:
            return price
        said = self.said(request)
        return Budget(
            Amount(max(Decimal(0), price.epsilon - said.epsilon)), Amount(max(Decimal(0), price.delta - said.delta))
        )

    def _count_more(self, request: SiteRequest, claim: LedgerClaim, more: Budget) -> None:
        if not (more.epsilon or more.delta):
            return
        said = self.said(request)
        counts = Budget(said.epsilon + more.epsilon, said.delta + more.delta)
        self._outbox.claim(request.task, counts.epsilon, counts.delta)
        for name in claim.blocks:
            self._claims.of(name).set(claim.id, counts)

    def _within(self, rule: PolicyRule, name: str, price: Budget) -> bool:
        """Return whether all that was claimed at a block under a rule, and a price beside it, is what the rule
        allows."""
        counted = self._claims.of(name).under(rule)
        return price.epsilon <= rule.epsilon - counted.epsilon and (
            rule.delta is None or price.delta <= rule.delta - counted.delta
        )

    def _thawed(self, name: str, price: Budget) -> None:
        """A part that a claim has paid for costs nothing again; in a copy it may have been answered since."""
        if self.ledger.frozen:
            raise Frozen(name, price, NOTHING)

    def claim(self, request: SiteRequest) -> LedgerClaim | None:
        """The claim of a task, if there is one."""
        return self.ledger.claimed(request.key)

    def charged(self, request: SiteRequest) -> bool | None:
        """Return whether a task that was closed has paid for anything; None where that is not known: its claim is open
        still, or this ledger came back from a copy once and may have forgotten a charge."""
        claim = self.claim(request)
        if self._came_back() or (claim is not None and claim.state.open):
            return None
        return claim is not None and claim.state is not ClaimState.RELEASED

    def _came_back(self) -> bool:
        """Return whether the journal has a freeze or a thaw; it only grows, so no entry of it is read twice."""
        with self._lock:
            for entry in () if self._copied else self.ledger.journal(self._searched):
                self._searched = entry.number
                self._copied = self._copied or entry.event in ("freeze", "thaw")
            return self._copied

    def holding(self) -> list[str]:
        """Tasks whose claims are still open."""
        keys = [claim.key or "" for claim in self.ledger.claims() if claim.state.open]
        return [key.removeprefix(CLAIM) for key in keys if key.startswith(CLAIM)]

    def release(self, request: SiteRequest) -> None:
        """Give back what a task has not consumed; of a frozen ledger nothing: its thaw takes open claims whole."""
        with self._lock:
            claim = self.claim(request)
            if claim is None or not claim.state.open:
                return
            try:
                claim.release()
            except Frozen:
                return
            if claim.state is ClaimState.RELEASED:
                left = NOTHING
            elif isinstance(claim.loss, Pure) and isinstance(claim.left, Pure):
                left = Budget(Amount(claim.loss.epsilon - claim.left.epsilon), Amount(0))
            else:
                return
            for name in claim.blocks:
                self._claims.of(name).set(claim.id, left)

    def said(self, request: SiteRequest) -> Budget:
        """Return what a task counts for at most, by its document or as it was written down."""
        subject = self._outbox.subjects()[request.key]
        return Budget(Amount(subject.epsilon), Amount(subject.delta))

    def settle(self, request: SiteRequest, claim: LedgerClaim, paid: Budget | None) -> Budget:
        """This is all that a task cost: give the rest back. What it counts for from now on: what its claim has spent,
        where that is an epsilon; else what was paid, or without that (attempts before the last one paid, too) all that
        it was to cost at most."""
        with self._lock:
            counts = spent(claim) or paid or self.said(request)
            try:
                if claim.state.open:
                    claim.release()
            except Frozen:
                return self.said(request)
            for name in claim.blocks:
                self._claims.of(name).set(claim.id, counts)
            self._outbox.claim(request.task, counts.epsilon, counts.delta)
            return counts

    def left(self, rule: PolicyRule, block: Block) -> Budget:
        """The most that one more answer may cost under a rule, as far as the data set itself has it."""
        with self._lock:
            left = self._left(rule, block)
        return Budget(min(left.epsilon, block.remaining.epsilon), min(left.delta, block.remaining.delta))

    def counted(self, rule: PolicyRule, block: Block) -> Budget:
        """Return what was claimed at a block and counts against a rule."""
        with self._lock:
            self._claims.refresh()
            return self._claims.of(block.name).under(rule)

    def left_for(
        self, request: SiteRequest, dataset: DataSet, stream: Stream | None, rules: Sequence[PolicyRule]
    ) -> Budget:
        """Return the same of a data set as it stands, for one requestor, whose own cap counts, too; of one that grows
        in the block that has most of it, and of two that are joined what both have."""
        with self._lock:
            if stream is None:
                paying = self._paying(dataset, rules)
            else:
                context = context_of(stream, rules[0], request.requestor)
                paying = [(block, rules[0]) for block in stream.payers(context=context)]
            found = []
            for block, rule in paying:
                left, own = self._left(rule, block), self.ledger.remaining(block.name, request.requestor)
                found.append(Budget(min(left.epsilon, own.epsilon), min(left.delta, own.delta)))
        if dataset.joined:
            return Budget(min(left.epsilon for left in found), min(left.delta for left in found))
        return max(found, key=lambda left: (left.epsilon, left.delta), default=NOTHING)

    def _allow(self, rule: PolicyRule, block: Block, price: Budget) -> None:
        left = self._left(rule, block)
        beyond = rule.delta is not None and price.delta > left.delta
        if price.epsilon > left.epsilon or beyond:
            raise BudgetExceeded(block.name, price, left, str(rule))

    def _left(self, rule: PolicyRule, block: Block) -> Budget:
        """Return what of a rule is left; without a delta of its own the block alone says which deltas are too many."""
        self._claims.refresh()
        counted = self._claims.of(block.name).under(rule)
        delta = block.budget.delta if rule.delta is None else rule.delta - counted.delta
        return Budget(Amount(max(Decimal(0), rule.epsilon - counted.epsilon)), Amount(max(Decimal(0), delta)))


def spent(claim: LedgerClaim) -> Budget | None:
    """Return what a claim has paid for, by all attempts together; None where that is not an epsilon."""
    loss, left = claim.loss, claim.left
    if isinstance(loss, Pure) and isinstance(left, Pure):
        return Budget(Amount(loss.epsilon - left.epsilon), Amount(0))
    if isinstance(loss, Approximate) and isinstance(left, Approximate):
        return Budget(Amount(loss.epsilon - left.epsilon), Amount(loss.delta - left.delta))
    return None


@contextmanager
def _priced() -> Iterator[None]:
    """Refuse, in a requestor's words, what a block has no price for."""
    try:
        yield
    except Mistake as unpriced:
        raise Refusal(f"this data set's budget cannot pay for this task: {unpriced.message}") from None


def _no_block(rule: PolicyRule) -> Refusal:
    return Refusal(
        "no block of this data set can pay for this task now: each is either not over yet or has too little left, by "
        f"its own budget or under {rule}"
    )
