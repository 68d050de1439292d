"""The exact trade-off of the Gaussian mechanism, and the least noise that keeps a promise, for every epsilon.

Source: Balle & Wang 2018, theorem 8. `ratio` is the standard deviation divided by the L2 sensitivity; n Gaussians
with ratios r_i cost exactly as much as one with 1/ratio^2 = sum of 1/r_i^2 (Dong, Roth & Su 2022).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from thebes.privacy import exact
from thebes.privacy.events import SLACK_REACH, GaussianEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Approximate


def delta_of(ratio: float, epsilon: float) -> float:
    """The least delta of one Gaussian mechanism at `epsilon`, rounded up."""
    if not (math.isfinite(ratio) and ratio > 0):
        raise Mistake("ratio", "must be a finite number greater than 0")
    if math.isnan(epsilon):
        raise Mistake("epsilon", "must be a number")
    from scipy.special import log_ndtr, ndtr

    first = float(ndtr(0.5 / ratio - epsilon * ratio))
    second = math.exp(min(epsilon + float(log_ndtr(-0.5 / ratio - epsilon * ratio)), 0.0))
    return min(1.0, max(0.0, first - second) + 1e-14 * first)


def ratio_for(epsilon: float, delta: float) -> float:
    """The least ratio with which one Gaussian mechanism is (epsilon, delta)-DP, rounded up."""
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise Mistake("epsilon", "must be a finite number greater than 0")
    if not 0 < delta < 1:
        raise Mistake("delta", "must be greater than 0 and below 1 for Gaussian noise")
    low, high = 1e-6, 1.0
    while delta_of(high, epsilon) > delta:
        high *= 2
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if delta_of(middle, epsilon) <= delta else (middle, high)
        if high / low < 1 + 1e-13:
            break
    return high * (1 + 1e-12)


def epsilon_of(ratio: float, delta: float) -> float:
    """The least epsilon of one Gaussian mechanism at `delta`, rounded up."""
    if not 0 < delta < 1:
        raise Mistake("delta", "must be greater than 0 and below 1 for Gaussian noise")
    if delta_of(ratio, 0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while delta_of(ratio, high) > delta:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_of(ratio, middle) <= delta else (middle, high)
        if high - low < 1e-13 * high:
            break
    return high * (1 + 1e-12)


def together(ratios: Iterable[float]) -> float:
    """The ratio of the one Gaussian mechanism that costs as much as all of these, rounded down (toward more loss)."""
    inverse_squares = [1 / r / r for r in ratios]
    if not inverse_squares:
        raise Mistake("ratios", "needs at least one Gaussian mechanism")
    return math.sqrt(1 / math.fsum(inverse_squares)) * (1 - 1e-12)


def merged(events: Iterable[GaussianEvent]) -> GaussianEvent:
    """The one Gaussian event that costs exactly as much as all of these; their slacks add."""
    items = list(events)
    return GaussianEvent(together(e.ratio for e in items), min(math.fsum(e.slack for e in items), math.nextafter(1, 0)))


def price(events: Iterable[GaussianEvent], *, delta: exact.Number) -> Approximate:
    """The exact (epsilon, delta) of Gaussian mechanisms together, rounded up.

    Sound when the ratios were fixed in advance, under either adjacency (it is inside the ratio). The slacks are paid
    out of `delta`.
    """
    one, allowed = merged(events), exact.delta(delta)
    spendable = float(allowed) - one.slack
    if spendable <= 0:
        raise Mistake("delta", "must be greater than what the grid of the noise adds to it")
    epsilon = epsilon_of(one.ratio, spendable * (1 - 1e-12))
    if one.slack and epsilon > SLACK_REACH:
        raise Mistake("events", f"noise on a grid has its slack stated up to epsilon {SLACK_REACH:g} only; use its rho")
    return Approximate(exact.loss_of(epsilon), allowed)
