"""A model that keeps learning, in two browsers: composed, seen to learn, changed by a person twice, and ended."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

sys.path.insert(0, str(Path(__file__).parent))
from neighbours import COMMUTES, NEIGHBOURS, RIDES, Neighbourhood

from tests.support.browser import PHONE, Visitor

pytestmark = pytest.mark.slow
TYPED = {
    "#learning_rate": "0.2, 0.05",
    "#instances": "6",
    "#max_participations": "2",
    "#epsilon": "6",
    "#min_count": str(NEIGHBOURS),
    "#name": "Tram or bicycle",
    "#purpose": "To know when people take the tram.",
}


class Learning:
    """The neighbourhood, and the task that is put up in the first story."""

    def __init__(self, folder: Path) -> None:
        self.people = Neighbourhood(folder)
        self.people.server.client.publish_schema("commute", COMMUTES["tables"])
        self.people.bring("commute", COMMUTES, "rides", RIDES)
        self.url = str(self.people.coordinator.facts["url"])
        self.token = (folder / "coordinator" / "admin.token").read_text().strip()
        self.task = ""

    def requestor(self, visit: Callable[..., Visitor], **look: Any) -> Visitor:
        visitor = visit(self.url, **look)
        visitor.open("/sign-in")
        visitor.page.get_by_text("Or paste a token").click()
        visitor.page.fill("#token", self.token)
        visitor.page.get_by_role("button", name="Sign in").click()
        visitor.page.get_by_role("button", name="Sign out").wait_for()
        return visitor

    def person(self, visit: Callable[..., Visitor], **look: Any) -> Visitor:
        visitor = visit(self.people.origin, **look)
        visitor.open(self.people.session())
        return visitor


@pytest.fixture(scope="module")
def learning(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Learning]:
    made = Learning(tmp_path_factory.mktemp("learning"))
    yield made
    made.people.close()


def test_a_requestor_composes_it_and_sees_it_learn(learning: Learning, visit: Callable[..., Visitor]) -> None:
    me = learning.requestor(visit)
    page = me.page
    me.open("/ask")
    page.select_option("#kind", "draw-discard")
    page.locator("#family").wait_for()
    page.select_option("#table", "commute.rides")
    for column in ("minutes", "by", "rain"):
        page.get_by_role("checkbox", name=re.compile(f"^{column} ")).check()
        page.locator(".bound", has_text=column).first.wait_for()
    page.select_option("#output", "by")
    page.locator("#bound-0-low").wait_for()
    page.fill("#bound-0-low", "0")
    page.fill("#bound-0-high", "60")
    page.fill("#bound-1-values", "bicycle, tram")
    for field, typed in TYPED.items():
        page.fill(field, typed)
    page.fill("#crosses", "pairwise")
    page.get_by_text("This can be put up.").wait_for()
    expect(page.locator("#verdict .plain")).to_contain_text("cannot be taken back")
    expect(page.locator("#verdict .big").first).to_have_text("6")
    page.get_by_role("button", name="Rehearse").click()
    page.get_by_text("of the labels right").wait_for()
    page.locator("#keep").wait_for()
    me.pictures("training-ask")

    page.get_by_role("button", name="Put it up").click()
    page.wait_for_url(re.compile(r"/task/[0-9a-f]{32}$"))
    learning.task = page.url.rsplit("/", 1)[1]
    page.get_by_text("Nothing was mixed in yet.").first.wait_for()
    expect(page.locator("svg title", has_text="6 instances")).to_have_count(2)
    learning.people.take_part(learning.task, 6)
    expect(page.locator(".filling strong")).to_have_text("6")  # nobody touched the page
    expect(page.get_by_text("End it and keep its answer")).to_have_count(0)
    for person in learning.people.others[6:]:
        person.accept(learning.task)
        person.wait(learning.task)
    page.get_by_role("heading", name="The model", exact=True).wait_for()
    page.get_by_text("its answer is below, as it stands now").wait_for()
    me.pictures("training-live")


def test_a_person_sees_the_change_that_would_leave_and_takes_part_twice_by_keyboard(
    learning: Learning, visit: Callable[..., Visitor]
) -> None:
    me = learning.person(visit, viewport=PHONE)
    page = me.page
    me.open(f"/tasks/{learning.task}")
    page.get_by_text("Once it is sent it cannot be taken back").first.wait_for()
    page.get_by_text("You may take part up to 2 times; each time costs the same.").wait_for()
    example = page.locator(".example table")
    example.wait_for()
    before = example.inner_text()
    page.get_by_role("button", name="Draw again").click()
    expect(example).not_to_have_text(before)
    me.pictures("training-person")

    for taken in (1, 2):
        me.open(f"/tasks/{learning.task}")
        words = "Accept, for epsilon 3" if taken == 1 else "Take part again, for epsilon 3"
        page.get_by_role("button", name=words).focus()
        page.keyboard.press("Enter")
        page.get_by_text("Agreed. Your machine does the rest by itself.").wait_for()
        me.open("/accepted")
        expect(page.locator("article .tag").first).to_have_text("sent")
        again = page.get_by_role("link", name=re.compile("Take part again"))
        if taken == 1:
            again.wait_for()
            again.focus()
            page.keyboard.press("Enter")
            page.get_by_text("You took part 1 of 2 times.").wait_for()
        else:
            expect(again).to_have_count(0)
            expect(page.get_by_role("button", name="Take it back")).to_have_count(0)
    me.open(f"/tasks/{learning.task}")
    page.get_by_text("That was the last.").wait_for()
    me.pictures("training-person-done")


def test_who_asked_ends_it_and_takes_the_model_home(learning: Learning, visit: Callable[..., Visitor]) -> None:
    stranger = visit(learning.url)
    stranger.open(f"/task/{learning.task}")
    stranger.page.get_by_role("heading", name="The model", exact=True).wait_for()
    expect(stranger.page.get_by_text("End it and keep its answer")).to_have_count(0)
    reader = visit(learning.url, java_script_enabled=False)
    reader.open(f"/task/{learning.task}")
    expect(reader.page.locator("#training svg")).to_have_count(2)  # the spread of each rate, and nobody's instance
    expect(reader.page.locator("#result svg")).to_have_count(1)

    me = learning.requestor(visit)
    page = me.page
    me.open(f"/task/{learning.task}")
    expect(page.locator(".filling strong")).to_have_text(str(NEIGHBOURS + 2))
    page.get_by_text("End it and keep its answer").focus()
    page.keyboard.press("Enter")
    button = page.get_by_role("button", name="Yes, end it")
    button.wait_for()
    button.focus()
    page.wait_for_timeout(1500)  # the page keeps itself fresh meanwhile; what is open and has the focus stays so
    assert page.evaluate("document.activeElement.textContent") == "Yes, end it"
    page.keyboard.press("Enter")
    expect(page.locator("#standing .tag").first).to_have_text("done")
    page.get_by_role("heading", name="How it went").wait_for()
    with page.expect_download() as taken:
        page.get_by_role("link", name="Download the numbers (CSV)").click()
    head, *lines = csv.reader(io.StringIO(Path(taken.value.path()).read_text()))
    assert head == ["learning rate", "weight of", "weight", "spread between instances"]
    shown = [float(line[2]) for line in lines if line[0] == "0.2"]
    release = learning.people.server.task(learning.task).wait(timeout=120)
    assert shown == pytest.approx(list(release.value["weights"].values()))
    with page.expect_download() as taken:
        page.get_by_role("link", name="Download the course (CSV)").click()
    assert len(Path(taken.value.path()).read_text().splitlines()) == 1 + release.updates
    me.pictures("training-done")
    person = learning.person(visit)
    person.open("/accepted")
    person.page.get_by_text(re.compile(r"The average of 6 instances after \d+ updates")).first.wait_for()
    person.pictures("training-person-answer")
