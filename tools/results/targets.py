"""The page of what was wanted beside what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from papers.outcome import Row
from papers.targets import Point, Target, everything
from thebes.privacy.faults import Fault
from thebes.privacy.figures import figure as exact
from tools.results.cells import Kept, figure, one, ours_of, row_of

_HEAD = """\
# Wanted and reached

*For readers who ask how good is good enough.* Before a mechanism was built, a prototype with calibrated noise said
what correct privacy can reach on the papers' data. A **floor** must hold: a test fails where a kept figure does not
reach it. A **goal** is what was hoped for; **bold** figures reach it. Error bars have [floors of their own](bars.md).

Epsilon is what one person pays in all, or one row of a site. Behind ± stands how far the seeds lie apart, under *not
private* what the same work reaches without noise. [The results](results-tables.md) show where each figure comes from.

"""


def written(kept: Kept) -> str:
    """The whole page."""
    return _HEAD + "\n".join(_lines(kept)) + "\n"


def _lines(kept: Kept) -> Iterator[str]:
    found = {paper: [(target, reached(target, kept)) for target in targets] for paper, targets in everything().items()}
    every = [one for of_paper in found.values() for one in of_paper]
    floors = [short(target, row.ours, target.floor) <= 0 for target, row in every if target.floor is not None]
    goals = [short(target, row.ours, target.goal) <= 0 for target, row in every if target.goal is not None]
    yield f"{sum(floors)} of {len(floors)} floors hold; {sum(goals)} of {len(goals)} goals are reached."
    for paper, of_paper in found.items():
        yield f"\n## {paper}\n"
        yield row_of(["", "floor", "goal", "reached", "not private"])
        yield row_of(["---", "---:", "---:", "---", "---:"])
        for target, row in of_paper:
            limits = [_limit(target, limit) for limit in (target.floor, target.goal)]
            yield row_of([target.what, *limits, _told(target, row), figure(row.ceiling)])


def reached(target: Target, kept: Kept) -> Row:
    """Return the kept row that a target is of, as a share of another or less it where the target says so."""
    row = _row(target.of, kept)
    if target.minus is not None:
        return replace(row, ours=row.ours - _row(target.minus, kept).ours, spread=None, ceiling=None)
    if target.over is not None:
        parts = _row(target.over, kept).ours
        return replace(row, ours=row.ours / parts, spread=row.spread and row.spread / parts, ceiling=None)
    return row


def short(target: Target, value: float, limit: float | None) -> float:
    """Return by how much a value misses a limit; nothing and less where it does not."""
    if limit is None:
        return 0.0
    return limit - value if target.better == "more" else value - limit


def _row(point: Point, kept: Kept) -> Row:
    row = one(kept[point.experiment], point.panel, point.series, point.at)
    if row is None:
        raise Fault(f"{point.experiment} keeps nothing of {point.panel!r}, {point.series!r} at {point.at!r}")
    return row


def _limit(target: Target, limit: float | None) -> str:
    return "" if limit is None else f"{'≥' if target.better == 'more' else '≤'}\u00a0{exact(limit)}"


def _told(target: Target, row: Row) -> str:
    if short(target, row.ours, target.floor) > 0:
        return f"{ours_of(row)}: short of its floor"
    if target.goal is None:
        return ours_of(row)
    misses = short(target, row.ours, target.goal)
    if misses <= 0:
        return f"**{ours_of(row)}**"
    near = ", within the spread" if row.spread is not None and misses <= row.spread else ""
    why = f" ({target.because})" if target.because else ""
    return f"{exact(row.ours, 4)}{ours_of(row).removeprefix(figure(row.ours))}: missed by {exact(misses, 2)}{near}{why}"
