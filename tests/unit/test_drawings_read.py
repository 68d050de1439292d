"""Drawings are read right: scales that say what the whole is, levels by their ends, single values apart, and today."""

from __future__ import annotations

import re

from thebes.tasks import drawings
from thebes.tasks.answer_view import Bars


def widths(drawn: str, kind: str = "bar") -> list[float]:
    return [float(width) for width in re.findall(f'<rect class="{kind}" x="[^"]+" y="[^"]+" width="([^"]+)"', drawn)]


def test_a_bar_is_as_long_as_its_part_of_the_whole() -> None:
    half, most = widths(str(drawings.chart(Bars({"a": 50.0, "b": 96.0}, title="of 100", most=100.0))))
    whole = half * 2
    assert abs(most / whole - 0.96) < 0.01
    free = widths(str(drawings.chart(Bars({"a": 50.0, "b": 96.0}, title="of what there is"))))
    assert abs(free[0] / free[1] - 50 / 96) < 0.01


def test_levels_of_one_value_say_their_ends_and_several_values_themselves() -> None:
    levels = str(drawings.spans([("50 %", 4.0, 3.5, 4.5), ("95 %", 4.0, 3.0, 5.0)], title="levels"))
    assert ">3.5 to 4.5<" in levels
    assert ">3 to 5<" in levels
    several = str(drawings.spans([("a", 4.0, 3.5, 4.5), ("b", 2.0, 1.0, 3.0)], title="several"))
    assert " to " not in several


def test_single_values_stand_apart_and_stretches_touch() -> None:
    assert widths(str(drawings.small_bars([1, 1, 2], title="values", apart=True)))[0] < 24
    assert widths(str(drawings.small_bars([1, 1, 2], title="stretches")))[0] == 31


def test_today_stands_on_the_axis_of_what_was_spent() -> None:
    drawn = {
        now: str(drawings.line([(0, 0), (2, 1)], title="spent", until=(30, "2026-11-03", "2026-12-03"), now=now))
        for now in (0.0, 15.0, 30.0)
    }
    assert all(each.count(">today<") == 1 for each in drawn.values())
    assert "today" not in str(drawings.line([(0, 0), (2, 1)], title="spent"))
