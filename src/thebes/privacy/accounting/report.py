"""The report of what a list of events cost together, said as (epsilon, delta): the best of every accountant that can
price them.

For events whose parameters were all fixed in advance. Along an adaptive path only the sums are sound (`pure`,
`approximate`, `concentrated`, `renyi` at one order): leave `gaussian` and `distribution` out and name one of those.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Context, Decimal

from thebes.privacy import exact
from thebes.privacy.accounting import approximate, concentrated, distribution, gaussian, pure, renyi
from thebes.privacy.accounting.tree import singles
from thebes.privacy.events import (
    ApproximateEvent,
    Composed,
    Event,
    GaussianEvent,
    PoissonGaussianEvent,
    PureEvent,
    Repeated,
    SingleEvent,
)
from thebes.privacy.faults import Mistake
from thebes.privacy.guarantees import Guarantee
from thebes.privacy.losses import (
    Approximate,
    compose,
    concentrated_to_approximate,
    pure_to_approximate,
    renyi_to_approximate,
    repeat,
)
from thebes.privacy.promise import Adjacency, Unit, adjacency_of

ACCOUNTANTS = ("pure", "approximate", "concentrated", "renyi", "gaussian", "distribution")

Counted = Mapping[SingleEvent, int]


@dataclass(frozen=True, slots=True)
class Total:
    """The cost of all events, and what each accountant that could price them would have said."""

    guarantee: Guarantee
    accountant: str
    considered: Mapping[str, Decimal]

    @property
    def epsilon(self) -> Decimal:
        return self.considered[self.accountant]

    @property
    def delta(self) -> Decimal:
        loss = self.guarantee.loss
        return loss.delta if isinstance(loss, Approximate) else Decimal(0)


def total(
    events: Event | Iterable[Event],
    *,
    adjacency: str | Adjacency,
    delta: exact.Number,
    unit: str | Unit,
    accountants: Sequence[str] = ACCOUNTANTS,
) -> Total:
    """The least epsilon at `delta` that any of `accountants` can prove for all of `events` together.

    Deltas that events carry already (`ApproximateEvent`, a Gaussian's slack) are set aside out of `delta` first.
    With delta 0 only pure events have a price.
    """
    relation, allowed = adjacency_of(adjacency), exact.delta(delta)
    unknown = set(accountants) - set(ACCOUNTANTS)
    if unknown or not accountants:
        raise Mistake("accountants", f"must be some of {', '.join(ACCOUNTANTS)}")
    everything = _counted(events)
    counted, aside = _set_aside(everything, relation)
    left = allowed - aside
    if left < 0:
        raise Mistake("delta", f"must exceed {aside}, which these events carry already")
    if not counted:
        return Total(Guarantee(Approximate(0, aside), unit, relation), "approximate", {"approximate": Decimal(0)})
    found: dict[str, Approximate] = {}
    refusal = Mistake("accountants", f"none of {', '.join(accountants)} can price these events")
    for name in (a for a in ACCOUNTANTS if a in accountants):
        finest = min((float(loss.epsilon) for loss in found.values()), default=1.0)
        try:
            loss = _TOTALS[name](counted, relation, left, finest)
        except Mistake as mistake:
            refusal = Mistake("events", f"have no finite price at this delta: {mistake.message}")
            continue
        if loss.epsilon.is_finite():
            found[name] = Approximate(loss.epsilon, loss.delta + aside)
    if not found:
        raise refusal
    best = min(found, key=lambda name: (found[name].epsilon, found[name].delta))
    return Total(Guarantee(found[best], unit, relation), best, {name: loss.epsilon for name, loss in found.items()})


def _counted(events: Event | Iterable[Event]) -> Counter[SingleEvent]:
    parts = (events,) if isinstance(events, Event) else tuple(events)
    if not parts:
        raise Mistake("events", "needs at least one event")
    return singles(Composed(parts))


def _set_aside(counted: Counter[SingleEvent], relation: Adjacency) -> tuple[Counter[SingleEvent], Decimal]:
    # An (epsilon, delta) mechanism is, except with probability delta, an epsilon-DP one (Kairouz, Oh & Viswanath 2017);
    # Gaussians are merged into the one that costs exactly as much (Dong, Roth & Su 2022).
    rest: Counter[SingleEvent] = Counter()
    bells: list[GaussianEvent] = []
    aside = Decimal(0)
    for event, times in counted.items():
        if isinstance(event, GaussianEvent):
            bells.append(GaussianEvent(event.ratio / times**0.5 * (1 - 1e-15)))
            aside += exact.loss_of(event.slack, exact.DELTA_STEP) * times
        elif isinstance(event, PoissonGaussianEvent) and relation is Adjacency.ADD_REMOVE_ONE:
            rest[PoissonGaussianEvent(event.rate, event.ratio)] += times
            aside += exact.loss_of(event.slack, exact.DELTA_STEP) * times
        elif isinstance(event, ApproximateEvent):
            aside += event.delta * times
            if event.epsilon > 0:
                rest[PureEvent(event.epsilon)] += times
        else:
            rest[event] += times
    if bells:
        rest[gaussian.merged(bells)] += 1
    return rest, aside


def _everything(counted: Counted) -> Event:
    return Composed(tuple(Repeated(event, times) for event, times in counted.items()))


def _pure(counted: Counted, adjacency: Adjacency, delta: Decimal, finest: float) -> Approximate:
    return pure_to_approximate(pure.price(_everything(counted), adjacency=adjacency))


def _approximate(counted: Counted, adjacency: Adjacency, delta: Decimal, finest: float) -> Approximate:
    needy = sum(n for event, n in counted.items() if not _is_pure(event, adjacency))
    share = Context(prec=28, rounding=ROUND_FLOOR).divide(delta, Decimal(needy)) if needy else Decimal(0)
    return approximate.price(_everything(counted), adjacency=adjacency, share=share)


def _is_pure(event: SingleEvent, adjacency: Adjacency) -> bool:
    try:
        pure.price(event, adjacency=adjacency)
    except Mistake:
        return False
    return True


def _concentrated(counted: Counted, adjacency: Adjacency, delta: Decimal, finest: float) -> Approximate:
    return concentrated_to_approximate(concentrated.price(_everything(counted), adjacency=adjacency), delta)


def _renyi(counted: Counted, adjacency: Adjacency, delta: Decimal, finest: float) -> Approximate:
    return renyi_to_approximate(renyi.price(_everything(counted), adjacency=adjacency), delta)


def _gaussian(counted: Counted, adjacency: Adjacency, delta: Decimal, finest: float) -> Approximate:
    bells = [event for event in counted if isinstance(event, GaussianEvent)]
    if len(bells) < len(counted):
        raise Mistake("events", "are not all Gaussian")
    return gaussian.price(bells, delta=delta)


def _distribution(counted: Counted, adjacency: Adjacency, delta: Decimal, finest: float) -> Approximate:
    # The grid of losses is as fine as the answer needs: about 20,000 steps to it, guessed from the other accountants.
    if delta < Decimal(distribution.SMALLEST_DELTA):
        raise Mistake("delta", f"must be at least {distribution.SMALLEST_DELTA:g} for a privacy loss distribution")
    while True:
        interval = 10.0 ** round(math.log10(min(max(finest, 0.05), 1e6) / 20_000))
        epsilon = _convolved(counted, adjacency, interval).epsilon_at(float(delta) * (1 - 1e-15))
        if epsilon > finest / 10 or finest < 0.05:
            return Approximate(exact.loss_of(epsilon), delta)
        finest = epsilon


def _convolved(counted: Counted, adjacency: Adjacency, interval: float) -> distribution.LossDistribution:
    parts = [
        repeat(distribution.price(event, adjacency=adjacency, interval=interval), times)
        for event, times in counted.items()
    ]
    while len(parts) > 1:  # pairs of pairs, so that long distributions are convolved seldom
        parts = [compose(parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


_TOTALS: Mapping[str, Callable[[Counted, Adjacency, Decimal, float], Approximate]] = {
    "pure": _pure,
    "approximate": _approximate,
    "concentrated": _concentrated,
    "renyi": _renyi,
    "gaussian": _gaussian,
    "distribution": _distribution,
}
