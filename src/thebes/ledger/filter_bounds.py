"""Find the largest loss that a block's (epsilon, delta) pays for: exactly, in whole steps, rounded down.

What must stay true: what is found converts back to no more than was given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_FLOOR, Context, Decimal
from functools import lru_cache

from thebes.ledger.amounts import Steps, epsilon_steps
from thebes.privacy import exact, losses
from thebes.privacy.losses import Concentrated, Pure

DOWN = Context(prec=60, rounding=ROUND_FLOOR)  #: divides and never gives too much


@lru_cache(maxsize=1024)
def largest_rho(epsilon: Decimal, delta: Decimal) -> int:
    """Return the largest rho whose conversion at delta stays within epsilon, in steps; 0 where there is none."""

    def holds(steps: int) -> bool:
        rho = Concentrated(exact.of_steps(steps))
        return losses.concentrated_to_approximate(rho, delta).epsilon <= epsilon

    return _largest(holds, start=epsilon_steps(epsilon))


@lru_cache(maxsize=1024)
def largest_divergences(epsilon: Decimal, delta: Decimal, orders: tuple[float, ...]) -> Steps:
    """Return the largest divergence at each order whose conversion at an equal share of delta stays within epsilon."""
    share = DOWN.divide(delta, Decimal(len(orders))) if orders else delta
    found: Steps = {}
    for order in orders:

        def holds(steps: int, order: float = order) -> bool:
            return losses.order_to_epsilon(order, exact.of_steps(steps), share) <= epsilon

        steps = _largest(holds, start=epsilon_steps(epsilon)) if share > 0 else 0
        if steps:
            found[str(order)] = steps
    return found


@lru_cache(maxsize=65536)
def largest_pure_of_rho(rho: int) -> int:
    """Return the largest pure epsilon whose rho, rounded up, is at most this; all in steps."""
    most = exact.of_steps(rho)

    def holds(steps: int) -> bool:
        return losses.pure_to_concentrated(Pure(exact.of_steps(steps))).rho <= most

    if rho <= 0:
        return 0
    bound = float(most)
    guess = max(math.sqrt(2 * bound), bound)
    for _ in range(9):  # Newton's steps from below; whole steps near the last one settle it
        tanh = math.tanh(guess / 2)
        guess += (bound - guess * tanh) / (tanh + guess * (1 - tanh * tanh) / 2)
    near, far = int(guess * 1e12), int(guess * 1e-1) + 2
    return _largest(holds, start=near + far, low=max(1, near - far))


@lru_cache(maxsize=65536)
def largest_pure(order: float, left: int) -> int:
    """Return the largest pure epsilon whose divergence at an order, rounded up, is at most this; all in steps."""
    most = exact.of_steps(left)

    def holds(steps: int) -> bool:
        return losses.pure_at_order(exact.of_steps(steps), order) <= most

    return _largest(holds, start=left)


def _largest(holds: Callable[[int], bool], *, start: int, low: int = 1) -> int:
    """Return the largest number for which `holds`, a condition that is true up to some point and false beyond it:
    quickly where it lies between `low` and `start`."""
    if not holds(low):
        if not holds(1):
            return 0
        low = 1
    high = max(2, start)
    while holds(high):
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
