"""Numbers that cross between people, floats and ledgers, each crossing rounded toward more loss.

What a person declares is exact (`0.1` means one tenth); what numerics compute is a float that may be
off by its last bits, so it is rounded up when it counts as loss and down when it counts as capacity.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache

from thebes.privacy.faults import Mistake

Number = int | float | str | Decimal

EPSILON_STEP = Decimal("1e-12")
DELTA_STEP = Decimal("1e-18")
_WIDE = Context(prec=60)
_LARGEST = Decimal("1e6")


def declared(argument: str, value: Number) -> Decimal:
    """Read a number that somebody wrote, exactly as written; NaN, infinities and non-numbers are refused."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise Mistake(argument, "must be a number")
    try:
        number = Decimal(str(value)) if isinstance(value, float) else Decimal(value)
    except (InvalidOperation, ValueError):
        raise Mistake(argument, "must be a number") from None
    if not number.is_finite():
        raise Mistake(argument, "must be finite")
    if abs(number) > _LARGEST:
        raise Mistake(argument, f"must not exceed {_LARGEST:f}")
    return number


def epsilon(value: Number, argument: str = "epsilon") -> Decimal:
    """A declared epsilon: greater than 0."""
    number = declared(argument, value)
    if number <= 0:
        raise Mistake(argument, "must be greater than 0")
    return number


def delta(value: Number, argument: str = "delta") -> Decimal:
    """A declared delta: at least 0 and below 1."""
    number = declared(argument, value)
    if not 0 <= number < 1:
        raise Mistake(argument, "must be at least 0 and below 1")
    return number


def loss_of(value: float, step: Decimal = EPSILON_STEP) -> Decimal:
    """A computed loss as an exact multiple of `step`, rounded up past the float's own last bit."""
    if math.isnan(value) or value < 0:
        raise Mistake("loss", "must be a number that is not negative")
    if value >= 1e29:  # beyond what sixty digits hold at this step: nothing is promised there anyway
        return Decimal("Infinity")
    return Decimal(math.nextafter(value, math.inf)).quantize(step, ROUND_CEILING, _WIDE) if value else Decimal(0)


def capacity_of(value: float, step: Decimal = EPSILON_STEP) -> Decimal:
    """A computed capacity as an exact multiple of `step`, rounded down past the float's own last bit."""
    if math.isnan(value) or math.isinf(value):
        raise Mistake("capacity", "must be finite")
    return Decimal(max(0.0, math.nextafter(value, -math.inf))).quantize(step, ROUND_FLOOR, _WIDE)


def steps_up(value: Decimal, step: Decimal) -> int:
    """Count the whole steps that cover `value`: an integer for a ledger, never too few."""
    return int(_WIDE.divide(value, step).to_integral_value(ROUND_CEILING, _WIDE))


@lru_cache(maxsize=1024)
def ln(value: Decimal) -> float:
    """Return the natural logarithm as the nearest float, whatever decimals a caller's own settings keep."""
    return float(_WIDE.ln(value))


def half(value: Decimal) -> Decimal:
    """Return half of a number, exactly, whatever decimals a caller's own settings keep."""
    return _WIDE.divide(value, Decimal(2))


def of_steps(steps: int, step: Decimal = EPSILON_STEP) -> Decimal:
    """Return so many steps as a number, exactly, whatever decimals a caller's own settings keep."""
    return _WIDE.multiply(Decimal(steps), step)


def steps_down(value: Decimal, step: Decimal) -> int:
    """Count the whole steps that fit into `value`: an integer for a ledger's capacity, never too many."""
    return int(_WIDE.divide(value, step).to_integral_value(ROUND_FLOOR, _WIDE))


def scale_of(sensitivity: int, price: Decimal) -> float:
    """The noise scale sensitivity / price as a float, rounded up."""
    exactly = Fraction(sensitivity) / Fraction(price)
    nearest = float(exactly)
    return nearest if Fraction(nearest) >= exactly else math.nextafter(nearest, math.inf)
