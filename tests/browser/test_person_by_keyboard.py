"""A person who has no mouse: limits, a yes, a change of mind, a no, a rule and its end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Visitor
from tests.support.open_home import OpenHome

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from test_person_rest import MEDIAN

pytestmark = pytest.mark.slow


@pytest.fixture
def home(chromium: Any, tmp_path: Path) -> Iterator[OpenHome]:
    """One whose person has chosen no limits yet."""
    made = OpenHome(tmp_path / "me")
    made.me.set_settings({"task": None})
    yield made
    made.close()


def test_a_person_does_everything_by_keyboard(home: OpenHome, visit: Callable[..., Visitor]) -> None:
    first, second = (home.server.post({**MEDIAN, "delta": 0.0, "name": name}) for name in ("The first", "The second"))
    me = visit(home.origin)
    page = me.page

    def press(role: str, name: str, then: str) -> None:
        me.tab_to(page.get_by_role(role, name=name, exact=True).first)
        page.keyboard.press("Enter")
        page.get_by_text(then).first.wait_for()

    def fill(label: str, typed: str) -> None:
        me.tab_to(page.get_by_label(label, exact=True))
        page.keyboard.type(typed)

    me.open(home.front())
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the page")
    box = skip.bounding_box()
    assert box is not None
    assert box["x"] >= 0  # it is seen once it has the focus
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"

    press("link", "choose your limits", "These are proposed.")
    fill("One task, without a second question", "2")
    press("button", "Use these limits", "Your limits")
    press("link", "Open tasks", "What others would like to learn")
    press("link", "The first", "Inspect: the whole document")
    press("button", "Accept, for epsilon 1", "Agreed. Your machine does the rest")
    press("button", "Take it back", "You took it back. Nothing had been sent.")
    assert home.me.task(first)["state"] == "withdrawn"
    press("link", "Open tasks", "What others would like to learn")
    press("link", "The second", "Inspect: the whole document")
    press("button", "Decline", "Declined. Standing rules")
    assert home.me.task(second)["state"] == "declined"

    press("link", "Standing rules", "None: you decide about every task yourself.")
    fill("Kind of task", "basic")
    fill("What leaves", "plain")
    fill("Asked by", "ana")
    fill("Epsilon at most, in seven days", "1")
    page.get_by_text("Agree to basic tasks of ana").wait_for()  # the sentence comes before the button
    press("button", "Yes, add this rule", "The rule holds from now on")
    press("button", "End rule 1 now", "The rule no longer holds.")
    assert home.me.rules() == []
