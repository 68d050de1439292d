"""The words for where an owner's own number lies beside a released one, the same for every kind.

What must stay true: a difference that the error bar covers is not told as one.
"""

from __future__ import annotations

from typing import Any

from thebes.privacy.figures import figure
from thebes.privacy.measurement import Interval


def beside(own: float, answer: float, bar: Interval | None, *, called: str, centre: str) -> str:
    """Say whether a number lies above or below the released centre of all, or cannot be told apart from it."""
    mine = f"Your {called}, {figure(own)},"
    if bar is None:
        return f"{mine} cannot be told apart from the {centre} of all."
    if bar.low <= own <= bar.high:
        within = f"which lies between {figure(bar.low)} and {figure(bar.high)}"
        return f"{mine} cannot be told apart from the {centre} of all, {within}."
    return f"{mine} lies {'above' if own > bar.high else 'below'} the {centre} of all, {figure(answer)}."


def is_number(value: Any) -> bool:
    """Return whether a value can be compared with a number."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
