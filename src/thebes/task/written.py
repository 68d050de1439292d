"""The writing of a document: everything given, checked, with every default spelled out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thebes.privacy.faults import Mistake

Bound = Mapping[str, Any] | tuple[float, float]
Bounds = Mapping[str, Bound]
Sites = str | Sequence[str]
Task = dict[str, Any]


def range_(low: float, high: float, default: float | None = None) -> dict[str, Any]:
    """Numbers from `low` to `high`; a value outside counts as the nearer end, `default` replaces a missing one.

    Example: bounds={"age": range_(0, 120)}
    """
    return {"type": "range", "low": low, "high": high} | ({} if default is None else {"default": default})


def values(*allowed: bool | int | float | str, default: bool | int | float | str | None = None) -> dict[str, Any]:
    """One of the `allowed` values; anything else counts as missing, and `default` replaces a missing one.

    Example: bounds={"species": values("cat", "dog", default="dog")}
    """
    return {"type": "set", "values": list(allowed)} | ({} if default is None else {"default": default})


def written(
    fields: Mapping[str, Any], epsilon: float | None, bounds: Bounds | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything given, checked, with every default spelled out."""
    from thebes.tasks import registry

    for name in options:
        if name in fields:
            raise Mistake(name, "is set by this function; leave it out")
    told = {"epsilon": epsilon, **options}
    given = {**fields, **{name: value for name, value in told.items() if value is not None}}
    if bounds is not None:
        given["bounds"] = _bounds(bounds)
    return registry.check(given).as_json()


def _bounds(bounds: Bounds) -> dict[str, Any]:
    if not isinstance(bounds, Mapping) or not all(
        isinstance(bound, (Mapping, tuple, list)) for bound in bounds.values()
    ):
        raise Mistake("bounds", 'must say what each column may hold, for example {"age": range_(0, 120)}')
    return {column: dict(b) if isinstance(b, Mapping) else _range(column, b) for column, b in bounds.items()}


def _range(column: object, ends: Sequence[Any]) -> dict[str, Any]:
    if len(ends) != 2:
        raise Mistake(f"bounds.{column}"[:80], "must be (low, high), or range_(...), or values(...)")
    return range_(*ends)


def names_in(argument: str, columns: Sequence[str]) -> list[str]:
    if isinstance(columns, str):
        raise Mistake(argument, f'must be a list of column names, such as ["{columns[:40]}"]')
    return list(columns)
