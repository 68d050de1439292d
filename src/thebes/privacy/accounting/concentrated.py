"""Zero-concentrated accounting: rhos add. Sound however the events were chosen, also adaptively.

Sources: Bun & Steinke 2016 (Gaussian: proposition 1.6; composition: lemma 1.7); the discrete Gaussian costs no more
than the continuous one (Canonne, Kamath & Steinke 2020, theorem 14), so no slack enters a rho; bounded range, Cesar &
Rogers 2021; pure, the proof at `losses.pure_to_concentrated`.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal

from thebes.privacy.accounting import pure
from thebes.privacy.accounting.tree import priced, unpriced
from thebes.privacy.events import (
    ApproximateEvent,
    ConcentratedEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    PoissonGaussianEvent,
    SingleEvent,
)
from thebes.privacy.losses import Concentrated, Pure, pure_to_concentrated
from thebes.privacy.promise import Adjacency, adjacency_of

_UP = Context(prec=60, rounding=ROUND_CEILING)


def price(event: Event, *, adjacency: str | Adjacency) -> Concentrated:
    """The rho of `event`, rounded up."""
    relation = adjacency_of(adjacency)
    return priced(event, lambda single: _once(single, relation))


def _once(event: SingleEvent, adjacency: Adjacency) -> Concentrated:
    match event:
        case ConcentratedEvent():
            return Concentrated(event.rho)
        case GaussianEvent():
            # This wide context squares any float exactly, so the only rounding is the division's, upward.
            square = Context(prec=2200).multiply(Decimal(event.ratio), Decimal(event.ratio))
            return Concentrated(_UP.divide(Decimal("0.5"), square))
        case ExponentialEvent():
            # Cesar & Rogers 2021. The loss L lies in an interval of length epsilon, so by Hoeffding's lemma
            # ln E e^((a-1)L) <= (a-1) E L + (a-1)^2 epsilon^2 / 8, and 1 = E e^(-L) gives E L <= epsilon^2 / 8.
            # Of a large epsilon less than that is known of every pure mechanism.
            ranged = _UP.divide(_UP.multiply(event.epsilon, event.epsilon), Decimal(8))
            return Concentrated(min(ranged, pure_to_concentrated(Pure(event.epsilon)).rho))
        case ApproximateEvent() if event.delta > 0:
            raise unpriced(event, "zero-concentrated", "set its delta aside first, as `report.total` does")
        case PoissonGaussianEvent():
            raise unpriced(event, "zero-concentrated", "sampling needs a Renyi curve or a privacy loss distribution")
    return pure_to_concentrated(pure.price(event, adjacency=adjacency))
