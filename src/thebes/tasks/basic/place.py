"""The place of an owner's own value in an answer, as their own machine tells it from what lies there and the release.

What must stay true: nothing here is sent; a difference that the error bar covers is not told as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thebes.privacy.figures import figure
from thebes.tasks.basic.kind import BasicDocument
from thebes.tasks.document import Range, Values
from thebes.tasks.own_place import beside, is_number
from thebes.tasks.release import Release

_CENTRES = {"mean": "mean", "median": "median", "quantile": "quantile"}


def place(document: BasicDocument, release: Release, rows: Sequence[Mapping[str, Any]]) -> str:
    """Say where one's own value lies; empty where that means nothing, or there is no value."""
    value = rows[0].get(document.column) if len(rows) == 1 else None
    bound = (document.bounds or {}).get(document.column)
    if value is None or not release.answered:
        return ""
    if document.aggregator in _CENTRES and isinstance(bound, Range) and is_number(value):
        inside = min(max(float(value), bound.low), bound.high)
        centre = _CENTRES[document.aggregator]
        return beside(inside, float(release.value), release.interval(), called="value", centre=centre)
    if document.aggregator == "histogram" and isinstance(release.value, Mapping):
        return _among(_cell(document, bound, value), release)
    return ""


def _among(cell: int | None, release: Release) -> str:
    cells, bar = list(release.value.items()), release.interval()
    if cell is None or cell >= len(cells):
        return ""
    name, count = cells[cell]
    total = sum(max(0.0, float(each)) for _, each in cells)
    share = f", {figure(100 * max(0.0, float(count)) / total)} % of all," if total else ""
    told = f"Your value counts under {name}: about {figure(count)} people{share} do"
    if bar is None:
        return f"{told}."
    low, high = ([float(e) for e in _ends(end, len(cells))][cell] for end in (bar.low, bar.high))
    return f"{told} (between {figure(low)} and {figure(high)})."


def _cell(document: BasicDocument, bound: Range | Values | None, value: Any) -> int | None:
    """Return the number of the cell that a value counts in; None where it counts in none."""
    if isinstance(bound, Values):
        return list(bound.values).index(value) if value in bound.values else None
    if not isinstance(bound, Range) or not is_number(value) or not document.bins:
        return None
    inside = min(max(float(value), bound.low), bound.high)
    return min(int((inside - bound.low) / (bound.high - bound.low) * document.bins), document.bins - 1)


def _ends(end: Any, count: int) -> Sequence[Any]:
    ends = list(end) if hasattr(end, "__iter__") else [end]
    return ends * count if len(ends) == 1 else ends
