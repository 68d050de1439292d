"""On a telephone nothing is cut off, however long the words are that strangers and machines give."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scenarios"))
from processes import coordinator

from tests.support.browser import PHONE, Visitor
from thebes import web
from thebes.tasks import drawings
from thebes.web.charts import curves, points
from thebes.web.coordinator.epsilon_curve import CurveStop, picture

pytestmark = pytest.mark.slow
NAME = "task-9d5b9fadc2c073e75ff83638b032130d"  #: what a pipeline is called that a task put up
ADDED = """([order, name]) => {
  document.querySelector('main').append(Object.assign(document.createElement(order), {textContent: name}));
}"""


def test_a_long_name_in_a_heading_breaks_and_does_not_widen_the_page(
    visit: Callable[..., Visitor], tmp_path: Path
) -> None:
    running = coordinator(tmp_path / "home")
    try:
        visitor = visit(running.ready()["url"], viewport=PHONE)
        visitor.open("/")
        for order in ("h1", "h2", "h3"):
            visitor.page.evaluate(ADDED, [order, NAME])
            assert visitor.fits(), order
        visitor.close()  # its page asks the server for what is new every few seconds
    finally:
        running.stop()


LONG = "a category whose name somebody wrote out in full, and then some"
DRAWINGS = {
    "bars": drawings.bars({LONG: -1234567.8, "b": 2.0}, title="bars", low={"b": 1.0}, high={"b": 3.0}, unit=" %"),
    "interval": drawings.interval(99.9, 98.0, 100.0, title="interval", least=0, most=1_000_000),
    "spans": drawings.spans([(LONG, 0.08493, -0.25, 1234.5), ("b", 2.0, 1.0, 3.0)], title="spans"),
    "line": drawings.line([(0, 0), (9, 123_456)], title="line", limit=2e5, until=(30, "2026-11-03", "2026-12-03")),
    "stacked": drawings.stacked(
        [[1, 2, 3]] * 30,
        names=("spent", "set aside", "free"),
        title="stacked",
        ends=("2026-11-03", "2026-12-03"),
    ),
    "curves": curves({LONG: [(1, 2.0, None), (4, 1_234_567.0, 10.0)], "b": [(2, 3.0, None)]}, title="c", across="days"),
    "points": points([(1_000_000.0, 2_000_000.0, 3.0), (2.0, 3.0, None)], title="points", across="printed"),
    "epsilon": picture(
        [CurveStop(epsilon, 1 / epsilon, "formula") for epsilon in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)],
        {"the hospital at the north harbour": 5.0, "south": 0.3},
        title="epsilon",
    ),
}


def test_every_drawing_is_whole_on_a_telephone_and_its_words_stay_within(visit: Callable[..., Visitor]) -> None:
    style = (Path(web.__file__).parent / "static" / "thebes.css").read_text(encoding="utf-8")
    framed = [f'<div class="card"><figure class="scroll answer">{drawn}</figure></div>' for drawn in DRAWINGS.values()]
    for size in (PHONE, {"width": 700, "height": 900}):
        visitor = visit("data:", viewport=size)
        visitor.page.set_content(f"<style>{style}</style><main class='result'>{''.join(framed)}</main>")
        assert visitor.cut() == [], size
