"""A stream's blocks as a map: one square for each, as dark as its budget is left.

Of blocks of hours a column is a day, of days a week; others are laid out line by line. Squares that look alike are one
path, so that a year of hours is still a small picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from markupsafe import Markup

_STEP, _SIZE = 10, 9  # from square to square, and a square's own side
_ACROSS = 60  #: squares in a line where they have no calendar
_LEFT, _TOP = 44, 16  # room for labels

#: how a block looks, and what that means; in the order of the legend
LOOKS = {
    "open": "open: rows still come in, nothing was charged",
    "full": "more than three quarters left",
    "most": "more than half left",
    "some": "more than a quarter left",
    "little": "less than a quarter left",
    "retired": "retired: takes no more charges",
    "dropped": "its rows were deleted",
}


def look(block: Mapping[str, Any]) -> str:
    """Return how a block looks, a key of `LOOKS`."""
    if block["state"] in ("open", "retired", "dropped"):
        return str(block["state"])
    return next(name for name, least in _LEAST if block["left"] > least)


_LEAST = (("full", 0.75), ("most", 0.5), ("some", 0.25), ("little", -1.0))


@dataclass(frozen=True, slots=True)
class _Grid:
    """The places where blocks lie, and what stands beside rows and above columns."""

    place: Callable[[int], tuple[int, int]]  #: of the block of that number: column, row
    beside: tuple[tuple[int, str], ...]
    above: tuple[tuple[int, str], ...]
    rows: int = 1  #: at least so many, also where the last ones are empty


def heat(blocks: Sequence[Mapping[str, Any]], *, title: str) -> Markup:
    """The map of a stream's blocks, oldest first."""
    if not blocks:
        return Markup("")
    grid = _grid(blocks)
    paths: dict[str, list[str]] = {}
    columns, rows = 0, grid.rows
    for number, block in enumerate(blocks):
        column, row = grid.place(number)
        columns, rows = max(columns, column + 1), max(rows, row + 1)
        where = f"M{_LEFT + _STEP * column} {_TOP + _STEP * row}h{_SIZE}v{_SIZE}h-{_SIZE}z"
        paths.setdefault(look(block), []).append(where)
    width, height = _LEFT + _STEP * max(columns, 8) + 30, _TOP + _STEP * rows + 2
    square = Markup('<path class="heat {}" d="{}"/>')
    drawn = [square.format(name, "".join(found)) for name, found in paths.items()]
    drawn += [_label(_LEFT - 6, _TOP + _STEP * row + 8, words, "end") for row, words in grid.beside]
    drawn += [_label(_LEFT + _STEP * column, _TOP - 5, words, "start") for column, words in grid.above]
    whole = Markup(
        '<svg class="drawing heatmap" role="img" viewBox="0 0 {0} {1}" width="{0}" height="{1}">{2}{3}</svg>'
    )
    return whole.format(width, height, Markup("<title>{}</title>").format(title), Markup("").join(drawn))


def counted(blocks: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Count the blocks of each look, in the order of the legend."""
    found = [look(block) for block in blocks]
    return {name: found.count(name) for name in LOOKS if name in found}


def _grid(blocks: Sequence[Mapping[str, Any]]) -> _Grid:
    moments = [_moment(block["since"]) for block in blocks if block.get("since")]
    if len(moments) != len(blocks):
        return _lines(len(blocks))
    ends = _moment(blocks[0]["until"])
    hours = round((ends - moments[0]) / timedelta(hours=1))
    rows = 7
    if hours < 24:
        first, rows = moments[0].date(), 24 // hours
        places = [((m.date() - first).days, m.hour // hours) for m in moments]
        beside = tuple((row, f"{row * hours:02d}:00") for row in range(0, rows, max(1, rows // 4)))
    elif hours == 24:
        monday = moments[0].date() - timedelta(days=moments[0].weekday())
        places = [((m.date() - monday).days // 7, m.weekday()) for m in moments]
        beside = ((0, "Mon"), (2, "Wed"), (4, "Fri"), (6, "Sun"))
    else:
        return _lines(len(blocks))
    return _Grid(lambda number: places[number], beside, _months(moments, [column for column, _ in places]), rows)


def _lines(count: int) -> _Grid:
    rows = range(0, (count - 1) // _ACROSS + 1, 5)
    return _Grid(lambda n: (n % _ACROSS, n // _ACROSS), tuple((row, str(row * _ACROSS + 1)) for row in rows), ())


def _months(moments: Sequence[datetime], columns: Sequence[int]) -> tuple[tuple[int, str], ...]:
    """The months above the columns in which they begin, where there is room for them."""
    found: list[tuple[int, str]] = []
    seen = set()
    for moment, column in zip(moments, columns, strict=True):
        month = (moment.year, moment.month)
        if month not in seen and (not found or column - found[-1][0] >= 6):
            found.append((column, f"{moment:%b %Y}" if moment.month == 1 or not found else f"{moment:%b}"))
        seen.add(month)
    return tuple(found)


def _moment(written: Any) -> datetime:
    return written if isinstance(written, datetime) else datetime.fromisoformat(str(written))


def _label(x: int, y: int, words: str, anchor: str) -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(x, y, anchor, words)
