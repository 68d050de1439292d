"""The whole story of a person in a real browser: data come in, a task is looked at, agreed to, and answered."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

sys.path.insert(0, str(Path(__file__).parent))
from neighbours import BARS, COMMUTES, MEDIAN, NEIGHBOURS, RIDES, ROWS, Neighbourhood

from tests.support.browser import Visitor
from tests.support.every_page import pages
from tests.support.ports import free_port
from thebes.web.person.pages import put_on

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Neighbourhood]:
    made = Neighbourhood(tmp_path_factory.mktemp("neighbourhood"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def story(world: Neighbourhood) -> Neighbourhood:
    """The same after data came in."""
    world.bring("commute", COMMUTES, "rides", RIDES)
    return world


def inside(world: Neighbourhood, visit: Callable[..., Visitor], **look: Any) -> Visitor:
    """A visitor with a session."""
    visitor = visit(world.origin, **look)
    visitor.open(world.session())
    return visitor


def settled(visitor: Visitor) -> None:
    """Everything that a page asks for later has come."""
    visitor.page.wait_for_load_state("networkidle")
    expect(visitor.page.locator(".htmx-request")).to_have_count(0)


def test_a_person_sees_previews_accepts_and_watches_it_finish(
    world: Neighbourhood, visit: Callable[..., Visitor]
) -> None:
    me = visit(world.origin)
    page = me.page
    me.open(world.front)
    expect(page).to_have_url(f"{world.origin}/")  # the code is out of the address again
    page.get_by_text("Nothing yet.").wait_for()

    world.bring("commute", COMMUTES, "rides", RIDES)
    task = world.ask(MEDIAN)
    me.open("/data")
    page.get_by_role("heading", name="minutes float").wait_for()
    expect(page.locator("main")).to_contain_text("18 rows", use_inner_text=True)
    expect(page.locator("svg", has_text="by, how often: bicycle: 12; tram: 6")).to_have_count(1)
    page.get_by_text("Newest rows").click()
    expect(page.locator("td", has_text="bicycle").first).to_be_visible()
    me.picture("person-data")

    me.open("/")
    page.get_by_role("link", name=MEDIAN["name"]).click()
    page.get_by_role("heading", name="Inspect: the whole document").wait_for()
    page.get_by_text("The plain truth: these values would leave as they are.").wait_for()
    expect(page.locator("main")).to_contain_text("73.2 %", use_inner_text=True)
    expect(page.locator("pre .key", has_text="featurizer")).to_have_count(1)
    expect(page.locator("figure td", has_text="18")).to_have_count(2)  # what lies here, and what would leave: the same
    me.picture("person-task")

    page.get_by_role("button", name="Accept, for epsilon 1").click()
    page.get_by_text("Agreed. Your machine does the rest").wait_for()
    assert page.evaluate("document.activeElement.textContent").startswith("Agreed.")
    page.get_by_role("link", name="Where it stands").click()
    page.get_by_text("Your contribution arrived.").wait_for()
    me.picture("person-sent")
    world.take_part(task)
    page.get_by_role("heading", name="The answer").wait_for()  # nobody touched the page
    page.locator("article .tag", has_text="answered").wait_for()
    text = page.inner_text("main")
    assert "answered" in text
    assert "95 % sure" in text
    expect(page.locator("article svg")).to_have_count(1)
    me.picture("person-answer")

    me.open("/privacy")
    page.get_by_text("The journal is whole").wait_for()
    expect(page.get_by_role("row", name=re.compile(MEDIAN["name"]))).to_have_count(1)
    spent = world.me.get("/api/ledger")["trusted"]["overall"]["spent"]["epsilon"]
    assert spent == 1.0
    expect(page.locator("svg", has_text="Of epsilon 30 for these 30 days").first).to_be_visible()
    me.picture("person-privacy")


def test_the_example_of_noise_is_drawn_again_and_nothing_is_sent(
    story: Neighbourhood, visit: Callable[..., Visitor]
) -> None:
    task = story.ask(ROWS)
    me = inside(story, visit)
    me.open(f"/tasks/{task}")
    example = me.page.locator(".example")
    seen = set()
    for _ in range(6):
        me.page.locator("#again").wait_for()
        settled(me)
        seen.add(example.locator("tbody").inner_text())
        me.page.keyboard.press("Enter") if me.page.evaluate("document.activeElement.id") == "again" else me.page.click(
            "#again"
        )
    assert len(seen) > 1
    assert me.page.evaluate("document.activeElement.id") == "again"  # the focus stays where it was
    me.picture("person-task-noised")
    assert story.server.task(task).show()["contributions"] == 0
    assert all(p["task_id"] != task for p in story.me.get("/api/participations"))


def test_a_budget_that_does_not_allow_it_says_so_in_place(story: Neighbourhood, visit: Callable[..., Visitor]) -> None:
    task = story.ask(MEDIAN, epsilon=100.0, name="Too much")
    me = inside(story, visit)
    me.open(f"/tasks/{task}")
    me.page.get_by_text("You cannot accept it: it costs epsilon 100").wait_for()
    assert not me.page.get_by_role("button", name="Accept").count()
    expect(me.page.get_by_role("button", name="Decline")).to_be_visible()  # the question still stands
    me.page.get_by_role("button", name="Decline").click()
    me.page.get_by_text("Declined. Standing rules").wait_for()
    me.open("/accepted")
    expect(me.page.get_by_role("link", name="Too much")).to_be_visible()


def test_a_session_that_ended_is_told_in_place(story: Neighbourhood, visit: Callable[..., Visitor]) -> None:
    task = story.ask(MEDIAN, name="Without a session")
    me = inside(story, visit)
    me.expected = {401}
    me.open(f"/tasks/{task}")
    settled(me)
    me.page.context.clear_cookies()
    me.page.get_by_role("button", name="Accept").click()
    me.page.locator(".outcome .note.bad").wait_for()
    assert me.page.locator(".outcome .note.bad").inner_text().startswith("Your session has ended.")
    me.open("/tasks")
    expect(me.page).to_have_url(f"{story.origin}/")
    expect(me.page.locator("main")).to_contain_text("Open the address", use_inner_text=True)
    assert all(p["task_id"] != task for p in story.me.get("/api/participations"))


def test_rules_are_made_told_in_words_and_removed(story: Neighbourhood, visit: Callable[..., Visitor]) -> None:
    me = inside(story, visit)
    me.expected = {422}
    page = me.page
    me.open("/rules")
    add = page.get_by_role("button", name="Yes, add this rule")
    add.click()
    assert page.evaluate("document.activeElement.id") == "type"  # nothing is agreed to by leaving fields empty
    meant = page.locator("#meant")
    expect(meant).to_contain_text("Not a rule yet. Kind of task must be chosen")
    expect(page.locator("#min_count")).to_have_value("100")
    page.select_option("#type", "bounded")
    expect(meant).to_contain_text("Asked by must be a name, or tables must be chosen")
    page.fill("#requestor", "nobody’s “friend” <b>")
    expect(meant).to_contain_text("seven days must be given")
    page.fill("#epsilon_per_week", "0.3")
    expect(meant).to_contain_text("Agree to bounded tasks of nobody’s “friend” <b>")
    page.fill("#epsilon_at_most", "0.1")
    page.fill("#probability", "50")
    page.get_by_label("commute.rides").check()
    expect(meant).to_contain_text("read nothing but commute.rides, want at least 100 people")
    expect(meant).to_contain_text("a chance of 50 %")
    add.click()
    page.get_by_text("The rule holds from now on: Agree to bounded tasks").wait_for()
    rule = {
        "type": "bounded", "server": "untrusted", "requestor": "nobody’s “friend” <b>", "epsilon_at_most": 0.1,
        "probability": 0.5, "tables": ["commute.rides"], "epsilon_per_week": 0.3, "min_count": 100, "stated": True,
    }  # fmt: skip
    assert story.me.get("/api/rules")["rules"] == [rule]
    expect(page.locator("#rulebook")).to_contain_text("each with a chance of 50 %", use_inner_text=True)
    me.picture("person-rules")
    page.fill("#epsilon_at_most", "2000000")
    expect(meant).to_contain_text("Not a rule yet. Epsilon at most")
    add.click()
    page.locator("form .outcome .note.bad").wait_for()
    expect(page.locator("#epsilon_at_most")).to_have_value("2000000")  # what was typed stays
    expect(page.get_by_text("The rule holds from now on")).to_have_count(0)  # no success beside an error
    page.fill("#epsilon_at_most", "0.2")
    expect(meant).to_contain_text("at most epsilon 0.2 each")
    add.click()
    page.get_by_text("The rule holds from now on").wait_for()
    expect(page.locator(".note.bad")).to_have_count(0)  # nor an error beside a success
    page.get_by_role("button", name="End rule 2 now").click()
    page.get_by_text("The rule no longer holds.").wait_for()
    page.get_by_role("button", name="End rule 1 now").click()
    page.get_by_text("None: you decide about every task yourself.").wait_for()
    assert story.me.get("/api/rules")["rules"] == []


def test_a_rule_shows_what_it_has_agreed_to(story: Neighbourhood, visit: Callable[..., Visitor]) -> None:
    rule = {"type": "basic", "tables": ["commute.rides"], "epsilon_at_most": 0.5, "epsilon_per_week": 1}
    me = inside(story, visit)
    me.open("/rules")
    story.me.http.put("/api/rules", json={"rules": [rule]})
    me.page.get_by_text("It has agreed to nothing so far.").wait_for()  # nobody touched the page
    story.ask(MEDIAN, name="By the rule", epsilon=0.25)
    me.page.get_by_text("It agreed to 1 task, for epsilon 0.25 so far").click()
    expect(me.page.get_by_role("link", name="By the rule")).to_be_visible()
    me.picture("person-rule-agreed")
    me.page.get_by_role("button", name="End rule 1 now").click()
    me.page.get_by_text("What it agreed to before stays agreed.").wait_for()


def test_limits_and_caps_are_changed_by_forms(story: Neighbourhood, visit: Callable[..., Visitor]) -> None:
    me = inside(story, visit)
    page = me.page
    me.open("/privacy")
    page.get_by_text("Every number by itself").click()
    page.fill("#local-epsilon", "12.5")
    page.get_by_role("button", name="Change the limits").click()
    page.get_by_text("Your limits are changed.").wait_for()
    assert story.me.get("/api/settings")["local"]["epsilon"] == 12.5
    page.get_by_text("The most one requestor may have").click()
    page.fill("#who", "ana")
    page.fill("#cap", "0.5")
    page.get_by_role("button", name="Set the cap").click()
    page.get_by_text("The most one requestor may have in a period: 1 cap").click()
    page.get_by_text("ana: epsilon 0.5").wait_for()
    page.fill("#who", "ana")
    page.get_by_role("button", name="Set the cap").click()
    page.get_by_text("ana has no cap any more.").wait_for()
    assert story.me.get("/api/settings")["caps"] == {}


def test_everything_can_be_taken_along_as_a_file(story: Neighbourhood, visit: Callable[..., Visitor]) -> None:
    me = inside(story, visit)
    me.open("/privacy")
    with me.page.expect_download() as waiting:
        me.page.get_by_role("link", name="Export everything").click()
    assert waiting.value.suggested_filename == "thebes-export.json"
    assert '"rides"' in Path(waiting.value.path()).read_text(encoding="utf-8")


def test_a_contribution_is_taken_back(story: Neighbourhood, visit: Callable[..., Visitor]) -> None:
    task = story.ask(MEDIAN, name="To be taken back")
    me = inside(story, visit)
    me.open(f"/tasks/{task}")
    me.page.get_by_role("button", name="Accept").click()
    me.page.get_by_text("Agreed. Your machine does the rest").wait_for()
    story.me.wait(task, "sent")
    me.open("/accepted")
    card = me.page.locator("article", has_text="To be taken back")
    card.get_by_text("Take it back").first.click()
    expect(card.locator("details[open]")).to_have_count(1)
    me.page.wait_for_timeout(2500)  # the card asks again meanwhile; what was unfolded stays so
    expect(card.locator("details[open]")).to_have_count(1)
    card.get_by_role("button", name="Take it back").click()
    card.locator(".tag", has_text="withdrawn").wait_for()
    expect(card).to_contain_text("You took it back. The server destroyed it", use_inner_text=True)


QUIET = {"type": "basic", "requestor": "x" * 200, "epsilon_at_most": 0.1, "min_count": 50}


@pytest.fixture(scope="module")
def lived_in(story: Neighbourhood) -> tuple[Neighbourhood, str]:
    """With answers of several forms, something that waits, and something declined."""
    for number, document in enumerate((MEDIAN, ROWS, BARS)):
        task = story.ask(document)
        assert story.me.accept(task) == 202
        story.take_part(task, NEIGHBOURS)
        story.me.wait(task, "done")
        if not number:
            story.me.http.put("/api/rules", json={"rules": [QUIET]})
    waits = story.ask(ROWS, name="Not yet enough of us", min_count=50)
    story.me.accept(waits)
    return story, story.ask(ROWS, name="Still open")


def test_every_page_can_be_used_by_everybody(
    lived_in: tuple[Neighbourhood, str], visit: Callable[..., Visitor]
) -> None:
    world, task = lived_in
    me = inside(world, visit)
    me.expected = {404}
    mine = [p["task_id"] for p in world.me.get("/api/participations") if p["state"] == "done"]
    examples = {"task_id": [task, *mine], "number": [0], "app_name": ["commute"], "table": ["rides"], "seen": ["x"]}
    for address in (*pages(me, put_on, **examples), "/tasks/none"):
        me.open(address)
        me.pictures("person-" + (address.strip("/").replace(task, "one").replace("/", "-") or "overview"))


def test_a_page_that_keeps_itself_fresh_says_when_nobody_answers(
    story: Neighbourhood, visit: Callable[..., Visitor]
) -> None:
    me = inside(story, visit)
    task = story.ask(MEDIAN, name="Asked while the lights went out")
    assert story.me.http.post(f"/api/tasks/{task}/accept", json={}).status_code < 300
    me.open("/accepted")
    me.page.route("**/moment/**", lambda request: request.abort())
    told = me.page.get_by_role("alert").filter(has_text="does not answer any more")
    told.wait_for()
    expect(me.page.locator("#gone")).to_have_count(1)
    me.page.unroute("**/moment/**")
    expect(told).to_have_count(0)
    wanted = ("net::ERR_FAILED", "Failed to fetch")
    me.troubles[:] = [trouble for trouble in me.troubles if not any(each in trouble for each in wanted)]
    assert story.me.http.post(f"/api/tasks/{task}/withdraw", json={}).status_code < 300


def test_the_coordinator_away_is_told_and_everything_else_works(
    chromium: Any, visit: Callable[..., Visitor], tmp_path: Path
) -> None:
    from processes import PersonProcess

    alone = PersonProcess(tmp_path / "home", f"http://127.0.0.1:{free_port()}", "--example")
    alone.ready()
    try:
        me = visit(alone.process.facts["address"])
        me.open(str(alone.process.facts["url"]))
        me.page.get_by_text("The coordinator does not answer just now.").first.wait_for()
        expect(me.page.get_by_role("link", name="profile")).to_be_visible()
        me.open("/tasks")
        expect(me.page.locator("main")).to_contain_text(
            "The coordinator does not answer just now.", use_inner_text=True
        )
        for address in ("/data", "/accepted", "/rules", "/privacy"):
            assert me.open(address).status == 200
            settled(me)
        me.page.get_by_text("End this home for good").click()
        me.page.fill("#confirm", "destroy everything")
        me.page.get_by_role("button", name="Destroy everything").click()
        me.page.get_by_role("heading", name="Everything is destroyed").wait_for()
        assert alone.process.ended() == 0
        assert list(alone.home.iterdir()) == []
    finally:
        alone.http.close()
