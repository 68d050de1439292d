"""On a telephone nothing is cut off, however long the words are that strangers and machines give."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scenarios"))
from processes import coordinator

from tests.support.browser import PHONE, Visitor

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
