"""The parameters that every synopsis has in common in a declaration: names of columns, and how ranges are cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.privacy.faults import Mistake

Bins = int | tuple[float, ...]


def names_of(told: Any, parameter: str) -> tuple[str, ...]:
    """A list of columns."""
    if not isinstance(told, (list, tuple)) or not all(isinstance(name, str) for name in told):
        raise Mistake(f"cache.{parameter}", "must be a list of columns")
    return tuple(told)


def bins_of(told: Any) -> dict[str, Bins]:
    """By column, how many bins its range has, or where it is cut."""
    if not isinstance(told, Mapping):
        raise Mistake("cache.bins", "must say for each column how many bins it has, or where it is cut")
    return {str(name): tuple(cut) if isinstance(cut, (list, tuple)) else cut for name, cut in told.items()}
