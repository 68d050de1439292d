"""Small drawings as SVG, made here: no script, no inline style, and words for those who do not see them.

Colours come from the stylesheet by class, so that they follow light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from thebes.privacy.figures import spaced
from thebes.privacy.plain_text import plain_text
from thebes.tasks.answer_view import Bars, Spans

_WIDTH = 640.0
_MOST_ACROSS = 10  #: models beside each other
_LETTER = 7.0  #: how wide one is, about


def chart(made: Bars | Spans) -> Markup:
    """Draw a chart of an answer."""
    if isinstance(made, Bars):
        return bars(made.values, title=made.title, low=made.low, high=made.high, unit=made.unit)
    return spans(made.rows, title=made.title, least=made.least, most=made.most)


def bars(
    values: Mapping[str, float],
    *,
    title: str,
    low: Mapping[str, float] | None = None,
    high: Mapping[str, float] | None = None,
    unit: str = "",
) -> Markup:
    """One horizontal bar for each key, with its error bar where there is one. A value below zero is drawn to the
    left: noise makes counts negative, and hiding that would mislead."""
    low, high = low or {}, high or {}
    reach = [*values.values(), *low.values(), *high.values(), 0.0]
    least, most = min(reach), max(reach)
    scale = _Scale(least, most, 200.0, _WIDTH - 100)
    height = 26.0 * max(1, len(values)) + 8
    drawn = [_line(scale(0), 0, scale(0), height, "axis")]
    for row, (key, value) in enumerate(values.items()):
        middle = 26.0 * row + 17
        drawn.append(_text(192, middle + 4, _shortened(key, 20), "end"))
        drawn.append(_box(min(scale(0), scale(value)), middle - 8, abs(scale(value) - scale(0)), 16, "bar"))
        if key in low and key in high:
            drawn += _error_bar(scale(low[key]), scale(high[key]), middle)
        drawn.append(_text(_WIDTH - 92, middle + 4, f"{_short(value)}{unit}", "start"))
    return _picture(drawn, height, title)


def interval(
    value: float, low: float, high: float, *, title: str, least: float | None = None, most: float | None = None
) -> Markup:
    """A value on a line with its error bar; `least` and `most` are the declared bounds, where there are some."""
    width = max(high - low, 1e-12)
    left = low - 0.25 * width if least is None else min(least, low)
    right = high + 0.25 * width if most is None else max(most, high)
    scale = _Scale(left, right, 30.0, _WIDTH - 30)
    drawn = [_line(30, 34, _WIDTH - 30, 34, "axis")]
    for tick in scale.ticks():
        drawn += [_line(scale(tick), 30, scale(tick), 38, "axis"), _text(scale(tick), 56, _short(tick), "middle")]
    drawn += _error_bar(scale(low), scale(high), 34)
    drawn.append(Markup('<circle class="dot" cx="{}" cy="34" r="6"/>').format(_place(scale(value))))
    drawn.append(_text(scale(value), 18, _short(value), "middle"))
    return _picture(drawn, 64, title)


def spans(
    rows: Sequence[tuple[str, float, float, float]],
    *,
    title: str,
    least: float | None = None,
    most: float | None = None,
) -> Markup:
    """One line for each (name, value, low, high): a dot at the value, and from low to high a bar. For the same value
    at several levels, or for several values side by side."""
    ends = [end for _, *numbers in rows for end in numbers]
    left, right = min([*ends, *_given(least)]), max([*ends, *_given(most)])
    room = 0.04 * (right - left)
    scale = _Scale(left - room, right + room, 170.0, _WIDTH - 76)
    height = 28.0 * len(rows) + 34
    drawn = [_line(170, height - 30, _WIDTH - 76, height - 30, "axis")]
    for tick in scale.ticks():
        drawn += [_line(scale(tick), 0, scale(tick), height - 30, "grid")]
        drawn.append(_text(scale(tick), height - 10, _short(tick), "middle"))
    for row, (name, value, low, high) in enumerate(rows):
        middle = 28.0 * row + 16
        drawn.append(_text(162, middle + 4, _shortened(name, 17), "end"))
        drawn += _error_bar(scale(low), scale(high), middle)
        drawn.append(Markup('<circle class="dot" cx="{}" cy="{}" r="5"/>').format(_place(scale(value)), _place(middle)))
        drawn.append(_text(_WIDTH - 68, middle + 4, _short(value), "start"))
    return _picture(drawn, height, title)


def line(
    points: Sequence[tuple[float, float]],
    *,
    title: str,
    limit: float | None = None,
    stepped: bool = False,
    until: tuple[float, str, str] | None = None,
) -> Markup:
    """Something over time or over phases. `limit` draws what it must not pass. `until`: from 0 to where the axis goes,
    however far the points do, with a word for either end."""
    if not points:
        return Markup("")
    ends = [x for x, _ in points] + ([] if until is None else [0.0, until[0]])
    across = _Scale(min(ends), max(ends), 60.0, _WIDTH - 20)
    up = _Scale(min(0.0, *(y for _, y in points)), max(*(y for _, y in points), limit or 0.0, 1e-12), 150.0, 14.0)
    drawn = []
    for tick in up.ticks():
        drawn += [_line(60, up(tick), _WIDTH - 20, up(tick), "grid"), _text(52, up(tick) + 4, _short(tick), "end")]
    if limit is not None:
        drawn.append(_line(60, up(limit), _WIDTH - 20, up(limit), "limit"))
    path, before = [], None
    for x, y in points:
        if stepped and before is not None:
            path.append(f"{_place(across(x))},{_place(up(before))}")
        path.append(f"{_place(across(x))},{_place(up(y))}")
        before = y
    drawn.append(Markup('<polyline class="curve" points="{}"/>').format(" ".join(path)))
    drawn += (
        [
            Markup('<circle class="dot" cx="{}" cy="{}" r="3"/>').format(_place(across(x)), _place(up(y)))
            for x, y in points
        ]
        if len(points) <= 60
        else []
    )
    if until is not None:
        drawn += [_text(60, 170, until[1], "start"), _text(_WIDTH - 20, 170, until[2], "end")]
    return _picture(drawn, 164 if until is None else 178, title)


def stacked(
    columns: Sequence[Sequence[float]],
    *,
    names: Sequence[str],
    title: str,
    unit: str = "",
    ends: tuple[str, str] = ("", ""),
) -> Markup:
    """One upright bar for each column, of up to three parts on top of each other; `names` says which is which, `ends`
    what the first and the last column are."""
    kinds = ("gone", "next", "rest")
    most = max([sum(column) for column in columns] + [1e-12])
    up = _Scale(0.0, most, 150.0, 14.0)
    drawn = []
    for tick in up.ticks():
        drawn += [_line(60, up(tick), _WIDTH - 20, up(tick), "grid"), _text(52, up(tick) + 4, _short(tick), "end")]
    across = (_WIDTH - 80) / max(1, len(columns))
    width = min(40.0, 0.8 * across)
    for place, column in enumerate(columns):
        left, below = 60 + place * across + 0.1 * across, 0.0
        for kind, value in zip(kinds, column, strict=False):
            drawn.append(_box(left, up(below + value), width, up(below) - up(below + value), kind))
            below += value
    drawn += [_text(60, 168, ends[0], "start"), _text(_WIDTH - 20, 168, ends[1], "end")]
    for place, (kind, name) in enumerate(zip(kinds, names, strict=False)):
        drawn.append(_box(60 + 180 * place, 180, 12, 12, kind))
        drawn.append(_text(78 + 180 * place, 191, f"{name}{f', {unit}' if unit and not place else ''}", "start"))
    return _picture(drawn, 198, title)


def meter(spent: float, *, of: float, more: float = 0.0, title: str) -> Markup:
    """Draw how much of a whole is gone, and how much more would go."""
    whole = of if of > 0 else 1.0
    gone = min(1.0, max(0.0, spent / whole))
    next_ = min(1.0 - gone, max(0.0, more / whole))
    drawn = [
        _box(0, 2, _WIDTH, 14, "empty"),
        _box(0, 2, gone * _WIDTH, 14, "gone"),
        _box(gone * _WIDTH, 2, next_ * _WIDTH, 14, "next"),
    ]
    return _picture(drawn, 18, title)


def small_bars(counts: Sequence[float], *, title: str) -> Markup:
    """A column's shape at a glance: upright bars, no axis."""
    most = max([*counts, 1e-12])
    width = min(32.0, 160.0 / max(1, len(counts)))
    drawn = [
        _box(place * width + 0.5, 36 - 34 * max(0.0, count) / most, width - 1, 34 * max(0.0, count) / most, "bar")
        for place, count in enumerate(counts)
    ]
    return _picture(drawn, 38, title, width=160)


def profiles(models: Sequence[Sequence[float]], *, title: str) -> Markup:
    """Small multiples: every model in a place of its own, an upright bar for each of its numbers, all to one scale."""
    reach = max(abs(number) for model in models for number in model) or 1.0
    across = min(_MOST_ACROSS, len(models))
    side, height = _WIDTH / _MOST_ACROSS, 62.0
    drawn = []
    for place, model in enumerate(models):
        left, middle = side * (place % across) + 4, height * (place // across) + 30
        width = (side - 12) / len(model)
        drawn.append(_line(left, middle, left + side - 12, middle, "axis"))
        for number, value in enumerate(model):
            tall = 27 * abs(value) / reach
            drawn.append(_box(left + number * width, middle - tall if value > 0 else middle, 0.8 * width, tall, "bar"))
    return _picture(drawn, height * math.ceil(len(models) / across), title)


# --- pieces -------------------------------------------------------------------------------------------------


class _Scale:
    """From numbers to places."""

    def __init__(self, least: float, most: float, start: float, end: float) -> None:
        self._least, self._most = least, most if most > least else least + 1.0
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        share = (value - self._least) / (self._most - self._least)
        return self._start + min(1.0, max(0.0, share)) * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Some round numbers within the scale."""
        step = 10.0 ** math.floor(math.log10((self._most - self._least) / 3))
        step *= next(factor for factor in (10, 5, 2, 1) if (self._most - self._least) / (step * factor) >= 2)
        first = math.ceil(self._least / step)
        return [number * step for number in range(first, math.floor(self._most / step + 1e-9) + 1)]


def _picture(pieces: Sequence[Any], height: float, title: str, *, width: float = _WIDTH) -> Markup:
    return Markup('<svg role="img" viewBox="0 0 {} {}" class="drawing"><title>{}</title>{}</svg>').format(
        _place(width), _place(height), plain_text(title), Markup("").join(pieces)
    )


def _error_bar(left: float, right: float, y: float) -> list[Markup]:
    return [
        _line(left, y, right, y, "error"),
        _line(left, y - 5, left, y + 5, "error"),
        _line(right, y - 5, right, y + 5, "error"),
    ]


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    places = [_place(n) for n in (x1, y1, x2, y2)]
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(kind, *places)


def _box(x: float, y: float, width: float, height: float, kind: str) -> Markup:
    places = [_place(n) for n in (x, y, max(0.0, width), height)]
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(kind, *places)


def _text(x: float, y: float, words: str, anchor: str) -> Markup:
    place = _place(x), _place(y), anchor, squeezed(words, x, anchor)
    return Markup('<text x="{}" y="{}" text-anchor="{}"{}>{}</text>').format(*place, escape(plain_text(words)))


def squeezed(words: str, x: float, anchor: str) -> Markup:
    """Return the attributes that keep a long number that ends at `x` from beginning outside the drawing."""
    if anchor != "end" or len(words) * _LETTER <= x:
        return Markup("")
    return Markup(' textLength="{}" lengthAdjust="spacingAndGlyphs"').format(_place(x - 2))


def _place(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _short(value: float) -> str:
    return spaced(value, 4)


def _given(end: float | None) -> list[float]:
    return [] if end is None else [end]


def _shortened(words: str, longest: int = 26) -> str:
    return words if len(words) <= longest else words[: longest - 1] + "…"
