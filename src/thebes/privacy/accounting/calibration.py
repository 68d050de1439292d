"""The least noise, or the most loss, that keeps a promise: inverses of the accountants, rounded toward more noise."""

from __future__ import annotations

import math
from decimal import Decimal
from functools import lru_cache

from thebes.privacy import exact
from thebes.privacy.accounting import distribution, renyi
from thebes.privacy.events import PoissonGaussianEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import (
    ORDERS,
    Concentrated,
    Renyi,
    concentrated_to_approximate,
    renyi_to_approximate,
    repeat,
)
from thebes.privacy.promise import Adjacency, adjacency_of

_RHO_STEP = Decimal("1e-18")
_LEAST_RATIO = 0.25


def rho_for(epsilon: exact.Number, delta: exact.Number) -> Decimal:
    """The greatest rho whose rho-zCDP implies (epsilon, delta)-DP by our conversion, rounded down; always above 0. An
    epsilon that is too small for any is refused."""
    return _rho_for(exact.epsilon(epsilon), exact.delta(delta))


@lru_cache(maxsize=1024)
def _rho_for(epsilon: Decimal, delta: Decimal) -> Decimal:
    if delta == 0:
        raise Mistake("delta", "must be greater than 0 for zero-concentrated privacy")

    def keeps(rho: float) -> bool:
        return concentrated_to_approximate(Concentrated(Decimal(rho)), delta).epsilon <= epsilon

    # rho = epsilon^2 / (4 (epsilon + ln(1/delta))) is safe by the textbook conversion, and epsilon + ln(1/delta) + 1
    # is always too much or as good as any.
    logs = -exact.ln(delta)
    e = float(epsilon)
    low, high = e * e / (8 * (e + logs)), e + logs + 1
    while not keeps(low):
        low /= 2
        if low < _RHO_STEP:
            raise Mistake("epsilon", "is too small for zero-concentrated privacy at this delta")
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if keeps(middle) else (low, middle)
    found = exact.capacity_of(low, _RHO_STEP)
    if not found:
        raise Mistake("epsilon", "is too small for zero-concentrated privacy at this delta")
    return found


def sampled_ratio(*, rate: float, rounds: int, epsilon: exact.Number, delta: exact.Number) -> float:
    """A ratio with which `rounds` rounds of sampled noise are (epsilon, delta)-DP under add-remove-one, by the Renyi
    curve at whole orders only: quick, what a ledger that counts in curves is charged, and at most a tenth of a percent
    above the least such.

    At a whole order a it holds for noise drawn on the integers as it does for continuous noise: the moment of the
    mixture's likelihood ratio is a binomial sum of moments of order k <= a of the unsampled one, and none of those is
    larger for the discrete Gaussian (Canonne, Kamath & Steinke 2020, theorem 14); the other direction is no dearer, as
    reflection swaps the two worlds (Mironov, Talwar & Zhang 2019, theorem 5).
    """
    once = PoissonGaussianEvent(rate, 1.0)
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 0 < rounds <= 10**7:
        raise Mistake("rounds", "must be a whole number between 1 and 10 million")
    return _sampled_ratio(once.rate, rounds, exact.epsilon(epsilon), exact.delta(delta))


@lru_cache(maxsize=256)
def _sampled_ratio(rate: float, rounds: int, epsilon: Decimal, delta: Decimal) -> float:
    def keeps(ratio: float) -> bool:
        event = PoissonGaussianEvent(rate, ratio)
        curve = repeat(renyi.price(event, adjacency=Adjacency.ADD_REMOVE_ONE), rounds)
        return renyi_to_approximate(at_whole_orders(curve), delta).epsilon <= epsilon

    low, high = 2.0**-10, 2.0**30
    if not keeps(high):
        raise Mistake("epsilon", "is too small for noise on samples; leave the sampling out")
    while high / low > 1.001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high


def at_whole_orders(curve: Renyi) -> Renyi:
    """The same curve without the orders between whole ones."""
    kept = zip(ORDERS, curve.epsilons, strict=True)
    return Renyi(e if order == int(order) else Decimal("Infinity") for order, e in kept)


def ratio_for_rounds(
    *,
    rate: float,
    rounds: int,
    epsilon: exact.Number,
    delta: exact.Number,
    adjacency: str | Adjacency,
    tolerance: float = 1e-3,
) -> float:
    """The least ratio with which `rounds` rounds of sampled Gaussian noise together are (epsilon, delta)-DP.

    `ratio` and `rate` are those of `PoissonGaussianEvent`. The answer always keeps the promise (checked by privacy
    loss distribution) and is at most `tolerance` (relative) more than the least, or 0.25 to 0.28 where less would
    do. Takes a few seconds.
    """
    e, d = exact.epsilon(epsilon), exact.delta(delta)
    if float(d) < distribution.SMALLEST_DELTA:
        raise Mistake("delta", f"must be at least {distribution.SMALLEST_DELTA:g} for sampled Gaussian noise")
    once = PoissonGaussianEvent(rate, 1.0)
    if isinstance(rounds, bool) or not isinstance(rounds, int) or not 0 < rounds <= 10**7:
        raise Mistake("rounds", "must be a whole number between 1 and 10 million")
    if not 1e-6 <= tolerance < 1:
        raise Mistake("tolerance", "must be at least 1e-6 and below 1")
    return _ratio_for_rounds(once.rate, rounds, float(e), float(d), adjacency_of(adjacency), tolerance)


@lru_cache(maxsize=256)
def _ratio_for_rounds(
    rate: float, rounds: int, epsilon: float, delta: float, adjacency: Adjacency, tolerance: float
) -> float:
    def costs(ratio: float) -> float:
        once = distribution.price(PoissonGaussianEvent(rate, ratio), adjacency=adjacency)
        return repeat(once, rounds).epsilon_at(delta)

    def costs_quickly(ratio: float) -> float:
        # A rough figure to start from; replacing is about as dear as adding and removing at half the ratio.
        own = ratio if adjacency is Adjacency.ADD_REMOVE_ONE else ratio / 2
        curve = repeat(renyi.price(PoissonGaussianEvent(rate, own), adjacency=Adjacency.ADD_REMOVE_ONE), rounds)
        return float(renyi_to_approximate(curve, delta).epsilon)

    # Below a quarter the distribution is too wide to compute on a fine grid, and sampling hardly helps.
    high = _LEAST_RATIO
    while costs_quickly(high) > epsilon:
        high *= 1.1
    while costs(high) > epsilon:
        high *= 1.1
    low = high / 1.1
    while low >= _LEAST_RATIO and costs(low) <= epsilon:
        low, high = low / 1.1, low
    if low < _LEAST_RATIO:
        return high
    while high / low > 1 + tolerance:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if costs(middle) <= epsilon else (middle, high)
    return high
