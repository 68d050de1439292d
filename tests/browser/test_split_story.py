"""Two servers, browser and real processes: somebody asks and chooses whom to trust, a person reads who would have to
conspire and confirms the helper, everybody answers, and the answer says on whom it rests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.scenarios.deployment import SOON, Institutions, until
from tests.scenarios.processes import PersonProcess, stopped
from tests.scenarios.test_split_processes import AGES, answer, ward_of
from tests.support.browser import PHONE, Visitor
from thebes.site.helping.keys import HelperKeys
from thebes.wire.client import CoordinatorClient

pytestmark = pytest.mark.slow


@pytest.fixture
def town(chromium: Any, tmp_path: Path) -> Iterator[tuple[Institutions, str, PersonProcess]]:
    """A coordinator, an institution without rows that helps, its fingerprint, and a person; all stop after the
    browser, whose pages go on asking."""
    with Institutions(tmp_path) as institutions:
        ward = ward_of(institutions)
        fingerprint = HelperKeys(ward.home.folder).identity().fingerprint
        me = PersonProcess(tmp_path / "me", f"http://127.0.0.1:{institutions.port}", "--example")
        me.ready()
        yield institutions, fingerprint, me
        assert stopped([me.process]) == [0]


def test_two_servers_from_the_choice_of_trust_to_the_certificate(
    town: tuple[Institutions, str, PersonProcess], visit: Callable[..., Visitor]
) -> None:
    institutions, fingerprint, me = town
    url = f"http://127.0.0.1:{institutions.port}"
    asker = visit(url)
    page = asker.page
    asker.open("/sign-in?then=/ask")
    page.get_by_text("Or paste a token").click()
    page.fill("#token", (institutions.home / "admin.token").read_text().strip())
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Sign out").wait_for()
    asker.open("/ask")
    page.select_option("#aggregator", "mean")
    page.fill("#featurizer", "SELECT age FROM profile.demographics")
    page.locator("#featurizer").blur()
    page.locator("#bound-0-kind").wait_for()
    page.select_option("#bound-0-kind", "range")
    for name, value in (("low", "0"), ("high", "100"), ("default", "50")):
        page.fill(f"#bound-0-{name}", value)
    page.fill("#epsilon", "5")
    page.fill("#min_count", "11")
    page.fill("#name", "How old we are")
    page.fill("#purpose", "To plan for the town.")
    expect(page.get_by_text("ask a mean of a range")).to_have_count(2)  # neither nobody nor mixed, of this kind
    page.get_by_role("radio", name="Two servers").check()
    page.locator("#helper").wait_for()
    page.select_option("#helper", "ward")
    page.locator(".problems", has_text="Expires").wait_for()
    page.fill("#expires_at", (datetime.now(UTC) + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M"))
    page.locator("#put-up").wait_for()
    expect(page.get_by_text("one of the two has to keep its word").first).to_be_visible()
    page.get_by_role("button", name="Compare trust").click()
    expect(page.get_by_role("button", name=re.compile("^Ask it so"))).to_have_count(3)
    assert page.inner_text(".rehearsal").count("the mean of age") == 4
    asker.picture("split-ask-desk")
    page.set_viewport_size(PHONE)
    asker.picture("split-ask-phone")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("button", name="Ask it so: Nobody", exact=True).click()  # a look at the other way, and back
    expect(page.locator("#kind")).to_have_value("bounded")
    expect(page.get_by_role("radio", name=re.compile("^Nobody:"))).to_be_checked()
    page.locator("#put-up").wait_for()
    page.get_by_role("button", name="Compare trust").click()
    page.get_by_role("button", name="Ask it so: Two servers").click()
    expect(page.locator("#kind")).to_have_value("basic")
    expect(page.get_by_role("radio", name="Two servers")).to_be_checked()
    page.select_option("#helper", "ward")
    page.locator("#put-up").wait_for()
    page.get_by_role("button", name="Put it up").click()
    expect(page).to_have_url(re.compile(r"/task/[0-9a-f]{32}$"))
    task = page.url.rpartition("/")[2]
    expect(page.get_by_text("this server or its helper is trusted").first).to_be_visible()

    desk = visit(me.process.facts["address"])
    desk.open(str(me.http.post("/api/session", json={}).json()["url"]))
    desk.open(f"/tasks/{task}")
    mine = desk.page
    mine.get_by_text("Both would have to break their word together").wait_for()
    told = mine.inner_text("main")
    assert "ward, the helper" in told
    assert re.search(r"\d[\d ]* bytes in all", told)
    mine.fill("#fingerprint", fingerprint)
    desk.picture("split-person-desk")
    mine.get_by_role("button", name="Confirm this helper").click()
    mine.get_by_text("You confirmed the key of ward").wait_for()
    mine.set_viewport_size(PHONE)
    desk.picture("split-person-phone")
    assert me.accept(task) == 202
    with CoordinatorClient(url) as client:
        answer(client, task, client.task(task)["document"], {"age": AGES})
    over = institutions.ended(task, within=SOON)
    assert over["status"] == "done"
    until(lambda: True if page.locator("#answer").count() else None, SOON)
    page.reload()
    page.locator("#answer").wait_for()
    text = page.inner_text("main")
    assert "at least one of the coordinator and the helper ward keeps its word" in text
    asker.picture("split-answer-desk")
    page.set_viewport_size(PHONE)
    asker.picture("split-answer-phone")
