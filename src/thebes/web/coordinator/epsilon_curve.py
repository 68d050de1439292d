"""The error of an answer over epsilon, as a picture that one moves along: radio buttons beside it light up one
point after another, by mouse or arrow keys, and no script draws it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from thebes.privacy.figures import spaced
from thebes.privacy.plain_text import shortened
from thebes.web.charts import readable, tick_places

#: of the epsilon that is asked with, the others beside it
FACTORS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_WIDTH, _TALL = 400.0, 180.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 60.0, 20.0, 12.0, 50.0
_ROW = 18.0  #: for the words at a cap
_LETTER = 9.5  #: how wide one is, at most


@dataclass(frozen=True, slots=True)
class CurveStop:
    """One epsilon along the curve. `refused` names the sites that would not answer it."""

    epsilon: float
    half_width: float | None
    basis: str
    refused: tuple[str, ...] = ()


def around(epsilon: float) -> list[float]:
    """Choose the epsilons of a curve: the one that is asked with, and some below and above."""
    return sorted({float(f"{epsilon * factor:.2g}") if factor != 1 else epsilon for factor in FACTORS})


def stops(points: Sequence[Mapping[str, Any]], caps: Mapping[str, float]) -> dict[str, list[CurveStop]]:
    """Sort the points of a curve by what they are of."""
    found: dict[str, list[CurveStop]] = {}
    for point in points:
        epsilon = float(point["epsilon"])
        refused = tuple(site for site, most in caps.items() if epsilon > most)
        found.setdefault(str(point["of"]), []).append(CurveStop(epsilon, point["half_width"], point["basis"], refused))
    return found


def picture(along: Sequence[CurveStop], caps: Mapping[str, float], *, title: str) -> Markup:
    """Draw the curve, doubling by doubling of epsilon, and a line at every site's cap."""
    told = [(place, stop.epsilon, stop.half_width) for place, stop in enumerate(along)]
    shown = [(place, x, y) for place, x, y in told if y is not None]
    if not shown:
        return Markup("")
    low, high = math.log(min(stop.epsilon for stop in along)), math.log(max(stop.epsilon for stop in along))
    most = max(y for _, _, y in shown) or 1.0

    def across(x: float) -> float:
        place = 0.5 if high == low else (math.log(x) - low) / (high - low)
        return _LEFT + min(max(place, 0.0), 1.0) * (_WIDTH - _LEFT - _RIGHT)

    reached = [(site, cap) for site, cap in caps.items() if math.exp(low) <= cap <= math.exp(high)]
    ground = _TOP + _ROW * len(reached) + _TALL

    def up(y: float) -> float:
        return ground - y / most * _TALL

    drawn = []
    for tick in tick_places(0.0, most):
        drawn.append(_line(_LEFT, up(tick), _WIDTH - _RIGHT, up(tick), "grid"))
        drawn.append(_text(_LEFT - 8, up(tick) + 4, spaced(tick, 3), "end"))
    for at, words in readable([(across(x), spaced(x, 3)) for _, x, _ in told]):
        drawn.append(_text(at, ground + 19, words, "middle"))
    drawn.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, ground + 42, "epsilon", "middle"))
    for row, (site, cap) in enumerate(reached, start=1):
        anchor, room = ("end", across(cap)) if across(cap) > _WIDTH / 2 else ("start", _WIDTH - across(cap))
        allows = f" allows {spaced(cap, 3)}"
        name = shortened(site, max(1, int(room / _LETTER) - len(allows)))
        drawn.append(_line(across(cap), _ROW * row, across(cap), ground, "limit"))
        drawn.append(_text(across(cap), _ROW * row - 3, f"{name}{allows}", anchor))
    path = " ".join(f"{across(x):.1f},{up(y):.1f}" for _, x, y in shown)
    drawn.append(Markup('<polyline class="curve" points="{}"/>').format(path))
    for place, x, y in shown:
        dot = Markup('<circle class="dot stop{}" cx="{}" cy="{}" r="5"/>')
        drawn.append(dot.format(place, f"{across(x):.1f}", f"{up(y):.1f}"))
    return Markup('<svg role="img" viewBox="0 0 {} {}" class="drawing worded"><title>{}</title>{}</svg>').format(
        f"{_WIDTH:.0f}", f"{ground + _BOTTOM:.0f}", title, Markup("").join(drawn)
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    places = [f"{n:.1f}" for n in (x1, y1, x2, y2)]
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(kind, *places)


def _text(x: float, y: float, words: str, anchor: str) -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(f"{x:.1f}", f"{y:.1f}", anchor, words)
