"""Several curves in one picture, as SVG made here: colours come from the stylesheet by class, dashes tell them apart
where colours cannot, and the numbers stand in a table beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

from thebes.privacy.figures import spaced
from thebes.tasks.drawings import squeezed

#: (place along the axis, value, how far seeds lie apart)
Point = tuple[float, float, float | None]

_WIDTH, _HEIGHT = 400.0, 290.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, 14.0, 12.0, 50.0
_ROW = 22.0  #: of the legend
_LETTER = 9.5  #: how wide one is, at most
WIDE = 8.0  #: an axis whose ends lie further apart than this is drawn by doublings
KINDS = 6  #: of curves that the stylesheet tells apart


def curves(series: Mapping[str, Sequence[Point]], *, title: str, across: str) -> Markup:
    """One curve for each name, with a bar from one spread below to one above where there is one."""
    points = [point for curve in series.values() for point in curve]
    places, values = [x for x, _, _ in points], [y for _, y, _ in points]
    ends = [*values, *(y + side * (apart or 0.0) for _, y, apart in points for side in (-1, 1))]
    room = 0.06 * (max(ends) - min(ends)) or 0.05
    doubling = min(places) > 0 and max(places) / min(places) >= WIDE

    def across_at(x: float) -> float:
        low, high, at = (math.log2(v) if doubling else v for v in (min(places), max(places), x))
        return _LEFT + (0.5 if high == low else (at - low) / (high - low)) * (_WIDTH - _LEFT - _RIGHT)

    def up_at(y: float) -> float:
        low, high = min(ends) - room, max(ends) + room
        return _HEIGHT - _BOTTOM - (y - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    drawn = []
    for tick in tick_places(min(ends) - room, max(ends) + room):
        drawn.append(_line(_LEFT, up_at(tick), _WIDTH - _RIGHT, up_at(tick), "grid"))
        drawn.append(_text(_LEFT - 8, up_at(tick) + 4, _written(tick), "end"))
    for x in sorted(set(places)):
        drawn.append(_line(across_at(x), _HEIGHT - _BOTTOM, across_at(x), _HEIGHT - _BOTTOM + 5, "axis"))
    for at, words in readable([(across_at(x), _written(x)) for x in sorted(set(places))]):
        drawn.append(_text(at, _HEIGHT - _BOTTOM + 19, words, "middle"))
    drawn.append(_line(_LEFT, _HEIGHT - _BOTTOM, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM, "axis"))
    drawn.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, across, "middle"))
    for number, (name, curve) in enumerate(series.items()):
        kind, row = f"kind{number % KINDS}", _HEIGHT + _ROW * number + 10
        path = " ".join(f"{_place(across_at(x))},{_place(up_at(y))}" for x, y, _ in sorted(curve))
        drawn.append(Markup('<polyline class="curve {}" points="{}"/>').format(kind, path))
        for x, y, apart in curve:
            if apart:
                drawn.append(_line(across_at(x), up_at(y - apart), across_at(x), up_at(y + apart), f"spread {kind}"))
            dot = Markup('<circle class="dot {}" cx="{}" cy="{}" r="3.5"/>')
            drawn.append(dot.format(kind, _place(across_at(x)), _place(up_at(y))))
        drawn.append(_line(6, row, 40, row, f"curve {kind}"))
        drawn.append(_text(48, row + 5, name if len(name) <= 36 else f"{name[:35]}…", "start"))
    height = _HEIGHT + _ROW * len(series) + 6
    return Markup('<svg role="img" viewBox="0 0 {} {}" class="drawing worded"><title>{}</title>{}</svg>').format(
        _place(_WIDTH), _place(height), title, Markup("").join(drawn)
    )


def points(found: Sequence[Point], *, title: str, across: str) -> Markup:
    """One point for each, with its spread, beside the line on which what was found is what stands along the axis."""
    ends = [end for x, y, apart in found for end in (x, y - (apart or 0.0), y + (apart or 0.0))]
    room = 0.06 * (max(ends) - min(ends)) or 0.05
    low, high = min(ends) - room, max(ends) + room

    def across_at(x: float) -> float:
        return _LEFT + (x - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def up_at(y: float) -> float:
        return _HEIGHT - _BOTTOM - (y - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    drawn = []
    for tick in tick_places(low, high):
        drawn.append(_line(_LEFT, up_at(tick), _WIDTH - _RIGHT, up_at(tick), "grid"))
        drawn.append(_text(_LEFT - 8, up_at(tick) + 4, _written(tick), "end"))
        drawn.append(_line(across_at(tick), _HEIGHT - _BOTTOM, across_at(tick), _HEIGHT - _BOTTOM + 5, "axis"))
    for at, words in readable([(across_at(tick), _written(tick)) for tick in tick_places(low, high)]):
        drawn.append(_text(at, _HEIGHT - _BOTTOM + 19, words, "middle"))
    drawn.append(_line(_LEFT, _HEIGHT - _BOTTOM, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM, "axis"))
    drawn.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 6, across, "middle"))
    drawn.append(_line(across_at(low), up_at(low), across_at(high), up_at(high), "axis"))
    for x, y, apart in found:
        if apart:
            drawn.append(_line(across_at(x), up_at(y - apart), across_at(x), up_at(y + apart), "spread kind0"))
        dot = Markup('<circle class="dot kind0" cx="{}" cy="{}" r="4"/>')
        drawn.append(dot.format(_place(across_at(x)), _place(up_at(y))))
    return Markup('<svg role="img" viewBox="0 0 {} {}" class="drawing worded"><title>{}</title>{}</svg>').format(
        _place(_WIDTH), _place(_HEIGHT), title, Markup("").join(drawn)
    )


def readable(labels: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Choose those that can be read beside each other, the last one first of all, which stays within the drawing."""
    kept: list[tuple[float, str]] = []
    for at, words in reversed(labels):
        half = _LETTER * len(words) / 2
        at = min(at, _WIDTH - half)
        if not kept or at + half + 6 <= kept[-1][0] - _LETTER * len(kept[-1][1]) / 2:
            kept.append((at, words))
    return kept[::-1]


def _written(number: float) -> str:
    return spaced(number, 4)


def tick_places(low: float, high: float) -> list[float]:
    """Choose round numbers along an axis."""
    step = 10.0 ** math.floor(math.log10((high - low) / 3))
    step *= next(factor for factor in (5, 2, 1) if (high - low) / (step * factor) >= 2.5)
    return [number * step for number in range(math.ceil(low / step), math.floor(high / step + 1e-9) + 1)]


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    places = [_place(n) for n in (x1, y1, x2, y2)]
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(kind, *places)


def _text(x: float, y: float, words: str, anchor: str) -> Markup:
    place = _place(x), _place(y), anchor, squeezed(words, x, anchor)
    return Markup('<text x="{}" y="{}" text-anchor="{}"{}>{}</text>').format(*place, escape(words))


def _place(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
