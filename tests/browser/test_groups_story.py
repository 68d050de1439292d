"""A group in two browsers: an operator makes and publishes it, a member joins, and both read what it offers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

sys.path.insert(0, str(Path(__file__).parents[1] / "scenarios"))
from processes import PersonProcess, coordinator, stopped

from tests.support.browser import PHONE, Visitor
from tests.support.peers import enrolment

pytestmark = pytest.mark.slow


class Club:
    """A coordinator process and one member's."""

    def __init__(self, folder: Path) -> None:
        self.process = coordinator(folder / "coordinator")
        self.url = str(self.process.ready()["url"])
        self.token = (folder / "coordinator" / "admin.token").read_text().strip()
        self.me = PersonProcess(folder / "me", self.url)
        self.me.ready()
        self.origin = str(self.me.process.facts["address"])

    def close(self) -> list[int]:
        return stopped([self.me.process, self.process])


@pytest.fixture
def club(chromium: Any, tmp_path: Path) -> Iterator[Club]:
    made = Club(tmp_path)
    yield made
    assert made.close() == [0, 0]


def test_a_group_is_made_joined_and_published_by_clicking(club: Club, visit: Callable[..., Visitor]) -> None:
    operator = visit(club.url)
    operator.open("/sign-in")
    operator.page.get_by_text("Or paste a token").click()
    operator.page.fill("#token", club.token)
    operator.page.get_by_role("button", name="Sign in").click()
    operator.page.get_by_role("button", name="Sign out").wait_for()
    operator.open("/groups")
    operator.page.fill("#name", "city")
    operator.page.fill("#epoch", "one")
    operator.page.fill("#minimum", "3")
    operator.page.get_by_role("button", name="Make the group").click()
    operator.page.get_by_text("Admit its members").wait_for()
    operator.page.get_by_label("Admit people").fill("me\nana\nbob")
    operator.page.get_by_role("button", name="Make codes").click()
    operator.page.get_by_text("They are not shown again").wait_for()
    shown = operator.page.locator("[aria-label=Codes] tbody tr").all_inner_texts()
    codes = dict(line.split("\t") for line in shown)
    assert set(codes) == {"me", "ana", "bob"}
    operator.pictures("groups-operator")

    phone = visit(club.origin, viewport=PHONE)
    phone.open(str(club.me.http.post("/api/session", json={}).json()["url"]))
    phone.open("/groups")
    phone.page.get_by_text("None yet.").wait_for()
    phone.expected = {403}
    phone.page.get_by_label("Group", exact=True).fill("city")
    phone.page.get_by_label("One-time code").fill("0" * 32)
    phone.page.get_by_role("button", name="Join").click()
    phone.page.get_by_text("invitation code is not valid").wait_for()
    phone.page.get_by_label("One-time code").fill(codes["me"])  # the rest of what was typed is still there
    phone.page.get_by_role("button", name="Join").click()
    phone.page.get_by_text("You are a member of city, epoch one.").wait_for()
    phone.page.get_by_text("not published yet", exact=True).wait_for()

    with httpx.Client(base_url=club.url, timeout=120) as others:
        for name in ("ana", "bob"):
            assert enrolment(others, "city", codes[name])[1].status_code == 200
    operator.open("/groups")
    operator.page.get_by_role("button", name="Publish").click()
    operator.page.get_by_text("is published with 3 members").wait_for()
    compared = operator.page.locator("#groups code").first.inner_text()
    phone.open("/groups")
    phone.page.get_by_text("one of its 3 members").wait_for()
    assert phone.page.locator("#memberships code").first.inner_text() == compared
    phone.pictures("groups-member")
    stranger = visit(club.url, color_scheme="dark", viewport=PHONE)
    stranger.open("/groups")
    stranger.page.get_by_text("the list is fixed").wait_for()
    expect(stranger.page.get_by_role("button", name="Make the group")).to_have_count(0)
    stranger.pictures("groups-stranger")
