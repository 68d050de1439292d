"""The whole story of a requestor in a real browser: sign in, compose, rehearse, put up, watch it fill, take it home."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

import thebes
from thebes.wire import task_log

sys.path.insert(0, str(Path(__file__).parents[1] / "scenarios"))
from processes import PATIENCE, coordinator

from tests.support.browser import PHONE, Visitor
from tests.support.command import exit_status
from tests.support.coordinator import AGES, PETS
from tests.support.every_page import pages
from tests.support.model_bundle import BUNDLE
from thebes.coordinator.auth.accounts import SHORTEST_PASSWORD
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.people.groups import ContributorGroups
from thebes.coordinator.storage.database import Database
from thebes.curator.pipelines.bundles import Bundles
from thebes.person.home import Person
from thebes.simulation import example
from thebes.web.coordinator.pages import put_on

pytestmark = pytest.mark.slow
PEOPLE = 17  #: eleven who vote, and six who search for the bins
PASSWORD = "correct horse battery"
SCHEMA = {
    "app": "profile",
    "tables": {
        "demographics": {
            "description": "What people say about themselves",
            "columns": {
                "age": {"type": "float", "description": "in years"},
                "income": {"type": "float", "description": "thousands a year"},
                "gender": {"type": "string", "description": ""},
            },
        },
        "example": {
            "description": "Two numbers and a side",
            "columns": {
                "x0": {"type": "float", "description": ""},
                "x1": {"type": "float", "description": ""},
                "y": {"type": "integer", "description": "0 or 1"},
            },
        },
        "pets": {"description": "", "columns": {"species": {"type": "string", "description": "of the first pet"}}},
    },
}
CLASSES: dict[str, Any] = {
    "type": "integrated",
    "epsilon": 20.0,
    "name": "Which side of the line",
    "featurizer": "SELECT x0, x1, y FROM profile.example",
    "model": "GaussianNB",
    "inputs": ["x0", "x1"],
    "output": "y",
    "bounds": {
        **{name: {"type": "range", "low": -3, "high": 3} for name in ("x0", "x1")},
        "y": {"type": "set", "values": [0, 1]},
    },
    "min_count": PEOPLE,
}
BARS = {
    **AGES,
    "name": "How old, in steps of twenty years",
    "purpose": "A picture for the town's newspaper.",
    "epsilon": 3.0,
    "aggregator": "histogram",
    "bins": 6,
    "min_count": PEOPLE,
}


PACKETS: dict[str, Any] = {
    "type": "ensemble",
    "epsilon": 20.0,
    "name": "Which side, from packets",
    "featurizer": "SELECT x0, x1, y FROM profile.example",
    "label": "y",
    "bounds": CLASSES["bounds"],
    "bins": {"x0": [-0.5, 0.5], "x1": [0]},
    "partitions": 1,
    "group": "town",
    "anonymity": "token",
    "min_count": PEOPLE,
}


class Town:
    """A coordinator process, its operator's token, and people who answer over HTTP."""

    def __init__(self, folder: Path) -> None:
        self.process = coordinator(folder / "coordinator")
        self.url = str(self.process.ready()["url"])
        self.token = (folder / "coordinator" / "admin.token").read_text().strip()
        self.server = thebes.connect(self.url, token=self.token, timeout=PATIENCE)
        home = str(folder / "coordinator")
        add = [sys.executable, "-m", "thebes.cli.main", "user", "add", "ana", "--role", "requestor", "--home", home]
        subprocess.run([*add, "--password-stdin"], input=PASSWORD, text=True, check=True, capture_output=True)
        Bundles(folder / "coordinator" / "models").publish("speed", BUNDLE, origin="a/1")
        headers = {"Authorization": f"Bearer {self.token}"}
        assert httpx.post(f"{self.url}/api/schema", json=SCHEMA, headers=headers).status_code == 201
        self.people = [self._person(folder / f"person-{number}", number) for number in range(PEOPLE)]
        self._gather(CoordinatorHome(folder / "coordinator"))

    def _person(self, home: Path, number: int) -> Person:
        person = Person(home, coordinator=self.url, delay=False)
        example.fill(person, seed=number)
        person.set_settings({trust: {"epsilon": 200.0, "overall_epsilon": 1000.0} for trust in ("local", "trusted")})
        return person

    def _gather(self, home: CoordinatorHome) -> None:
        """A published group of all of them."""
        database = Database(home.store)
        register = ContributorGroups(database, home, SystemClock())
        register.create("town", minimum=10, epoch="one")
        names = [f"citizen {number}" for number in range(PEOPLE)]
        codes = register.admit("town", names)
        for person, name in zip(self.people, names, strict=True):
            person.enrol("town", codes[name])
        register.publish("town")
        database.close()

    def answer(self, task_id: str, first: int = 0, end: int = PEOPLE) -> None:
        """Some of the people contribute."""

        def one(person: Person) -> None:
            person.accept(task_id)
            person.wait(task_id, timeout=PATIENCE)

        with ThreadPoolExecutor(4) as crowd:
            list(crowd.map(one, self.people[first:end]))

    def close(self) -> int:
        for person in self.people:
            person.close()
        self.server.close()
        return self.process.stop()


@pytest.fixture(scope="module")
def town(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    made = Town(tmp_path_factory.mktemp("town"))
    yield made
    assert made.close() == 0


def signed_in(town: Town, visit: Callable[..., Visitor], **look: Any) -> Visitor:
    """The operator, by the token."""
    visitor = visit(town.url, **look)
    visitor.open("/sign-in")
    visitor.page.get_by_text("Or paste a token").click()
    visitor.page.fill("#token", town.token)
    visitor.page.get_by_role("button", name="Sign in").click()
    visitor.page.get_by_role("button", name="Sign out").wait_for()
    return visitor


def test_an_operator_lets_somebody_in_and_publishes_a_schema(town: Town, visit: Callable[..., Visitor]) -> None:
    operator = signed_in(town, visit)
    page = operator.page
    page.get_by_role("link", name="Users").click()
    page.fill("#name", "ben")
    page.fill("#password", PASSWORD)
    page.get_by_role("button", name="Add").click()
    page.get_by_text("ben may sign in now.").wait_for()
    assert page.evaluate("document.activeElement.textContent") == "ben may sign in now."
    assert page.input_value("#password") == page.input_value("#name") == ""
    page.get_by_label("Role of ben").select_option("auditor")
    page.get_by_role("button", name="Grant ben").click()
    page.get_by_text("ben is auditor now.").wait_for()
    page.get_by_role("button", name="Disable ben").click()
    page.locator(".tag", has_text="disabled").wait_for()
    page.get_by_label("Role of ben").select_option("requestor")
    page.get_by_role("button", name="Let in again ben").click()
    page.get_by_text("ben is requestor now.").wait_for()
    operator.picture("coordinator-users")

    tables = {"rides": {"description": "Rides to work", "columns": {"km": {"type": "float", "description": "how far"}}}}
    page.get_by_role("link", name="Schemas").click()
    page.fill("#app", "trips")
    page.fill("#tables", "{'not': 'JSON'}")
    page.get_by_role("button", name="Publish").click()
    page.get_by_text("tables: is not JSON (line 1").wait_for()
    page.fill("#tables", json.dumps(tables))
    page.get_by_role("button", name="Publish").click()
    page.get_by_text("trips is published in version 1.").wait_for()
    page.get_by_role("heading", name="trips.rides").wait_for()
    operator.picture("coordinator-schemas")


def test_a_requestor_composes_rehearses_asks_and_takes_the_answer_home(
    town: Town, visit: Callable[..., Visitor], tmp_path: Path
) -> None:
    me = visit(town.url)
    page = me.page
    me.open("/ask")
    page.locator("#verdict .problems").wait_for()
    page.get_by_role("link", name="sign in", exact=True).click()
    page.fill("#username", "ana")
    page.fill("#password", "wrong" * SHORTEST_PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("There is no such user with this password").wait_for()
    page.fill("#password", PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/ask")
    page.get_by_text("ana").first.wait_for()

    page.get_by_role("checkbox", name="age").check()
    page.locator("#bound-0-low").wait_for()
    expect(page.locator("#featurizer")).to_have_value("SELECT age FROM profile.demographics")
    page.fill("#bound-0-low", "0")
    page.fill("#bound-0-high", "ten")
    page.fill("#epsilon", "10")
    page.get_by_text("must be a number").wait_for()
    expect(page.get_by_role("button", name="Put it up")).to_have_count(0)
    me.picture("coordinator-ask-problem")
    page.fill("#bound-0-high", "120")
    page.fill("#min_count", str(PEOPLE))
    page.fill("#name", "How old we are")
    page.fill("#purpose", "To plan bus lines for the <b>north</b> of the town.")
    page.get_by_text("This can be put up.").wait_for()
    expect(page.locator("#verdict .plain")).to_contain_text("How old we are")

    page.get_by_role("button", name="Rehearse").click()
    told = page.locator(".rehearsal strong")
    told.first.wait_for()
    assert told.first.inner_text() == "95 of 100"
    width = float(told.nth(1).inner_text().removeprefix("± "))
    assert 0 < width < 120
    expect(page.locator(".rehearsal")).to_contain_text("made up", use_inner_text=True)
    me.picture("coordinator-ask")

    page.get_by_role("button", name="Over epsilon").click()
    page.get_by_role("radio", name="epsilon 10:").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#chosen input:checked")).to_have_value("20.0")
    me.picture("coordinator-ask-curve")
    page.get_by_role("button", name="Put this epsilon into the form").click()
    expect(page.locator("#epsilon")).to_have_value("20")
    page.get_by_text("This can be put up.").wait_for()
    page.get_by_text("Take it along").click()
    expect(page.locator("#copy-1")).to_contain_text("'epsilon': 20")
    me.picture("coordinator-ask-copied")
    page.fill("#epsilon", "10")
    page.get_by_text("This can be put up.").wait_for()
    expect(page.locator("#copy-1")).to_contain_text("'epsilon': 10")

    page.get_by_role("button", name="Put it up").click()
    page.wait_for_url(re.compile(r"/task/[0-9a-f]{32}$"))
    task_id = page.url.rsplit("/", 1)[1]
    page.get_by_role("heading", name="How old we are", level=1).wait_for()
    expect(page.locator("progress")).to_have_attribute("value", "0")
    town.answer(task_id, end=9)
    expect(page.locator("progress")).to_have_attribute("value", "9")  # nobody touched the page
    me.picture("coordinator-task-filling")
    town.answer(task_id, first=9)
    page.locator("#answer").wait_for()
    assert page.locator("#standing svg").count() >= 1
    expect(page.locator("progress")).to_have_count(0)
    expect(page.locator("#result")).not_to_contain_text(
        "Nobody", use_inner_text=True
    )  # its certificate names whom to trust
    me.picture("coordinator-result")

    release = town.server.task(task_id).wait(timeout=120)
    assert float(page.inner_text("#answer").replace(" ", "")) == pytest.approx(release.value, rel=1e-4)
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download the release (JSON)").click()
    assert waiting.value.suggested_filename == f"thebes-{task_id[:8]}-release.json"
    assert json.loads(Path(waiting.value.path()).read_text(encoding="utf-8"))["value"] == release.value
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download, signed").click()
    assert waiting.value.suggested_filename == f"thebes-{task_id[:8]}-record.json"
    listed = tmp_path / "list.json"
    log = town.server.client.log()
    listed.write_text(json.dumps(log))
    key = task_log.fingerprint(str(log["key"]))
    assert exit_status("verify", str(waiting.value.path()), "--list", str(listed), "--key", key) == 0
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download the numbers (CSV)").click()
    table = list(csv.reader(io.StringIO(Path(waiting.value.path()).read_text(encoding="utf-8"))))
    assert table[0] == ["level", "value", "low", "high"]
    assert float(table[1][1]) == release.value

    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Sign in").wait_for()
    me.open(f"/task/{task_id}")
    expect(page.locator("#answer")).to_be_visible()  # who may see a task may read its release


def test_nothing_is_rehearsed_or_put_up_but_what_was_checked_and_shown(
    town: Town, visit: Callable[..., Visitor]
) -> None:
    me = signed_in(town, visit)
    page = me.page
    me.open("/ask")
    page.get_by_role("checkbox", name="age").check()
    page.locator("#bound-0-low").wait_for()
    page.fill("#bound-0-low", "0")
    page.fill("#bound-0-high", "120")
    page.fill("#min_count", str(PEOPLE))
    page.get_by_text("This can be put up.").wait_for()

    def slowly(route: Any) -> None:
        time.sleep(1.0)
        route.continue_()

    page.route("**/ask/check", slowly)
    page.fill("#purpose", "Said just before the button was pressed.")
    expect(page.locator("#verdict[inert]")).to_have_count(1)  # what stands there is of another question
    page.get_by_role("button", name="Rehearse").click()
    expect(page.locator("#verdict .plain")).to_contain_text("just before the button")
    page.locator(".rehearsal strong").first.wait_for()
    expect(page.locator("#verdict[inert]")).to_have_count(0)

    page.route("**/ask/check", lambda route: route.abort())
    page.fill("#purpose", "Nobody checks this.")
    page.wait_for_timeout(1000)
    expect(page.locator("#verdict[inert]")).to_have_count(1)
    page.unroute("**/ask/check")
    page.fill("#purpose", "Somebody checks this again.")
    expect(page.locator("#verdict .plain")).to_contain_text("Somebody checks this again.")
    expect(page.locator("#verdict[inert]")).to_have_count(0)
    me.troubles.clear()


def test_what_is_composed_outlasts_a_reload_and_a_sign_in_until_it_is_put_up(
    town: Town, visit: Callable[..., Visitor]
) -> None:
    me = visit(town.url)
    page = me.page
    me.open("/ask")
    page.locator("#verdict .problems").wait_for()
    expect(page.locator("#again")).to_be_hidden()
    page.get_by_role("checkbox", name="age").check()
    page.fill("#bound-0-low", "0")
    page.fill("#bound-0-high", "120")
    page.fill("#min_count", str(PEOPLE))
    page.fill("#purpose", 'Kept "as typed"')
    page.reload()
    page.locator("#again").wait_for()
    expect(page.locator("#purpose")).to_have_value('Kept "as typed"')
    expect(page.locator("#bound-0-high")).to_have_value("120")
    page.get_by_role("link", name="sign in", exact=True).click()
    page.fill("#username", "ana")
    page.fill("#password", PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.locator("#again").wait_for()
    page.get_by_text("This can be put up.").wait_for()
    me.picture("coordinator-ask-again")
    page.fill("#name", "Kept")
    page.get_by_label("JSON (for experts)").check()
    page.locator("#raw").wait_for()
    page.locator("#raw").fill(page.input_value("#raw").replace("Kept", "Changed"))
    page.reload()
    page.locator("#raw").wait_for()
    assert '"name": "Changed"' in page.input_value("#raw")
    page.get_by_role("button", name="Put it up").click()
    page.wait_for_url(re.compile(r"/task/[0-9a-f]{32}$"))
    task_id = page.url.rsplit("/", 1)[1]
    assert town.server.task(task_id).document["purpose"] == 'Changed "as typed"'
    me.open("/ask")
    page.locator("#verdict .problems").wait_for()
    assert page.locator("#again").is_hidden()
    expect(page.locator("#purpose")).to_have_value("")
    page.fill("#purpose", "Not worth it")
    page.reload()
    page.get_by_role("button", name="Begin anew").click()
    page.locator("#again").wait_for(state="hidden")
    expect(page.locator("#purpose")).to_have_value("")
    town.server.task(task_id).cancel()


def test_who_asked_cancels_after_being_asked_whether_they_are_sure(town: Town, visit: Callable[..., Visitor]) -> None:
    me = signed_in(town, visit)
    task_id = str(town.server.submit({**PETS, "name": "To be cancelled"}).task_id)
    me.open("/")
    me.page.get_by_role("link", name="To be cancelled").click()
    me.page.get_by_text("Cancel this task").click()
    me.page.wait_for_timeout(2500)  # the page asks again meanwhile; what was unfolded stays so
    me.picture("coordinator-cancel")
    me.page.get_by_role("button", name="Yes, cancel it").click()
    me.page.get_by_text("Cancelled; nothing more will be released.").wait_for()
    assert town.server.task(task_id).status == "cancelled"
    me.page.get_by_role("link", name="Ended").click()
    assert me.page.get_by_role("row", name="To be cancelled").locator(".tag").inner_text() == "cancelled"


def test_an_expert_goes_from_form_to_json_and_back_and_loses_nothing(town: Town, visit: Callable[..., Visitor]) -> None:
    me = signed_in(town, visit)
    page = me.page
    me.open("/ask")
    page.locator("#verdict .problems").wait_for()
    page.fill("#name", "From the form")
    page.select_option("#kind", "bounded")
    page.get_by_text("One row from each person").wait_for()
    expect(page.locator("#name")).to_have_value("From the form")
    page.select_option("#table", "profile.pets")
    page.get_by_role("checkbox", name="species").check()
    page.locator("#bound-0-values").fill("cat, dog")
    page.get_by_text("This can be put up.").wait_for()
    page.get_by_label("JSON (for experts)").check()
    raw = page.locator("#raw")
    raw.wait_for()
    document = json.loads(raw.input_value())
    assert document["bounds"] == {"species": {"type": "set", "values": ["cat", "dog"]}}
    raw.fill("{")
    page.get_by_text("is not JSON (line 1, column 2)").wait_for()
    raw.fill(json.dumps({**document, "epsilon": 2.5, "diagnostics": 0.1}, indent=1))
    page.get_by_text("This can be put up.").wait_for()
    me.picture("coordinator-ask-json")
    page.get_by_label("the form").check()
    page.locator("#diagnostics").wait_for()  # among what is for experts, and open because something stands there
    expect(page.locator("#diagnostics")).to_have_value("0.1")
    expect(page.locator("#epsilon")).to_have_value("2.5")
    expect(page.locator("#name")).to_have_value("From the form")
    page.locator("#featurizer").fill("SELECT lower(species) AS animal FROM profile.pets")
    page.keyboard.press("Tab")
    page.get_by_role("group", name="Bounds of animal").wait_for()
    expect(page.locator("#fields")).to_contain_text("written by hand", use_inner_text=True)


def test_what_is_typed_while_an_answer_is_on_its_way_stays(town: Town, visit: Callable[..., Visitor]) -> None:
    me = visit(town.url)
    page = me.page
    me.open("/ask")
    page.locator("#verdict .problems").wait_for()
    waiting: list[Any] = []
    page.route("**/ask/fields", lambda route: waiting.append(route))
    page.get_by_role("checkbox", name="age").check()
    page.fill("#name", "typed meanwhile")
    page.fill("#epsilon", "0.25")
    page.get_by_label("JSON (for experts)").focus()
    expect(page.locator("#bound-0-low")).to_have_count(0)
    while not waiting:
        page.wait_for_timeout(50)
    page.wait_for_timeout(300)
    assert len(waiting) == 1
    waiting[0].continue_()
    page.unroute("**/ask/fields")
    page.locator("#bound-0-low").wait_for()
    expect(page.locator("#name")).to_have_value("typed meanwhile")
    expect(page.locator("#epsilon")).to_have_value("0.25")
    page.fill("#bound-0-low", "0")  # its change, and then the change to JSON: the last word counts
    page.get_by_label("JSON (for experts)").check()
    page.locator("#raw").wait_for()
    page.wait_for_timeout(1500)
    assert json.loads(page.locator("#raw").input_value())["epsilon"] == 0.25


def test_an_ensemble_is_composed_for_a_group_rehearsed_and_answered_with_tokens(
    town: Town, visit: Callable[..., Visitor]
) -> None:
    me = signed_in(town, visit)
    page = me.page
    me.open("/ask")
    page.locator("#verdict .problems").wait_for()
    page.select_option("#kind", "ensemble")
    page.get_by_text("learned from packets of few columns each").wait_for()
    page.select_option("#table", "profile.example")
    for column in ("x0", "x1", "y"):
        page.get_by_role("checkbox", name=column).check()
        page.get_by_role("group", name=f"Bounds of {column}").wait_for()
    page.select_option("#label", "y")
    for place in "01":
        page.fill(f"#bound-{place}-low", "-3")
        page.fill(f"#bound-{place}-high", "3")
    page.select_option("#bound-2-kind", "set")
    page.fill("#bound-2-values", "0, 1")
    page.get_by_text("This can be put up").wait_for()
    page.fill("#bins", "x0 = -0.5, a half\nx1 = 0")
    page.get_by_text("numbers with commas between them").first.wait_for()
    page.locator("#verdict .problems a").click()
    assert page.evaluate("document.activeElement.id || location.hash.slice(1)") == "bins"
    me.picture("coordinator-ensemble-problem")
    page.fill("#bins", "x0 = -0.5, 0.5\nx1 = 0")
    page.fill("#epsilon", "20")
    page.select_option("#method", "odds")
    page.locator("#partitions:not([type=hidden])").wait_for(state="detached")
    page.fill("#feature_subsets", "x0, x1")
    page.fill("#min_count", str(PEOPLE - 3))
    page.fill("#name", "Which side we are on")
    page.select_option("#group", "town/one")
    page.get_by_text("token of the group town").wait_for()
    page.get_by_role("button", name="Rehearse").click()
    told = page.locator(".rehearsal strong")
    told.nth(1).wait_for()
    assert 40 <= float(told.nth(1).inner_text().removesuffix(" %")) <= 100
    expect(page.locator(".rehearsal")).to_contain_text("guessing gets 50 %", use_inner_text=True)
    me.picture("coordinator-ensemble")
    page.get_by_role("button", name="Put it up").click()
    page.wait_for_url(re.compile(r"/task/[0-9a-f]{32}$"))
    task_id = page.url.rsplit("/", 1)[1]
    asked = town.server.task(task_id).document
    assert (asked["group"], asked["epoch"], asked["anonymity"]) == ("town", "one", "token")
    assert (asked["bins"], asked["feature_subsets"]) == ({"x0": [-0.5, 0.5], "x1": [0.0]}, [["x0", "x1"]])
    town.answer(task_id, end=PEOPLE - 3)
    page.get_by_role("heading", name="Certificate").wait_for()
    expect(page.locator("#result")).to_contain_text(f"hidden among the {PEOPLE} members of the group town")
    me.picture("coordinator-ensemble-result")


def test_the_keyboard_composes_an_ensemble_on_a_telephone(town: Town, visit: Callable[..., Visitor]) -> None:
    me = signed_in(town, visit, viewport=PHONE)
    page = me.page
    me.open("/ask")
    page.locator("#verdict .problems").wait_for()

    def choose(where: str, letters: str) -> None:
        me.tab_to(page.locator(where))
        page.keyboard.type(letters)

    choose("#kind", "An e")
    page.locator("#feature_subsets").wait_for()
    assert page.evaluate("document.activeElement.id") == "kind"  # the focus stays where it was
    choose("#feature_subsets", "age")
    choose("#bins", "4")
    for column in ("age", "gender"):
        me.tab_to(page.locator(f"[value={column}]"))
        page.keyboard.press("Space")
        page.get_by_role("group", name=f"Bounds of {column}").wait_for()
    choose("#label", "gender")
    choose("#bound-0-low", "0")
    choose("#bound-0-high", "120")
    choose("#bound-1-values", "Female, Male")
    choose("#min_count", "11")  # which replaces what stood there
    choose("#group", "town")
    page.get_by_text("token of the group town").wait_for()
    page.get_by_text("This can be put up").wait_for()
    expect(page.locator("#group")).to_have_value("town/one")
    me.tab_to(page.locator("#put-up"))
    me.picture("coordinator-ensemble-phone")


def test_the_keyboard_composes_a_question(town: Town, visit: Callable[..., Visitor]) -> None:
    me = signed_in(town, visit)
    page = me.page
    me.open("/ask")
    page.locator("#verdict .problems").wait_for()

    def go_to(where: str) -> None:
        me.tab_to(page.locator(where))

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
    page.keyboard.press("Enter")
    go_to("[value=age]")
    page.keyboard.press("Space")
    page.locator("#bound-0-low").wait_for()
    assert page.evaluate("document.activeElement.value") == "age"  # the focus stays where it was
    go_to("#bound-0-low")
    page.keyboard.type("0")
    go_to("#bound-0-high")
    page.keyboard.type("120")
    go_to("#name")
    page.keyboard.type("By keyboard")
    page.keyboard.press("Enter")  # which puts nothing up
    go_to("#purpose")
    page.keyboard.type("To see")
    page.get_by_text("This can be put up.").wait_for()
    assert "/ask" in page.url
    go_to("#put-up")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="By keyboard", level=1).wait_for()
    go_to("#cancel summary")
    page.keyboard.press("Enter")
    go_to("#cancel button")
    page.keyboard.press("Enter")
    page.get_by_text("Cancelled; nothing more will be released.").wait_for()


@pytest.fixture(scope="module")
def answered(town: Town) -> dict[str, str]:
    """A task of every drawing, and one that waits."""
    found = {}
    rows = {**PETS, "min_count": PEOPLE}
    for name, document in (("histogram", BARS), ("model", CLASSES), ("rows", rows), ("ensemble", PACKETS)):
        found[name] = str(town.server.submit(document).task_id)
        town.answer(found[name])
        town.server.task(found[name]).wait(timeout=120)
    found["open"] = str(town.server.submit({**PETS, "name": "Which animals live with us", "min_count": 40}).task_id)
    town.answer(found["open"])
    return found


def test_every_page_can_be_used_by_everybody(
    town: Town, answered: dict[str, str], visit: Callable[..., Visitor]
) -> None:
    names = {task_id: name for name, task_id in answered.items()}

    def called(address: str) -> str:
        place = re.sub(r"[0-9a-f]{32}", lambda task: names[task[0]], address.strip("/"))
        return re.sub(r"\W+", "-", place) or "tasks"

    stranger, ana, operator = (
        visit(town.url),
        visit(town.url, color_scheme="dark", viewport=PHONE),
        signed_in(town, visit),
    )
    ana.open("/sign-in")
    ana.page.fill("#username", "ana")
    ana.page.fill("#password", PASSWORD)
    ana.page.get_by_role("button", name="Sign in").click()
    ana.page.get_by_role("button", name="Sign out").wait_for()
    examples = {"task_id": answered.values(), "name": ["speed"]}
    like = [f"/ask?like={answered[name]}" for name in ("model", "ensemble")]
    seen = pages(operator, put_on, **examples)
    for role, me in (("stranger", stranger), ("requestor", ana), ("operator", operator)):
        me.expected = {401, 403, 404}
        for address in (*seen, *like, "/task/none"):
            me.open(address)
            if address.startswith("/ask"):
                me.page.locator("#verdict [role=status]").wait_for()
            look = me.pictures if me is operator else me.picture
            look(f"{role}-{called(address)}")
