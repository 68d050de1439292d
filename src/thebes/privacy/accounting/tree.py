"""The one walk over composed events, so that no accountant ever sees a count.

An accountant prices a single event once; `repeat` and `compose` of `losses` do the rest, here and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from thebes.privacy.events import Composed, Event, Repeated, SingleEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import L, compose, repeat


def priced(event: Event, one: Callable[[SingleEvent], L]) -> L:
    """The cost of all of `event`, when `one` gives the cost of one single event happening once."""
    if isinstance(event, Repeated):
        return repeat(priced(event.event, one), event.times)
    if isinstance(event, Composed):
        return compose(priced(part, one) for part in event.events)
    return one(event)


def singles(event: Event) -> Counter[SingleEvent]:
    """Every single event inside `event` and how often it happened."""
    if isinstance(event, Repeated):
        return Counter({part: n * event.times for part, n in singles(event.event).items()})
    if isinstance(event, Composed):
        found: Counter[SingleEvent] = Counter()
        for part in event.events:
            found.update(singles(part))
        return found
    return Counter({event: 1})


def unpriced(event: object, notion: str, advice: str) -> Mistake:
    """The refusal of an event that `notion` cannot price: nothing is ever guessed."""
    return Mistake("event", f"{type(event).__name__} has no price in {notion} accounting; {advice}")
