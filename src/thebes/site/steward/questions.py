"""A steward's own question about a data set, asked at the site's home: through its ledger and its planner, as
everybody's, but under no rule.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thebes.curator.cache.planner import Planner
from thebes.curator.cache.purchase import Purchase, loss_of
from thebes.curator.streams.stream import Context, Stream
from thebes.curator.streams.terms import DEVELOPER
from thebes.data.table import Table
from thebes.ledger import Budget, Ledger, LedgerClaim
from thebes.privacy import exact
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.losses import Loss
from thebes.privacy.randomness import Randomness
from thebes.site.budget.blocks import block_of
from thebes.site.budget.quotes import quoted
from thebes.site.dataset import DataSet
from thebes.site.requests.planned_question import Planning, budget_of
from thebes.site.streams import covered
from thebes.tasks import registry
from thebes.tasks.contributions import Contributions
from thebes.tasks.protocols import Ask
from thebes.tasks.site_document import SiteDocument
from thebes.tasks.site_protocols import Planned

STEWARD = "steward"  #: who pays, in the ledger


@dataclass(frozen=True, slots=True)
class Own:
    """The answer to a steward, and what that cost."""

    contributions: Contributions
    cost: Mapping[str, float]
    source: str
    covers: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class StewardQuestion:
    """One question. `opened` gives the rows of some blocks (of a set that does not grow, all)."""

    dataset: DataSet
    ledger: Ledger
    planner: Planner | None
    stream: Stream | None
    opened: Callable[[Sequence[str]], Table]
    randomness: Randomness

    def quote(self, document: SiteDocument, payload: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return what an answer to an ask with this payload would cost now, from public things alone."""
        return quoted(document, self.dataset.schema, self.planner, self.stream, self._context, payload)

    @property
    def _context(self) -> Context:
        """Whoever keeps a data set may ask about all that is kept apart in it."""
        if self.stream is None or not self.stream.terms.separate:
            return None
        return self.stream.contexts or STEWARD

    def answer(self, document: SiteDocument, ask: Ask) -> Own:
        """The answer; a Refusal where the budget cannot pay for it."""
        registry.site_kind(document).fits(document, self.dataset.schema)
        if self.stream is None:
            block_of(self.ledger, self.dataset)  # whether it is as declared
        elif self.stream.terms.separate == DEVELOPER:
            raise Mistake("NAME", "has separate budgets: ask through the coordinator as whoever pays")
        owner = registry.site_owner(document)
        planned = owner.planned(document, ask, self.dataset.schema) if isinstance(owner, Planned) else None
        account = _Account(self.dataset, self.ledger, self.stream)
        if self.planner is None or planned is None or not isinstance(owner, Planned):
            return self._drawn(document, ask, account)
        plan, wanted, told = planned
        if wanted is None:
            raise Mistake("accuracy", "has no price yet")
        planning = Planning(
            self.planner, self.dataset, account, self.ledger, self.stream, self.opened, lambda: None, ask.part
        )
        answered = planning.answer(plan, wanted, payer="", question=told, randomness=self.randomness)
        cost = {"epsilon": float(answered.cost[0]), "delta": float(answered.cost[1])}
        covers = None if self.stream is None else covered(self.stream, planning.view)
        return Own(owner.told(document, ask, answered), cost, str(answered.source), covers)

    def _drawn(self, document: SiteDocument, ask: Ask, account: _Account) -> Own:
        """Draw an answer where nothing is used again."""
        price, filter = exact.epsilon(document.epsilon), self.dataset.budget.filter
        event = registry.site_kind(document).event(document, self.dataset.schema)
        purchase = Purchase(event, price, exact.delta(document.delta))
        loss = loss_of([purchase], filter)
        blocks = [] if self.stream is None else account.payable(loss, budget_of([purchase]))
        if self.stream is None:
            self.opened(blocks)  # rows that cannot be reached cost nothing
        paying = _Paying(account.reserve(loss, budget_of([purchase]), blocks))
        owner = registry.site_owner(document)
        given = owner.contribute(document, ask, self.opened(blocks), paying, randomness=self.randomness)
        return Own(given, paying.paid, "mechanism", None if self.stream is None else covered(self.stream, blocks))


_NO_BLOCK = "no block of this data set can pay for this: each is not over yet, or has too little left"


@dataclass(frozen=True)
class _Account:
    """The data set's own budget; every question is a claim of its own."""

    dataset: DataSet
    ledger: Ledger
    stream: Stream | None

    def payable(self, loss: Loss, price: Budget) -> list[str]:
        assert self.stream is not None  # noqa: S101
        return [block.name for block in self.stream.offered(loss=loss)]

    def blocks(self) -> list[str]:
        return []

    def check(self, loss: Loss, price: Budget) -> None:
        if self.stream is None:
            self.ledger.check([self.dataset.name], loss=loss, spender=STEWARD)
        elif not self.payable(loss, price):
            raise Refusal(_NO_BLOCK)

    def reserve(self, loss: Loss, price: Budget, blocks: Sequence[str]) -> LedgerClaim:
        purpose, key = "the steward's own question", f"own {secrets.token_hex(8)}"
        if self.stream is not None:
            if not blocks:
                raise Refusal(_NO_BLOCK)
            named = {"purpose": purpose, "spender": STEWARD, "key": key}
            return self.stream.reserve(blocks, loss=loss, context=self.stream.contexts or None, **named)
        terms = {name: self.dataset.terms[name] for name in ("unit", "adjacency")}
        return self.ledger.reserve([self.dataset.name], loss=loss, purpose=purpose, spender=STEWARD, key=key, **terms)

    def settle(self, claim: LedgerClaim, paid: Budget | None) -> None:
        if claim.state.open:
            claim.release()


class _Paying:
    """A claim that an owner's half consumes whole."""

    def __init__(self, claim: LedgerClaim) -> None:
        self._claim = claim
        self.paid: dict[str, float] = {}

    def consume(self, *, epsilon: exact.Number, delta: exact.Number = 0) -> None:
        self._claim.consume()
        self.paid = {"epsilon": float(epsilon), "delta": float(delta)}
