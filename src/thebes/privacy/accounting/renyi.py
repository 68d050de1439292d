"""Renyi accounting on the fixed grid `losses.ORDERS`: curves add order by order.

Sound for adaptively chosen events as a sum at any one order fixed beforehand (Feldman & Zrnic 2021); choosing the
best order at the end is sound for parameters fixed in advance, or along a filter that pays for the choice.
Adding one event to a running curve costs the same whatever came before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache

from thebes.privacy import exact
from thebes.privacy.accounting import concentrated, pure
from thebes.privacy.accounting.tree import priced, unpriced
from thebes.privacy.events import (
    ApproximateEvent,
    ConcentratedEvent,
    Event,
    ExponentialEvent,
    GaussianEvent,
    LaplaceEvent,
    PoissonGaussianEvent,
    RandomizedResponseEvent,
    SingleEvent,
)
from thebes.privacy.losses import ORDERS, Renyi, concentrated_to_renyi, pure_to_renyi
from thebes.privacy.promise import Adjacency, adjacency_of

#: the orders at which moments of sampled noise are summed
_WHOLE = tuple(a for a in ORDERS if a == int(a))


def price(event: Event, *, adjacency: str | Adjacency) -> Renyi:
    """The Renyi curve of `event`, rounded up at every order."""
    relation = adjacency_of(adjacency)
    return priced(event, lambda single: _once(single, relation))


@lru_cache(maxsize=4096)
def _once(event: SingleEvent, adjacency: Adjacency) -> Renyi:
    match event:
        case GaussianEvent() | ConcentratedEvent():
            return concentrated_to_renyi(concentrated.price(event, adjacency=adjacency))
        case LaplaceEvent():
            return _at_most_pure(event, adjacency, lambda a: _laplace(event.ratio, event.steps, a))
        case RandomizedResponseEvent():
            return _at_most_pure(event, adjacency, lambda a: _response(event.categories, event.keep, a))
        case ExponentialEvent():
            rho = float(concentrated.price(event, adjacency=adjacency).rho)
            return _at_most_pure(event, adjacency, lambda a: rho * a)
        case PoissonGaussianEvent() if adjacency is Adjacency.ADD_REMOVE_ONE:
            if event.rate == 1:
                return _once(GaussianEvent(event.ratio), adjacency)
            return _sampled_gaussian(event)
        case PoissonGaussianEvent():
            raise unpriced(event, "Renyi", "under 'replace-one' use a privacy loss distribution")
        case ApproximateEvent() if event.delta > 0:
            raise unpriced(event, "Renyi", "set its delta aside first, as `report.total` does")
    return pure_to_renyi(pure.price(event, adjacency=adjacency))


def _at_most_pure(event: SingleEvent, adjacency: Adjacency, curve: Callable[[float], float]) -> Renyi:
    """`curve`, a little up for the floats' sake, but never above what any mechanism with this pure epsilon costs."""
    ceiling = pure_to_renyi(pure.price(event, adjacency=adjacency))
    ours = (exact.loss_of(max(0.0, curve(a)) * (1 + 1e-12) + 1e-14 / (a - 1)) for a in ORDERS)
    return Renyi(min(x, y) for x, y in zip(ours, ceiling.epsilons, strict=True))


def _laplace(ratio: float, steps: int, a: float) -> float:
    # Mironov 2017, proposition 6, carried over to the integers: with q = e^(-1/t), r = q^(2a-1), t the scale in steps,
    # sum_k p(k)^a p(k-s)^(1-a) = A e^((a-1)/ratio) + B e^(-a/ratio). Letting t grow gives the proposition itself.
    # The curve is convex in the sensitivity and 0 at 0, so one coordinate with all of it is the worst case.
    t = ratio * steps
    q, r = math.exp(-1 / t), math.exp(-(2 * a - 1) / t)
    share = math.expm1(-1 / t) / math.expm1(-(2 * a - 1) / t)
    x = (a - 1) / ratio + math.log1p(r * share) - math.log1p(q)
    y = -a / ratio + (math.log1p(-share) - math.log1p(q) if share < 1 else -math.inf)
    return (max(x, y) + math.log1p(math.exp(-abs(x - y)))) / (a - 1)


def _response(categories: int, keep: float, a: float) -> float:
    # Two of the k answers tell the worlds apart: keep^a other^(1-a) + other^a keep^(1-a), and the rest says nothing.
    ln_keep, ln_other = math.log(keep), math.log1p(-keep) - math.log(categories - 1)
    rest = max(0.0, 1 - keep - (1 - keep) / (categories - 1))
    x, y = a * ln_keep + (1 - a) * ln_other, a * ln_other + (1 - a) * ln_keep
    top = max(x, y, 0.0)
    return (top + math.log(math.exp(x - top) + math.exp(y - top) + rest * math.exp(-top))) / (a - 1)


def _sampled_gaussian(event: PoissonGaussianEvent) -> Renyi:
    # Mironov, Talwar & Zhang 2019, by dp-accounting: one application only, multiplied by `losses.repeat`. Noise is
    # drawn on whole numbers: at a whole order their sum holds for that as well, because it is one of moments E e^(k y)
    # at whole k, in which such noise is as real noise is; between whole orders the next one serves.
    from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    theirs = RdpAccountant(list(_WHOLE), NeighboringRelation.ADD_OR_REMOVE_ONE)
    theirs.compose(PoissonSampledDpEvent(event.rate, GaussianDpEvent(event.ratio)))
    sums = dict(zip(_WHOLE, map(float, theirs.rdp), strict=True))
    unsampled = concentrated_to_renyi(concentrated.price(GaussianEvent(event.ratio), adjacency="add-remove-one"))
    curve: list[Decimal] = []
    above = Decimal("Infinity")
    for a, ceiling in reversed(list(zip(ORDERS, unsampled.epsilons, strict=True))):
        # Sampling never costs more than the mechanism itself, and no order costs more than a higher one (which serves
        # where a sum is not finite, too); their sums carry about 1e-15 of float error.
        value = sums.get(a, math.inf)
        upper = exact.loss_of(max(0.0, value) * (1 + 1e-9) + 1e-13 / (a - 1)) if math.isfinite(value) else above
        above = min(upper, ceiling, above)
        curve.append(above)
    return Renyi(reversed(curve))
