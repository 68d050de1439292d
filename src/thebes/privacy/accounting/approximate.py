"""Basic composition: epsilons add and deltas add. Sound however the events were chosen, also adaptively.

An event whose delta is ours to choose (Gaussian noise) is priced at `share`, the delta that each such
application gets; everything else ignores `share`.
"""

from __future__ import annotations

from decimal import Decimal

from thebes.privacy import exact
from thebes.privacy.accounting import distribution, gaussian, pure
from thebes.privacy.accounting.tree import priced, unpriced
from thebes.privacy.events import (
    ApproximateEvent,
    ConcentratedEvent,
    Event,
    GaussianEvent,
    PoissonGaussianEvent,
    SingleEvent,
)
from thebes.privacy.losses import Approximate, Concentrated, concentrated_to_approximate, pure_to_approximate
from thebes.privacy.promise import Adjacency, adjacency_of


def price(event: Event, *, adjacency: str | Adjacency, share: exact.Number = 0) -> Approximate:
    """The (epsilon, delta) of `event`, rounded up; a Gaussian's slack is added to its share."""
    # Floats may round up; a delta handed to a float function is a little less than the one that is charged.
    relation, each = adjacency_of(adjacency), exact.delta(share, "share")
    return priced(event, lambda single: _once(single, relation, each))


def _once(event: SingleEvent, adjacency: Adjacency, share: Decimal) -> Approximate:
    match event:
        case ApproximateEvent():
            return Approximate(event.epsilon, event.delta)
        case GaussianEvent() | ConcentratedEvent() | PoissonGaussianEvent() if share == 0:
            raise unpriced(event, "approximate", "it needs a share of delta greater than 0")
        case GaussianEvent():
            slack = exact.loss_of(event.slack, exact.DELTA_STEP)
            epsilon = gaussian.epsilon_of(event.ratio, float(share) * (1 - 1e-15))
            return Approximate(exact.loss_of(epsilon), min(Decimal(1), share + slack))
        case ConcentratedEvent():
            return concentrated_to_approximate(Concentrated(event.rho), share)
        case PoissonGaussianEvent():
            slack = exact.loss_of(event.slack, exact.DELTA_STEP)
            once = distribution.price(event, adjacency=adjacency)
            epsilon = once.epsilon_at((float(share) + event.slack) * (1 - 1e-15))
            return Approximate(exact.loss_of(epsilon), min(Decimal(1), share + slack))
    return pure_to_approximate(pure.price(event, adjacency=adjacency))
