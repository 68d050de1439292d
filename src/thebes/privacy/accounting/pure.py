"""Pure accounting: epsilons add, delta is 0. Sound however the events were chosen, also adaptively.

Events without a pure price (Gaussian noise, anything with a delta) are refused by name.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

from thebes.privacy import exact
from thebes.privacy.accounting.tree import priced, unpriced
from thebes.privacy.events import (
    ApproximateEvent,
    Event,
    ExponentialEvent,
    LaplaceEvent,
    PureEvent,
    RandomizedResponseEvent,
    SingleEvent,
)
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Pure
from thebes.privacy.promise import Adjacency, adjacency_of

_UP = Context(prec=60, rounding=ROUND_CEILING)


def price(event: Event, *, adjacency: str | Adjacency) -> Pure:
    """The pure loss of `event`, rounded up."""
    relation = adjacency_of(adjacency)
    return priced(event, lambda single: _once(single, relation))


def _once(event: SingleEvent, adjacency: Adjacency) -> Pure:
    match event:
        case PureEvent() | ExponentialEvent():
            return Pure(event.epsilon)
        case ApproximateEvent() if event.delta == 0:
            return Pure(event.epsilon)
        case LaplaceEvent():
            return Pure(_UP.divide(Decimal(1), Decimal(event.ratio)))
        case RandomizedResponseEvent():
            return Pure(response_epsilon(event, adjacency))
    raise unpriced(event, "pure", "it needs a delta")


def response_epsilon(event: RandomizedResponseEvent, adjacency: Adjacency) -> Decimal:
    """|ln(keep (k - 1) / (1 - keep))|, rounded up. Only what was said is hidden, never that something was said."""
    if adjacency is not Adjacency.REPLACE_ONE:
        raise Mistake(
            "adjacency", "RandomizedResponseEvent has a price under 'replace-one' only: it hides what was said, not who"
        )
    keep = Decimal(event.keep)
    odds = _UP.divide(_UP.multiply(keep, event.categories - 1), Context(prec=1100).subtract(Decimal(1), keep))
    return abs(odds.ln(_UP)).quantize(exact.EPSILON_STEP, ROUND_CEILING, _UP)
