"""A page that stays open says what is so: in every state, within three seconds, without being loaded anew."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.support.browser import Visitor
from tests.support.open_home import OpenHome
from thebes.person.home import Person
from thebes.person.participation.participation import AFTER, ParticipationState
from thebes.web.person import states

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from test_person_rest import MEDIAN

pytestmark = pytest.mark.slow
SECONDS = 3.0
#: each way leads to an end; together they pass every state
WAYS = (
    ("declined", "reserved", "asked", "computed", "sending", "sent", "done"),
    ("reserved", "withdrawn"),
    ("reserved", "asked", "failed"),
    ("reserved", "computed", "closed"),
    ("reserved", "sending", "refused"),
)


@pytest.fixture(scope="module")
def home(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenHome]:
    made = OpenHome(tmp_path_factory.mktemp("home") / "me")
    yield made
    made.close()


@pytest.fixture
def new_home(chromium: Any, tmp_path: Path) -> Iterator[OpenHome]:
    """One that has spent nothing, and whose person has chosen no limits."""
    made = OpenHome(tmp_path / "me")
    made.me.set_settings({"task": None})
    yield made
    made.close()


def moved(me: Person, task: str, state: ParticipationState) -> None:
    """Bring a participation into a state in which it would stay for a moment only. Real work passes the same."""
    task_store = me._task_store
    while (at := task_store.participations(task_id=task)[-1]).state is not state:
        steps = (state,) if state in AFTER[at.state] else _between(at.state, state)
        task_store.move(at, steps[0])


def _between(at: ParticipationState, goal: ParticipationState) -> tuple[ParticipationState, ...]:
    line = [ParticipationState(s) for s in ("reserved", "asked", "computed", "sending", "sent")]
    assert goal is not at
    return tuple(line[line.index(at) + 1 :])


@pytest.mark.parametrize("way", WAYS, ids=lambda way: str(way[-1]))
def test_what_stands_there_is_what_the_interface_says(
    home: OpenHome, visit: Callable[..., Visitor], way: tuple[str, ...]
) -> None:
    task = home.server.post({**MEDIAN, "name": f"To be {way[-1]}"})
    pages = [visit(home.origin) for _ in range(2)]
    for me, address in zip(pages, (f"/tasks/{task}", "/accepted"), strict=True):
        me.open(home.front())
        me.open(address)
    looked, accepted = pages[0].page.locator(".standing"), pages[1].page.locator(f"#p-{task}-0")
    expect(looked.locator(".tag")).to_have_text(states.state("seen").word)
    for state in way:
        if state == "declined":
            home.me.decline(task)
        elif state == "reserved":
            home.me.accept(task)
        else:
            if state == "sending":
                claim = home.me._budget.claim(f"task {task} participation 0")
                assert claim is not None
                claim.consume()
            moved(home.me, task, ParticipationState(state))
        until = time.monotonic() + SECONDS
        told = home.me.task(task)
        assert told["state"] == state
        shown = states.state(state)
        places = [looked] if state == "declined" else [looked, accepted]
        for place in places:
            left = 1000 * max(0.05, until - time.monotonic())
            expect(place.locator(".tag")).to_have_text(shown.word, timeout=left)
            expect(place).to_contain_text(shown.sentence)
            expect(place).to_contain_text(shown.next)
        paid = "You paid 1" if told["paid"]["epsilon"] else "is set aside" if told["set_aside"]["epsilon"] else ""
        expect(looked).to_contain_text(paid, timeout=left)
        assert looked.get_by_role("button", name="Take it back").is_visible() is (state in states.BACK)
        assert ("It is not sent before 20" in looked.inner_text()) is (state == "computed")
        assert ("nothing has left yet" in looked.inner_text()) is (state in states.BACK[:3])
    for me in pages:
        me.picture(f"person-truth-{way[-1]}-{me.page.url.rsplit('/', 2)[1]}")


def test_the_page_of_a_task_goes_on_by_itself_and_keeps_the_place_of_who_reads(
    home: OpenHome, visit: Callable[..., Visitor]
) -> None:
    task = home.server.post({**MEDIAN, "name": "Watched"})
    me = visit(home.origin)
    me.open(home.front())
    me.open(f"/tasks/{task}")
    me.page.get_by_role("button", name="Accept").click()
    me.page.get_by_text("Agreed. Your machine does the rest").wait_for()
    home.me.turn()
    expect(me.page.locator(".standing .tag")).to_have_text("sent", timeout=1000 * SECONDS)
    expect(me.page.locator(".price p", has_text="You paid 1. ")).to_be_visible()
    assert me.page.evaluate("document.activeElement.textContent").startswith("Agreed.")


def test_a_stale_page_is_refused_in_words_before_anything_happens(
    home: OpenHome, visit: Callable[..., Visitor]
) -> None:
    task = home.server.post({**MEDIAN, "name": "Stale"})
    me = visit(home.origin)
    me.expected = {409}
    me.open(home.front())
    me.open(f"/tasks/{task}")
    me.page.get_by_role("button", name="Accept").click()
    button = me.page.get_by_role("button", name="Take it back")
    button.wait_for()
    me.page.route("**/moment/**", lambda request: request.fulfill(status=204))  # a page that was left asleep
    me.page.wait_for_load_state("networkidle")
    home.me.turn()
    button.click()
    me.page.locator(".standing .note.bad").wait_for()
    expect(me.page.locator(".standing .note.bad")).to_contain_text("It has left meanwhile", use_inner_text=True)
    assert home.me.task(task)["state"] == "sent"


def test_limits_are_chosen_before_the_first_yes_and_what_takes_more_is_asked_twice(
    new_home: OpenHome, visit: Callable[..., Visitor]
) -> None:
    home = new_home
    task = home.server.post({**MEDIAN, "name": "The first", "epsilon": 0.8, "delta": 0.0})
    me = visit(home.origin, viewport={"width": 390, "height": 844})
    me.open(home.front())
    me.page.get_by_role("link", name="choose your limits").wait_for()
    me.picture("person-limits-overview-390")
    me.open(f"/tasks/{task}")
    me.page.get_by_role("button", name="Accept, for epsilon 0.8").click()
    me.page.get_by_role("link", name="choose your limits").click()
    expect(me.page.locator("#odds")).to_contain_text("right at most 73.2 % of the time")
    me.picture("person-limits-390")
    me.page.get_by_label("One task, without a second question").fill("0.5")
    expect(me.page.locator("#odds")).to_contain_text("right at most 62.3 % of the time")
    me.page.get_by_label("One task, without a second question").fill("5")
    expect(me.page.locator("#odds")).to_contain_text("must be at least 5")
    me.page.get_by_label("One task, without a second question").fill("0.5")
    me.page.get_by_role("button", name="Use these limits").click()
    me.page.get_by_role("link", name="Back to the task").click()
    me.page.get_by_role("button", name="Accept, for epsilon 0.8").click()
    me.page.get_by_text("This takes epsilon 0.8; you said that one task may take 0.5").wait_for()
    assert me.page.evaluate("document.activeElement.textContent").startswith("This takes epsilon 0.8")
    me.picture("person-twice-390")
    assert home.me.task(task)["state"] == "seen"
    me.page.get_by_role("button", name="Yes, I am sure, for epsilon 0.8").click()
    me.page.get_by_text("Agreed. Your machine does the rest").wait_for()
    assert home.me.task(task)["state"] == "reserved"
    assert home.me.settings().as_json()["local"]["year_epsilon"] == 12.0


ALOUD = {
    "seen": """
- region "Your decision":
  - heading "Your decision" [level=2]
  - form "Your decision about How old are we?":
    - paragraph: >-
        undecided. You have not decided. Nothing is set aside and nothing has left. Say yes or no; as long as you say
        nothing, nothing happens.
    - status
    - button "Accept, for epsilon 1"
    - button "Decline"
- region "What it costs":
  - heading "What it costs" [level=2]
  - paragraph:
    - text: "1"
    - link "epsilon"
    - text: ", a moderate price"
  - img "Of a budget of epsilon 30, 0 is gone, this task would take 1"
  - paragraph: /^3.4 % of the 30 you have left for servers that you trust in the 30 days until .*[.]$/
  - paragraph: /^Somebody who has to guess, .* 73.2 % of the time after seeing the answer[.]/
""",
    "declined": """
- region "Your decision":
  - heading "Your decision" [level=2]
  - form "Your decision about How old are we?":
    - paragraph: declined. You said no. Nothing left. You may still say yes while the task is open.
    - status
    - button "Accept, for epsilon 1"
""",
    "reserved": """
- region "Your decision":
  - heading "Your decision" [level=2]
  - form "Your decision about How old are we?":
    - paragraph: >-
        agreed. You agreed. The price is set aside; nothing has left yet. Your machine asks by itself what is wanted.
        Until it is sent you may take it back, and pay nothing.
    - status
    - button "Take it back"
    - link "Where it stands"
- region "What it cost":
  - heading "What it cost" [level=2]
  - paragraph: /^1 is set aside, and paid when it leaves. In .* you have 29 of 30 left for servers that you trust[.]$/
  - img "Of a budget of epsilon 30, 0 is gone and 1 is set aside for this task"
""",
    "sent": """
- region "Your decision":
  - heading "Your decision" [level=2]
  - form "Your decision about How old are we?":
    - paragraph: sent. Your contribution arrived. The answer comes here by itself, when enough people took part.
    - status
    - button "Take it back"
    - link "Where it stands"
- region "What it cost":
  - heading "What it cost" [level=2]
  - paragraph: /^You paid 1. In the 30 days until .* you have 29 of 30 left for servers that you trust[.]$/
  - img "Of a budget of epsilon 30, 1 is gone and 0 is set aside for this task"
""",
}  #: what somebody hears of a task, in the order in which it is read


def test_the_page_of_a_task_read_aloud_is_sentences(new_home: OpenHome, visit: Callable[..., Visitor]) -> None:
    said = {"name": "How old are we?", "purpose": "To plan benches.", "contact": "Write to ana.", "delta": 0.0}
    task = new_home.server.post({**MEDIAN, **said, "expires_at": "2031-01-31T12:00:00+00:00"})
    me = visit(new_home.origin)
    me.open(new_home.front())
    me.open(f"/tasks/{task}")
    me.page.get_by_text("The plain truth").wait_for()
    ways = {"declined": new_home.me.decline, "reserved": new_home.me.accept, "sent": lambda _: new_home.me.turn()}
    for state, heard in ALOUD.items():
        if state in ways:
            ways[state](task)
        expect(me.page.locator(".standing")).to_match_aria_snapshot(heard)
        whole = me.page.locator("main").aria_snapshot()
        for line in re.findall(r'- paragraph: "?(.+?)"?$', whole, re.MULTILINE):
            assert line[-1] in ".?!" or line == "basic. you trust a server. asked by ana", line
        assert "T12:00:00" not in whole.partition("The document")[0]  # moments are told as people tell them


def test_the_decision_stands_on_the_first_screen_of_a_telephone(home: OpenHome, visit: Callable[..., Visitor]) -> None:
    purpose = "The town would like to know how old we are in the middle, to plan where benches are put up."
    said = {"purpose": purpose, "contact": "ana@example.org", "expires_at": "2031-01-31T12:00:00+00:00"}
    task = home.server.post({**MEDIAN, "name": "How old are we, in the middle of us all?", **said})
    me = visit(home.origin, viewport={"width": 390, "height": 844})
    me.open(home.front())
    me.open(f"/tasks/{task}")
    for name in ("Accept, for epsilon 1", "Decline"):
        box = me.page.get_by_role("button", name=name).bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 844
    me.picture("person-decision-390")
    for path in ("/favicon.ico", "/static/thebes.svg"):
        assert me.page.request.get(home.origin + path).status == 200


def test_a_refusal_stays_when_the_page_keeps_itself_fresh(home: OpenHome, visit: Callable[..., Visitor]) -> None:
    task = home.server.post({**MEDIAN, "name": "Capped meanwhile"})
    who = home.me.task(task)["requestor"]
    for address in ("/tasks", f"/tasks/{task}"):
        home.me.set_settings({"caps": {}})
        me = visit(home.origin)
        me.expected = {402}
        me.open(home.front())
        me.open(address)
        standing = me.page.locator(f"#standing-{task}")
        standing.get_by_role("button", name="Accept").wait_for()
        home.me.set_settings({"caps": {who: {"epsilon": 0.1}}})
        standing.get_by_role("button", name="Accept").click()
        expect(standing.locator(".outcome .note.bad")).to_contain_text("Your budget does not allow it")
        expect(standing).to_contain_text("You cannot accept it", timeout=1000 * SECONDS)  # the page came anew
        home.me.decline(home.server.post({**MEDIAN, "name": f"Other {address}"}))
        me.page.wait_for_timeout(2000)
        expect(standing.locator(".outcome .note.bad")).to_contain_text("Your budget does not allow it")
        me.picture(f"person-refusal-stays-{address.count('/')}")
    home.me.set_settings({"caps": {}})


def test_the_page_of_a_task_shows_its_answer_when_it_comes(home: OpenHome, visit: Callable[..., Visitor]) -> None:
    task = home.server.post({**MEDIAN, "name": "Answered while looked at"})
    me = visit(home.origin)
    me.open(home.front())
    me.open(f"/tasks/{task}")
    came = me.page.locator(f"#came-{task}")
    expect(came).to_contain_text("of the 20 an answer needs")
    home.me.accept(task)
    claim = home.me._budget.claim(f"task {task} participation 0")
    assert claim is not None
    claim.consume()
    moved(home.me, task, ParticipationState("sent"))
    task_store = home.me._task_store
    task_store.move(task_store.participations(task_id=task)[-1], ParticipationState.DONE, result={"value": None})
    expect(came.get_by_role("heading", name="The answer")).to_be_visible(timeout=1000 * SECONDS)
    expect(came).not_to_contain_text("an answer needs")
