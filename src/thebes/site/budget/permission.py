"""The permission to ask a new task, as a data set could pay for it now, before anything is asked.

What must stay true: this says of a task that is put up next what its ask would be told; it follows from what was
charged, from released answers and the declaration, no row is read, and nothing is set aside. Where that cannot be known
beforehand it is not said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thebes.curator.cache.answer import AnswerSource
from thebes.curator.cache.planner import PlannedPrice, Planner
from thebes.curator.cache.purchase import loss_of
from thebes.curator.streams.stream import Context, Stream
from thebes.ledger import Budget
from thebes.privacy.faults import Refusal
from thebes.site.budget.blocks import price_of
from thebes.site.budget.budget import SiteBudget
from thebes.site.budget.policy import PolicyRule
from thebes.site.dataset import DataSet
from thebes.site.requests.gate import without_noise
from thebes.site.requests.planned_question import budget_of, whole
from thebes.site.requests.response_store import SiteRequest
from thebes.tasks import registry
from thebes.tasks.block_price import Cost, cost
from thebes.tasks.protocols import Ask
from thebes.tasks.site_document import SiteDocument
from thebes.tasks.site_protocols import Planned


@dataclass(frozen=True, slots=True)
class Way:
    """One way to pay for an answer: what is set aside, and what that counts for under a rule."""

    cost: Cost
    price: Budget


@dataclass(frozen=True)
class Permission:
    """The permission of one requestor. `planner` has the released answers of the data set, where they
    are used again; `stream` its blocks, where it grows."""

    budget: SiteBudget
    request: SiteRequest
    rules: tuple[PolicyRule, ...]  #: for each data set that is asked for
    dataset: DataSet
    planner: Planner | None
    stream: Stream | None
    context: Context

    def given(self, document: SiteDocument, payload: Mapping[str, Any]) -> bool | None:
        """Return True, or None where it is not known; refuse in the words of a task's refusal where it is not given.
        `payload` is that of the ask that would follow."""
        if without_noise(document):
            return True
        if not document.priced or document.in_attempts:
            return None  # what it costs is known once every site has spoken; each attempt asks for itself
        found = self._planned(document, payload)
        if found is None:
            return self._payable([self._whole(document)])
        return self._payable(found)

    def left(self) -> Budget:
        """The most that one more answer may cost that has no delta, and the most delta beside it."""
        return self.budget.left_for(self.request, self.dataset, self.stream, self.rules)

    def _payable(self, ways: Sequence[Way]) -> bool:
        """Return True where one of these can be paid, or there is nothing to pay; else the Refusal of the last."""
        for place, way in enumerate(ways, 1):
            try:
                self.budget.check(self.request, self.dataset, self.stream, way.cost, way.price, self.rules)
                break
            except Refusal:
                if place == len(ways):
                    raise
        return True

    def _whole(self, document: SiteDocument) -> Way:
        event = registry.site_kind(document).event(document, self.dataset.schema)
        return Way(cost(document, event, self.dataset.budget.filter), price_of(document))

    def _planned(self, document: SiteDocument, payload: Mapping[str, Any]) -> list[Way] | None:
        """Return what a planner would set aside; None where no planner answers. What a synopsis is made of it buys only
        for a question that could be paid for without one."""
        owner = registry.site_owner(document)
        planner = self.planner
        if planner is None or not isinstance(owner, Planned):
            return None
        planned = owner.planned(document, Ask("", "", 0, payload), self.dataset.schema)
        if planned is None:
            return None
        plan, wanted, _ = planned
        assert wanted is not None  # noqa: S101  # an ask says it
        view = () if self.stream is None else whole(self.stream, self.context)
        own = self.context if isinstance(self.context, str) else ""
        price = planner.quote(plan, wanted, view, context=own)
        if price.source is AnswerSource.CACHE:
            return []
        if self.stream is not None:  # its blocks are chosen by what they would pay without a synopsis
            return [self._way(planner.mechanism(plan, wanted))]
        if price.source is AnswerSource.SYNOPSIS:
            return [self._way(price), self._way(planner.mechanism(plan, wanted))]
        return [self._way(price)]

    def _way(self, price: PlannedPrice) -> Way:
        loss = loss_of(price.purchases, self.dataset.budget.filter)
        return Way(Cost(loss, None), budget_of(price.purchases))
