"""Numbers as people read them, the same in every text that a person meets.

What must stay true: a whole number is written out to its last digit; nothing from 1e-4 to 1e15 has an exponent.
"""

from __future__ import annotations

import math
from decimal import ROUND_DOWN, ROUND_UP, Context
from typing import Any

DIGITS = 6
_WRITTEN_OUT = 10**15


def at_most(value: float, digits: int = DIGITS) -> str:
    """The same of what may still be spent, rounded down: no more is there than it says."""
    return _rounded(value, digits, ROUND_DOWN)


def rounded_up(value: float, digits: int = DIGITS) -> str:
    """The same of what is paid, rounded up: no more is paid than it says."""
    return _rounded(value, digits, ROUND_UP)


def _rounded(value: float, digits: int, rounding: str) -> str:
    return figure(float(Context(prec=digits, rounding=rounding).create_decimal(repr(float(value)))), digits)


def percent(share: float) -> str:
    """A share of one, rounded up: what is spent is never shown smaller than it is."""
    if share <= 0:
        return "0 %"
    tenths = math.ceil(round(share * 1000, 6))
    return f"{figure(tenths / 10)} %" if tenths < 100 else f"{math.ceil(tenths / 10)} %"


def figure(value: Any, digits: int = DIGITS) -> str:
    """A number with so many digits that matter, thousands apart; what is no number as it is.

    Digits before the point are never rounded away: 1234567.8 is 1,234,568. Tiny numbers keep an exponent (1e-06).
    """
    if isinstance(value, (bool, str)) or value is None:
        return str(value)
    number = float(value)
    if not math.isfinite(number) or abs(number) >= _WRITTEN_OUT:
        return f"{number:.{digits}g}"
    if number == round(number) or abs(number) >= 10**digits:
        return f"{round(number):,}"
    written = f"{number:.{digits}g}"
    # Rounding to so many digits may reach the power of ten at which an exponent begins.
    if "e+" in written:
        return f"{float(written):,.0f}"
    whole, point, rest = written.partition(".")
    return written if "e" in written else f"{int(whole):,}{point}{rest}" if abs(number) >= 1000 else written


def spaced(value: Any, digits: int = 4) -> str:
    """A number as a page shows it: few digits, and a space between thousands."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if not math.isfinite(value):
        return "unlimited" if value > 0 else "–"
    return figure(value, digits).replace(",", " ")


def plural(count: int, one: str, many: str | None = None) -> str:
    """`3 rows`, `1 row`."""
    return f"{spaced(count)} {one if count == 1 else many or one + 's'}"
