"""The losses that a release costs, as types: no arithmetic between kinds, and every conversion says how it rounds.

Values are exact decimals, so a loss repeated n times is exactly n times the loss, in any order.
Sources: zCDP, Bun & Steinke 2016; its tight conversion, Canonne, Kamath & Steinke 2020; Renyi DP, Mironov 2017.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache, reduce
from typing import Any, Protocol, TypeVar

from thebes.privacy import exact
from thebes.privacy.faults import Mistake

#: One fixed grid for every Renyi curve, so that curves from anywhere add up.
ORDERS: tuple[float, ...] = (
    1.25,
    1.5,
    1.75,
    2.0,
    2.5,
    3.0,
    4.0,
    5.0,
    6.0,
    8.0,
    12.0,
    16.0,
    24.0,
    32.0,
    64.0,
    128.0,
    256.0,
)


#: Losses keep at most this many decimals, rounded up, so that sums below 10^30 are exact in any order.
FINEST = Decimal("1e-30")
_WIDE = Context(prec=60, rounding=ROUND_CEILING)
_DOWN = Context(prec=60, rounding=ROUND_FLOOR)


def _checked(argument: str, value: exact.Number) -> Decimal:
    if not isinstance(value, Decimal):
        value = exact.declared(argument, value)
    if value.is_nan() or value < 0:
        raise Mistake(argument, "must be a number that is not negative")
    if value.is_infinite():
        return value
    if value >= 10**29:
        return Decimal("Infinity")
    exponent = value.as_tuple().exponent
    return value.quantize(FINEST, ROUND_CEILING, _WIDE) if isinstance(exponent, int) and exponent < -30 else value


def _times(value: Decimal, times: int) -> Decimal:
    return _WIDE.multiply(value, times) if times else Decimal(0)


@dataclass(frozen=True, slots=True)
class Pure:
    """Every outcome is at most e^epsilon times likelier in one world than in the other."""

    epsilon: Decimal

    def __init__(self, epsilon: exact.Number) -> None:
        object.__setattr__(self, "epsilon", _checked("epsilon", epsilon))

    def __add__(self, other: Pure) -> Pure:
        return Pure(_WIDE.add(self.epsilon, other.epsilon))

    def __mul__(self, times: int) -> Pure:
        return Pure(_times(self.epsilon, times))


@dataclass(frozen=True, slots=True)
class Approximate:
    """Like Pure, except for events of probability at most delta."""

    epsilon: Decimal
    delta: Decimal

    def __init__(self, epsilon: exact.Number, delta: exact.Number) -> None:
        object.__setattr__(self, "epsilon", _checked("epsilon", epsilon))
        object.__setattr__(self, "delta", min(_checked("delta", delta), Decimal(1)))

    def __add__(self, other: Approximate) -> Approximate:
        """Basic composition: both parts add, under any adaptive choice."""
        return Approximate(_WIDE.add(self.epsilon, other.epsilon), _WIDE.add(self.delta, other.delta))

    def __mul__(self, times: int) -> Approximate:
        return Approximate(_times(self.epsilon, times), _times(self.delta, times))


@dataclass(frozen=True, slots=True)
class Concentrated:
    """rho-zCDP: Renyi divergence of every order a is at most rho * a."""

    rho: Decimal

    def __init__(self, rho: exact.Number) -> None:
        object.__setattr__(self, "rho", _checked("rho", rho))

    def __add__(self, other: Concentrated) -> Concentrated:
        return Concentrated(_WIDE.add(self.rho, other.rho))

    def __mul__(self, times: int) -> Concentrated:
        return Concentrated(_times(self.rho, times))


@dataclass(frozen=True, slots=True)
class Renyi:
    """Renyi divergence at each order of the fixed grid `ORDERS`; infinity where nothing is promised."""

    epsilons: tuple[Decimal, ...]

    def __init__(self, epsilons: Iterable[exact.Number]) -> None:
        values = tuple(_checked("renyi", e) for e in epsilons)
        if len(values) != len(ORDERS):
            raise Mistake("renyi", f"needs one value for each of the {len(ORDERS)} orders")
        object.__setattr__(self, "epsilons", values)

    def __add__(self, other: Renyi) -> Renyi:
        return Renyi(_WIDE.add(a, b) for a, b in zip(self.epsilons, other.epsilons, strict=True))

    def __mul__(self, times: int) -> Renyi:
        return Renyi(_times(e, times) for e in self.epsilons)


@dataclass(frozen=True, slots=True)
class Both:
    """epsilon-DP and rho-zCDP at once: two bounds on the same answers, which add up side by side. `epsilon` is
    infinite where an answer is not pure."""

    epsilon: Decimal
    rho: Decimal

    def __init__(self, epsilon: exact.Number, rho: exact.Number) -> None:
        object.__setattr__(self, "epsilon", _checked("epsilon", epsilon))
        object.__setattr__(self, "rho", _checked("rho", rho))

    def __add__(self, other: Both) -> Both:
        return Both(_WIDE.add(self.epsilon, other.epsilon), _WIDE.add(self.rho, other.rho))

    def __mul__(self, times: int) -> Both:
        return Both(_times(self.epsilon, times), _times(self.rho, times))


Loss = Pure | Approximate | Concentrated | Renyi | Both


class ComposableLoss(Protocol):
    """The values that `repeat` and `compose` can work with: the losses here, and privacy loss distributions."""

    def __add__(self, other: Any) -> Any: ...

    def __mul__(self, times: int) -> Any: ...


L = TypeVar("L", bound=ComposableLoss)


def repeat(loss: L, times: int) -> L:
    """The cost of the same loss `times` times: the one place where a count multiplies."""
    if isinstance(times, bool) or not isinstance(times, int) or times < 0:
        raise Mistake("times", "must be a whole number that is not negative")
    return loss * times  # type: ignore[no-any-return]


def compose(losses: Iterable[L]) -> L:
    """The cost of all losses together, even when each was chosen after seeing the ones before."""
    items = list(losses)
    if not items:
        raise Mistake("losses", "needs at least one loss")
    if any(type(item) is not type(items[0]) for item in items):
        raise Mistake("losses", "must be of one kind; convert them first")
    return reduce(lambda a, b: a + b, items)


# --- conversions: each returns something that holds whenever its argument holds -----------------------


def pure_to_approximate(loss: Pure) -> Approximate:
    """Exact: delta is 0."""
    return Approximate(loss.epsilon, 0)


def pure_to_concentrated(loss: Pure) -> Concentrated:
    """epsilon-DP implies rho-zCDP with rho = epsilon tanh(epsilon / 2), and no smaller one; rounded up.

    Randomised response between e^epsilon to 1 has the largest Renyi divergence of any pure mechanism at every order
    (the likelihood ratio lies in [e^-epsilon, e^epsilon] and has mean 1, and a convex function of it is largest where
    it takes only the ends). Over its order a that is

        (ln cosh((a - 1/2) epsilon) - ln cosh(epsilon / 2)) / (a (a - 1)).

    Put x = (a - 1/2)^2 and L(x) = ln cosh(epsilon sqrt x). The denominator is x - 1/4, and L(1/4) is what is taken
    away above: this is the slope of the chord of L from 1/4 to x. L is concave, because its derivative
    epsilon tanh(epsilon sqrt x) / (2 sqrt x) falls (tanh(y) / y does). So the slope falls in a, and its supremum is
    the derivative at 1/4, epsilon tanh(epsilon / 2), as a tends to 1. It is epsilon^2 / 2 for small epsilon, which
    it never passes (Bun & Steinke, proposition 3.3), and epsilon for large ones.
    """
    e = loss.epsilon
    if e.is_infinite():
        return Concentrated(e)
    # tanh(e / 2) = (1 - x) / (1 + x) with x = e^-e, taken a last digit too small: decimals round `exp` to nearest.
    # `-e` would round to the digits of whatever context the thread has.
    x = max(Decimal(0), _WIDE.next_minus(_WIDE.exp(e.copy_negate())))
    tanh = _WIDE.divide(_WIDE.subtract(1, x), _DOWN.add(1, x))
    return Concentrated(min(_WIDE.multiply(e, tanh), _WIDE.divide(_WIDE.multiply(e, e), Decimal(2))))


def pure_to_renyi(loss: Pure) -> Renyi:
    """The curve of randomised response, the worst pure mechanism (Mironov 2017); rounded up."""
    return Renyi(pure_at_order(loss.epsilon, a) for a in ORDERS)


def pure_at_order(epsilon: Decimal, order: float) -> Decimal:
    """Return what `pure_to_renyi` says at one order."""
    if epsilon.is_infinite():
        return epsilon
    return min(epsilon, exact.loss_of(_pure_curve(float(epsilon), order)))


def _pure_curve(e: float, a: float) -> float:
    # ln(p^a q^(1-a) + q^a p^(1-a)) / (a-1) with p = e^e/(1+e^e), q = 1-p; written so that nothing overflows.
    ln_p, ln_q = -math.log1p(math.exp(-e)), -e - math.log1p(math.exp(-e))
    x, y = a * ln_p + (1 - a) * ln_q, a * ln_q + (1 - a) * ln_p
    return (max(x, y) + math.log1p(math.exp(-abs(x - y))) + 1e-14) / (a - 1) * (1 + 1e-12)


def concentrated_to_renyi(loss: Concentrated) -> Renyi:
    """Return rho * a at order a: the definition; rounded up."""
    return Renyi(_WIDE.multiply(loss.rho, Decimal(a)) for a in ORDERS)


def concentrated_to_approximate(loss: Concentrated, delta: exact.Number) -> Approximate:
    """The tight conversion of Canonne, Kamath & Steinke (2020, corollary 13), minimised over the order; rounded up.

    epsilon = inf over a > 1 of rho a + ln(1 - 1/a) - ln(delta a) / (a - 1). Every a is sound, so a search over a is.
    """
    d = exact.delta(delta)
    if loss.rho == 0:
        return Approximate(0, 0)
    if d == 0:
        return Approximate(Decimal("Infinity"), 0)
    if loss.rho.is_infinite():
        return Approximate(loss.rho, d)
    return Approximate(exact.loss_of(_at_best_order(float(loss.rho), exact.ln(d))), d)


@lru_cache(maxsize=4096)
def _at_best_order(rho: float, ln_delta: float) -> float:
    # The best order of a fixed grid is near 1 + sqrt(-ln delta / rho), but where delta is nearly 1.
    near = min(max(-350, round(25 * math.log(-ln_delta / rho))), 1150)
    around = range(near - 150, near + 150) if ln_delta < -0.5 else range(-500, 1300)
    return min(_from_order(1 + math.exp(t / 50), rho * (1 + math.exp(t / 50)), ln_delta) for t in around)


def renyi_to_approximate(loss: Renyi, delta: exact.Number) -> Approximate:
    """Canonne, Kamath & Steinke (2020, proposition 12) at the best order of the grid; rounded up."""
    d = exact.delta(delta)
    if all(e == 0 for e in loss.epsilons):
        return Approximate(0, 0)
    if d == 0:
        return Approximate(Decimal("Infinity"), 0)
    finite = ((a, e) for a, e in zip(ORDERS, loss.epsilons, strict=True) if e.is_finite())
    return Approximate(min((order_to_epsilon(a, e, d) for a, e in finite), default=Decimal("Infinity")), d)


def order_to_epsilon(order: float, divergence: Decimal, delta: Decimal) -> Decimal:
    """Return what a finite divergence at one order, and nothing else, converts to at a delta greater than 0."""
    return exact.loss_of(_from_order(order, float(divergence), exact.ln(delta)))


def _from_order(a: float, divergence: float, ln_delta: float) -> float:
    # (a, divergence)-Renyi implies (epsilon, delta) with this epsilon; see the two conversions above.
    # The last line covers what the floats lost, mostly where large terms cancel.
    part = math.log((a - 1) / a) if a < 2 else math.log1p(-1 / a)
    tail = (ln_delta + math.log(a)) / (a - 1)
    value = divergence + part - tail
    return max(0.0, value + 1e-14 * (abs(divergence) + abs(part) + abs(tail)))
