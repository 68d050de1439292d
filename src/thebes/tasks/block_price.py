"""The prices of a task, and of each phase of it, that a data set's block pays: in the terms in which the block counts.

What must stay true: what is charged for the phases that ran covers what they released, whichever ran; all phases
together never cost more than was set aside.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal

from thebes.ledger.filter_protocol import EventFilter
from thebes.ledger.filters import filter_of
from thebes.privacy import exact
from thebes.privacy.accounting import pure
from thebes.privacy.events import ApproximateEvent, Event
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.losses import Approximate, Loss, Pure, repeat
from thebes.privacy.promise import Adjacency
from thebes.tasks.site_document import SiteDocument

_RELATION = Adjacency.ADD_REMOVE_ONE


@dataclass(frozen=True, slots=True)
class Cost:
    """`whole` is set aside for the task. Every phase that runs is charged `phase`; None: the first is charged all."""

    whole: Loss
    phase: Loss | None


def cost(document: SiteDocument, event: Event, filter: str) -> Cost:
    """The cost of a document whose phases are each `event`; a Refusal where the filter has no price for it.

    A basic block is charged what the document says, which its kind promises to cover all phases; a single phase of
    several only has a price of its own there where that is pure. A block that charges events adds up the phases.
    """
    counting = filter_of(filter)
    if not isinstance(counting, EventFilter):
        return _as_promised(document, event)
    epsilon, delta = _share(document), exact.delta(document.delta)
    try:
        if not delta and _promised(event, epsilon):
            phase = counting.loss([event], epsilon, delta, adjacency=_RELATION)
        else:
            phase = counting.of_event(event, adjacency=_RELATION)
    except Mistake as unpriced:
        if isinstance(event, ApproximateEvent):
            raise Refusal(
                f"this data set's budget is counted with the {filter} filter, which cannot pay a delta that is used "
                "up, as to find groups that nobody declared; one counted with the basic filter can"
            ) from None
        raise Refusal(
            f"this data set's budget is counted with the {filter} filter, which has no price for this task: "
            f"{unpriced.message}"
        ) from None
    return Cost(repeat(phase, document.phases), phase)


def _as_promised(document: SiteDocument, event: Event) -> Cost:
    epsilon, delta = exact.epsilon(document.epsilon), exact.delta(document.delta)
    if delta:
        return Cost(Approximate(epsilon, delta), None)
    if document.phases == 1:
        return Cost(Pure(epsilon), Pure(epsilon))
    share = _share(document)
    return Cost(Pure(epsilon), Pure(share) if _promised(event, share) else None)


def _share(document: SiteDocument) -> Decimal:
    """An equal share of a document's epsilon for each phase."""
    return (exact.epsilon(document.epsilon) / document.phases).quantize(exact.EPSILON_STEP, ROUND_FLOOR)


def _promised(event: Event, epsilon: Decimal) -> bool:
    """Return whether an event is pure and within this epsilon, but for the rounding of its noise's scale."""
    try:
        return bool(epsilon) and pure.price(event, adjacency=_RELATION).epsilon <= epsilon + exact.EPSILON_STEP
    except Mistake:
        return False
