"""A release as a picture: in a notebook as SVG, by matplotlib where it is there. Both draw the same points."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.plain_text import shortened
from thebes.tasks import drawings, notebook
from thebes.tasks.answer_keys import STATISTIC, labels
from thebes.tasks.answer_view import MOST_DRAWN

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from thebes.tasks.release import Release

_BESIDE = ("low", "high", "level", "sites")  #: columns of a table that are neither keys nor drawn


#: statistics whose distance from zero says little: they are drawn as points
_AWAY_FROM_ZERO = ("mean", "quantile", "variance", "correlation")
_MOST_LINES = 20  #: of a model's own words


class Point(NamedTuple):
    """One number of a picture: its name, and its error bar where one is known."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None


def points_of(release: Release) -> list[Point]:
    """Return the numbers of an answer that have a place in a picture; numbers that are not finite have none."""
    columns = release.as_columns()
    drawn = next((name for name in release.drawn if name in columns), None)
    if drawn is None:
        return []
    values = columns[drawn]
    names = _of_bins(columns) or _names(columns, drawn)
    bars = zip(columns.get("low", [math.nan] * len(values)), columns.get("high", [math.nan] * len(values)), strict=True)
    found = [
        Point(name, float(value), *((float(low), float(high)) if math.isfinite(low) and math.isfinite(high) else ()))
        for name, value, (low, high) in zip(names, values, bars, strict=True)
    ]
    return [point for point in found if math.isfinite(point.value)]


def _names(columns: Mapping[str, Sequence[Any]], drawn: str) -> list[str]:
    """Name each row by its keys; where that tells some not apart, by every number that stands before it too."""
    keys = {name: column for name, column in columns.items() if name not in (drawn, *_BESIDE) and not _measured(column)}
    names = labels(keys.values()) if keys else [""] * len(columns[drawn])
    if len(set(names)) == len(names):
        return names
    before = list(columns)[: list(columns).index(drawn)]
    return labels([figure(cell) for cell in columns[name]] for name in before)


def _measured(column: Sequence[Any]) -> bool:
    return any(isinstance(cell, float) for cell in column)


def _of_bins(columns: Mapping[str, Sequence[Any]]) -> list[str] | None:
    if "from" not in columns:
        return None
    ends = zip(columns["from"], columns["to"], strict=True)
    return [f"{figure(low)} to {figure(high)}" for low, high in ends]


def html(release: Release) -> str:
    """Show a release in a notebook: the answer, its picture, what stands beside it, and the certificate folded."""
    columns = release.as_columns()
    numbers = "value" in columns and len(columns["value"]) > 1  # each stands in the picture and in the table
    every = folded_table(columns) if len(next(iter(columns.values()), ())) > 1 else ""
    head = [] if numbers else release._lines()[:_MOST_LINES]
    written = notebook.lines([*head, *release._beside()])
    return notebook.shown(_drawn(release), written, every, notebook.certified(release.certificate))


def folded_table(columns: Mapping[str, Sequence[Any]]) -> Markup:
    """Put a table behind a line that says how long it is."""
    rows = list(zip(*columns.values(), strict=True))
    return notebook.folded(f"{figure(len(rows))} rows", notebook.table(list(columns), rows))


def _drawn(release: Release) -> Markup:
    """Draw the answer; nothing of numbers of unlike sizes, nor where there is none."""
    points = release.points()
    if not points or STATISTIC in release.as_columns():
        return Markup("")
    if len(points) == 1:
        name, value, low, high = points[0]
        if low is None or high is None:
            return Markup("")
        return drawings.interval(value, low, high, title=f"{name} {figure(value)} with its error bar".strip())
    shown = points if len(points) <= MOST_DRAWN else sorted(points, key=lambda point: -abs(point.value))[:MOST_DRAWN]
    of = release.certificate.parameters.get("statistic")
    if of in _AWAY_FROM_ZERO and all(point.low is not None for point in shown):
        rows = [(p.name, p.value, p.low, p.high) for p in shown if p.low is not None and p.high is not None]
        return drawings.spans(rows, title=f"The {of} of each group, with its error bar")
    some = "" if len(shown) == len(points) else f", the {MOST_DRAWN} largest of {len(points)}"
    barred = {point.name: point for point in shown if point.low is not None}
    what = next((name for name in release.drawn if name in release.as_columns()), "share")
    caption = (
        Markup("") if what == "value" else Markup("<p>{} of</p>").format(what.removesuffix(" of each").capitalize())
    )
    return caption + drawings.bars(
        {point.name: point.value for point in shown},
        title=f"The numbers of the answer{', with error bars' if barred else ''}{some}",
        low={name: point.low for name, point in barred.items() if point.low is not None},
        high={name: point.high for name, point in barred.items() if point.high is not None},
    )


def plot(release: Release, ax: Axes | None) -> Axes:
    """Draw a release by matplotlib; a Mistake where that is not installed, or nothing can be drawn."""
    points = release.points()
    if not points:
        raise Mistake("plot", "has nothing to draw: this answer holds no numbers; look at release.value")
    try:
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.subplots(figsize=(7, max(1.6, 0.9 + 0.3 * len(points))))[1]
    except ImportError:
        raise Mistake("plot", "needs the package matplotlib: pip install matplotlib") from None
    columns = release.as_columns()
    places: Sequence[Any] = range(len(points))
    if "from" in columns and len(points) == len(columns["from"]):
        _bins(ax, columns, points)
    else:
        for place, point in zip(places, points, strict=True):
            if point.low is not None and point.high is not None:
                ax.hlines(place, point.low, point.high, colors="tab:orange", linewidth=3)
        ax.plot([point.value for point in points], list(places), "o", color="tab:blue")
        ax.set_yticks(list(places), [shortened(point.name, 30).replace("$", r"\$") for point in points])
        ax.set_ylim(len(points) - 0.5, -0.5)  # the first on top
    level = release.interval().level if release.intervals else None  # type: ignore[union-attr]
    told = release.certificate
    bars = "" if level is None else f"; lines: {level:.0%} intervals"
    ax.set_title(f"epsilon {figure(told.epsilon)} for one {told.unit}{bars}", fontsize="small")
    return ax


def _bins(ax: Axes, columns: Mapping[str, Sequence[Any]], points: Sequence[Point]) -> None:
    """Draw a histogram over its own axis."""
    widths = [high - low for low, high in zip(columns["from"], columns["to"], strict=True)]
    ax.bar(columns["from"], [point.value for point in points], widths, align="edge", color="tab:blue", alpha=0.6)
    for start, width, point in zip(columns["from"], widths, points, strict=True):
        if point.low is not None and point.high is not None:
            ax.vlines(start + width / 2, point.low, point.high, colors="tab:orange", linewidth=3)
