"""Small drawings as SVG, made here: no script, no inline style, and words for those who do not see them.

Colours come from the stylesheet by class, so that they follow light and dark. What has words in it is as wide as a
telephone shows without being scrolled: names stand above what they name, so that neither cuts the other off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from thebes.privacy.figures import spaced
from thebes.privacy.plain_text import plain_text
from thebes.tasks.answer_view import Bars, Spans

_WIDTH = 400.0
_METER = 640.0  #: as wide as a column of text
_LEFT = 60.0  #: for the numbers beside an axis
_INSET = 6.0  #: within which a dot or the end of an error bar has room at either side
_ROW = 44.0  #: a name, and below it what it names
_MOST_ACROSS = 10  #: models beside each other
_LETTER = 9.5  #: how wide one is, about, where it is largest


def chart(made: Bars | Spans) -> Markup:
    """Draw a chart of an answer."""
    if isinstance(made, Bars):
        return bars(made.values, title=made.title, low=made.low, high=made.high, unit=made.unit, most=made.most)
    return spans(made.rows, title=made.title, least=made.least, most=made.most)


def bars(
    values: Mapping[str, float],
    *,
    title: str,
    low: Mapping[str, float] | None = None,
    high: Mapping[str, float] | None = None,
    unit: str = "",
    most: float | None = None,
) -> Markup:
    """One horizontal bar for each key, with its error bar where there is one. A value below zero is drawn to the
    left: noise makes counts negative, and hiding that would mislead. `most` is what the whole width stands for, unless
    a bar is longer."""
    low, high = low or {}, high or {}
    reach = [*values.values(), *low.values(), *high.values(), 0.0, *_given(most)]
    scale = _Scale(min(reach), max(reach), _INSET, _WIDTH - _INSET)
    drawn = []
    for row, (key, value) in enumerate(values.items()):
        drawn += _named(key, f"{_short(value)}{unit}", row)
        middle = _ROW * row + 28
        drawn.append(_line(scale(0), middle - 10, scale(0), middle + 10, "axis"))
        drawn.append(_box(min(scale(0), scale(value)), middle - 7, abs(scale(value) - scale(0)), 14, "bar"))
        if key in low and key in high:
            drawn += _error_bar(scale(low[key]), scale(high[key]), middle)
    return _picture(drawn, _ROW * max(1, len(values)), title)


def interval(
    value: float, low: float, high: float, *, title: str, least: float | None = None, most: float | None = None
) -> Markup:
    """A value on a line with its error bar; `least` and `most` are the declared bounds, where there are some."""
    width = max(high - low, 1e-12)
    left = low - 0.25 * width if least is None else min(least, low)
    right = high + 0.25 * width if most is None else max(most, high)
    scale = _Scale(left, right, 30.0, _WIDTH - 30)
    drawn = [_line(30, 34, _WIDTH - 30, 34, "axis")]
    for tick in scale.ticks(beside=True):
        drawn += [_line(scale(tick), 30, scale(tick), 38, "axis"), _under(scale(tick), 56, _short(tick))]
    drawn += _error_bar(scale(low), scale(high), 34)
    drawn.append(Markup('<circle class="dot" cx="{}" cy="34" r="6"/>').format(_place(scale(value))))
    drawn.append(_under(scale(value), 18, _short(value)))
    return _picture(drawn, 64, title)


def spans(
    rows: Sequence[tuple[str, float, float, float]],
    *,
    title: str,
    least: float | None = None,
    most: float | None = None,
) -> Markup:
    """One line for each (name, value, low, high): a dot at the value, and from low to high a bar. For the same value
    at several levels, of which the ends are written, or for several values side by side."""
    ends = [end for _, *numbers in rows for end in numbers]
    left, right = min([*ends, *_given(least)]), max([*ends, *_given(most)])
    room = 0.04 * (right - left)
    scale = _Scale(left - room, right + room, _INSET, _WIDTH - _INSET)
    height = _ROW * len(rows) + 28
    drawn = [_line(_INSET, height - 26, _WIDTH - _INSET, height - 26, "axis")]
    for tick in scale.ticks(beside=True):
        drawn += [
            _line(scale(tick), _ROW * row + 20, scale(tick), _ROW * (row + 1), "grid") for row in range(len(rows))
        ]
        drawn.append(_line(scale(tick), height - 26, scale(tick), height - 21, "axis"))
        drawn.append(_under(scale(tick), height - 5, _short(tick)))
    levels = len(rows) > 1 and len({value for _, value, *_ in rows}) == 1
    for row, (name, value, low, high) in enumerate(rows):
        drawn += _named(name, f"{_short(low)} to {_short(high)}" if levels else _short(value), row)
        middle = _ROW * row + 29
        drawn += _error_bar(scale(low), scale(high), middle)
        drawn.append(Markup('<circle class="dot" cx="{}" cy="{}" r="5"/>').format(_place(scale(value)), _place(middle)))
    return _picture(drawn, height, title)


def line(
    points: Sequence[tuple[float, float]],
    *,
    title: str,
    limit: float | None = None,
    stepped: bool = False,
    until: tuple[float, str, str] | None = None,
    now: float | None = None,
) -> Markup:
    """Something over time or over phases. `limit` draws what it must not pass. `until`: from 0 to where the axis goes,
    however far the points do, with a word for either end; `now` is where today is on it."""
    if not points:
        return Markup("")
    ends = [x for x, _ in points] + ([] if until is None else [0.0, until[0]])
    across = _Scale(min(ends), max(ends), _LEFT, _WIDTH - _INSET)
    up = _Scale(min(0.0, *(y for _, y in points)), max(*(y for _, y in points), limit or 0.0, 1e-12), 150.0, 14.0)
    drawn = []
    for tick in up.ticks():
        drawn += _grid(up(tick), _short(tick))
    if limit is not None:
        drawn.append(_line(_LEFT, up(limit), _WIDTH - _INSET, up(limit), "limit"))
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
        drawn += [_text(_LEFT, 172, until[1], "start"), _text(_WIDTH - _INSET, 172, until[2], "end")]
    if now is not None:
        drawn += [_line(across(now), 144, across(now), 156, "axis"), _under(across(now), 192, "today")]
    return _picture(drawn, 164 if until is None else 180 if now is None else 198, title)


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
        drawn += _grid(up(tick), _short(tick))
    across = (_WIDTH - _LEFT - _INSET) / max(1, len(columns))
    width = min(40.0, 0.8 * across)
    for place, column in enumerate(columns):
        left, below = _LEFT + place * across + 0.1 * across, 0.0
        for kind, value in zip(kinds, column, strict=False):
            drawn.append(_box(left, up(below + value), width, up(below) - up(below + value), kind))
            below += value
    drawn += [_text(_LEFT, 170, ends[0], "start"), _text(_WIDTH - _INSET, 170, ends[1], "end")]
    for place, (kind, name) in enumerate(zip(kinds, names, strict=False)):
        drawn.append(_box(_LEFT, 184 + 22 * place, 12, 12, kind))
        drawn.append(_text(_LEFT + 20, 195 + 22 * place, f"{name}{f', {unit}' if unit and not place else ''}", "start"))
    return _picture(drawn, 184 + 22 * len(names), title)


def meter(spent: float, *, of: float, more: float = 0.0, title: str) -> Markup:
    """Draw how much of a whole is gone, and how much more would go."""
    whole = of if of > 0 else 1.0
    gone = min(1.0, max(0.0, spent / whole))
    next_ = min(1.0 - gone, max(0.0, more / whole))
    drawn = [
        _box(0, 2, _METER, 14, "empty"),
        _box(0, 2, gone * _METER, 14, "gone"),
        _box(gone * _METER, 2, next_ * _METER, 14, "next"),
    ]
    return _picture(drawn, 18, title, width=_METER)


def small_bars(counts: Sequence[float], *, title: str, apart: bool = False) -> Markup:
    """A column's shape at a glance: upright bars, no axis. They stand `apart` where each is one value, and touch where
    together they are a stretch."""
    most = max([*counts, 1e-12])
    width = min(32.0, 160.0 / max(1, len(counts)))
    gap = max(1.0, 0.3 * width) if apart else 1.0
    drawn = [
        _box(place * width + gap / 2, 36 - 34 * max(0.0, count) / most, width - gap, 34 * max(0.0, count) / most, "bar")
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

    def ticks(self, *, beside: bool = False) -> list[float]:
        """Some round numbers within the scale; of those that stand beside each other so many as can be read."""
        step = 10.0 ** math.floor(math.log10((self._most - self._least) / 3))
        step *= next(factor for factor in (10, 5, 2, 1) if (self._most - self._least) / (step * factor) >= 2)
        first = math.ceil(self._least / step)
        every = [number * step for number in range(first, math.floor(self._most / step + 1e-9) + 1)]
        room = max((len(_short(tick)) + 1) * _LETTER for tick in every) if beside and every else 0.0
        apart = step / (self._most - self._least) * (self._end - self._start)
        return every[:: max(1, math.ceil(room / apart))]


def _picture(pieces: Sequence[Any], height: float, title: str, *, width: float = _WIDTH) -> Markup:
    form = "drawing worded" if width == _WIDTH else "drawing"
    return Markup('<svg role="img" viewBox="0 0 {} {}" class="{}"><title>{}</title>{}</svg>').format(
        _place(width), _place(height), form, plain_text(title), Markup("").join(pieces)
    )


def _named(name: str, number: str, row: int) -> list[Markup]:
    """Write the name of a row and its number above what is drawn for it."""
    longest = int((_WIDTH - 2 * _INSET) / _LETTER) - len(number) - 2
    above = _ROW * row + 15
    return [_text(_INSET, above, _shortened(name, longest), "start"), _text(_WIDTH - _INSET, above, number, "end")]


def _grid(y: float, number: str) -> list[Markup]:
    """Draw a line across, and its number beside it."""
    return [_line(_LEFT, y, _WIDTH - _INSET, y, "grid"), _text(_LEFT - 8, y + 5, number, "end")]


def _under(x: float, y: float, number: str) -> Markup:
    """Write a number at a place along an axis, within the drawing."""
    half = len(number) * _LETTER / 2
    anchor = "start" if x < half else "end" if x > _WIDTH - half else "middle"
    return _text({"start": 0.0, "end": _WIDTH}.get(anchor, x), y, number, anchor)


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
