"""Numbers as a page shows them: those of every other text, with a space between thousands."""

from __future__ import annotations

import math
from typing import Any

from thebes.privacy import figures
from thebes.privacy.figures import percent

__all__ = ["figure", "percent", "plural"]


def figure(value: Any, digits: int = 4) -> str:
    """A number as people write it: few digits, no needless ones, thousands apart."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if not math.isfinite(value):
        return "unlimited" if value > 0 else "–"
    return figures.figure(value, digits).replace(",", " ")


def plural(count: int, one: str, many: str | None = None) -> str:
    """`3 rows`, `1 row`."""
    return f"{figure(count)} {one if count == 1 else many or one + 's'}"
