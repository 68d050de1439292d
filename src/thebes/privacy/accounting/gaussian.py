"""The exact trade-off of the Gaussian mechanism, and the least noise that keeps a promise, for every epsilon.

Source: Balle & Wang 2018, theorem 8. `ratio` is the standard deviation divided by the L2 sensitivity; n Gaussians
with ratios r_i cost exactly as much as one with 1/ratio^2 = sum of 1/r_i^2 (Dong, Roth & Su 2022).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from thebes.privacy import exact
from thebes.privacy.distributions import log_normal_cdf, normal_cdf
from thebes.privacy.events import GaussianEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Approximate


def delta_of(ratio: float, epsilon: float) -> float:
    """The least delta of one Gaussian mechanism at `epsilon`, rounded up."""
    if not (math.isfinite(ratio) and ratio > 0):
        raise Mistake("ratio", "must be a finite number greater than 0")
    if math.isnan(epsilon):
        raise Mistake("epsilon", "must be a number")
    near, far = 0.5 / ratio - epsilon * ratio, -0.5 / ratio - epsilon * ratio
    first = normal_cdf(near)
    second = math.exp(min(epsilon + log_normal_cdf(far), 0.0))
    # 1e-14 of the first and what the rounding of far arguments costs on top, several times
    beside = (10 + near * near) * first + (far * far if second > 1e-300 else 0.0) * second
    return min(1.0, max(0.0, first - second) + 1e-15 * beside)


@lru_cache(maxsize=256)
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


def grid_slack(scale: float, l1: float) -> float:
    """The most by which discrete Gaussian noise of `scale`, at least 1, costs more delta than continuous noise does, at
    any epsilon: for answers in any number of coordinates that are at most `l1` steps of the noise's grid apart.

    Proof. Let D be the distance of two answers, k the noise and Z = -<k, D>. The loss (|D|^2 + 2 Z) / (2 s^2) is the
    same function of Z for both kinds of noise, so delta is E h(Z) for both, with h(z) = max(0, 1 - e^(epsilon - loss)),
    whose slope is 0, jumps to 1 / s^2 and falls to 0 again: h is a mixture of (z - u)+ of total weight 2 / s^2. Make
    one coordinate after the other continuous. With D_i = a > 0 and all others held, E h moves by at most
    a (2 / s^2) max |K|, with K(v) = E (k_i - v)+ - E (x_i - v)+, x_i ~ N(0, s^2). Both are symmetric around 0, so
    K(-v) = K(v), and v >= 0 is enough. Let g(x) = (x - v)+ e^(-x^2 / (2 s^2)). By the Peano kernel of the midpoint
    rule, between 0 and 1/8, and as g'' adds up to 0, sum g(k) differs from the integral of g by at most 1/16 of that of
    |g''|: 1 at the kink, twice 1 from the slope of the bell and 1.43 from its curvature, so by at most .28. The
    normalisers differ by a factor within 1 and 1 + 3 e^(-2 pi^2 s^2). Hence |K| <= .12 / s, and delta is at most
    .25 |D|_1 / s^3 larger.

    It adds up in compositions of fixed ratios, where each question may follow from all answers before it. Make the
    steps continuous from the last to the first. When it is step j's turn, those before it are still discrete and those
    after it are continuous already. Given the answers before j their losses are one number, which moves epsilon, and
    what j asks is fixed. What comes after j may be asked by j's answer; but a continuous step of a fixed ratio has, at
    every epsilon, at most the delta of two normal laws at the largest distance that its ratio allows, whatever is
    asked, and so, taken together from the last one backwards, do all of them: delta of the rest, at any epsilon, is at
    most a G(epsilon) in which no answer occurs. G is a mean of max(0, 1 - e^(epsilon - loss)) over a law of losses that
    does not depend on j. So delta, given the answers before j, is at most E G(epsilon - loss of j): of j's noise a
    mixture of such h, moved. Hence making j continuous costs at most what is said above, for any distance that j may
    ask; it is then one of the continuous steps, its distance becomes the largest, and step j - 1 is next. (From the
    first to the last this would not do: what follows a step could then depend on its answer through discrete noise, for
    which no such G is known.) And a sample that a unit is in by a coin costs at most as much:
    its delta is that of the noise at another epsilon, times at most 1 (Balle, Barthe & Gaboardi 2018, theorem 2).
    """
    return 0.25 * l1 / scale**3 * (1 + 1e-9)


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
    return Approximate(exact.loss_of(epsilon), allowed)
