"""First steps: an empty home opens with them, and a decision is a few clicks away; who runs the coordinator is said."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.coordinator import Front
from thebes.person.home import Person
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import NotFound

sys.path.insert(0, str(Path(__file__).parent))
from test_person_pages import MEDIAN, PARTIAL, harmless, refused
from test_person_rest import URL, World

TYPED = {"age": 41, "gender": "female", "city": " Thebes "}


@pytest.fixture
def world(tmp_path: Path) -> Any:
    made = World(tmp_path / "home", filled=False)
    yield made
    made.me.close()


def opened(world: World) -> str:
    """Return where a browser is sent that comes in."""
    address = world.http.post("/api/session", json={}).json()["url"].removeprefix(URL)
    return str(world.http.get(address).headers["location"])


def test_an_empty_home_opens_with_first_steps_and_a_used_one_does_not(world: World) -> None:
    assert opened(world) == "/welcome"
    world.http.post("/welcome/data", json=TYPED, headers=PARTIAL)
    assert opened(world) == "/"


def test_from_an_empty_home_to_a_decision(world: World) -> None:
    task = world.server.post({**MEDIAN, "delta": 0.0})
    page = harmless(world.http.get("/welcome"))
    for said in ("What this is", "Your data", "Your limits", "fingerprint", "The first question"):
        assert said in page
    assert "the town" in harmless(world.http.get("/operator"))
    clicks = 0
    assert "Nobody was told" in harmless(world.http.post("/welcome/data", json=TYPED, headers=PARTIAL))
    assert world.me.newest("profile", "demographics") == [
        {"age": 41.0, "gender": "female", "education": None, "city": "Thebes"}
    ]
    clicks += 1 + len(TYPED)  # a field is clicked into before something is typed
    limits = {"task": 1, "period": 3, "year": 12, "overall": 36}
    assert "hold from now on" in harmless(world.http.post("/limits", json=limits, headers=PARTIAL))
    clicks += 1
    assert f"/tasks/{task}" in harmless(world.http.get("/waiting"))
    clicks += 1
    agreed = world.http.post(f"/tasks/{task}/decide", json={"decision": "accept"}, headers=PARTIAL)
    assert "Agreed." in harmless(agreed)
    clicks += 1
    assert clicks <= 12


def test_what_is_typed_is_checked_and_never_typed_over_something_else(world: World) -> None:
    assert "is empty" in refused(world, "/welcome/data", {}, 422)
    for wrong in (-1, 151, "much", True):
        assert "number of years" in refused(world, "/welcome/data", {"age": wrong}, 422)
    assert world.me.store() == []
    world.http.post("/welcome/data", json=TYPED, headers=PARTIAL)
    assert "lies here already" in refused(world, "/welcome/data", TYPED, 409)


def test_a_coordinator_says_who_runs_it_as_its_operator_set_it(tmp_path: Path) -> None:
    home = tmp_path / "town"
    home.mkdir(mode=0o700)
    (home / "coordinator.toml").write_text('operator = "The town of Thebes"\ncontact = "clerk@thebes.example"\n')
    with Front(home) as front:
        said = {"operator": "The town of Thebes", "contact": "clerk@thebes.example"}
        assert front.client.get("/api/about").json() == {**said, "require_purpose": False, "min_count_floor": 11}
        client = CoordinatorClient("https://test", transport=front.transport)
        with Person(tmp_path / "me", client=client, delay=False) as me:
            assert me.about_coordinator() == said


def test_a_coordinator_that_says_nothing_of_itself_is_said_to(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def earlier() -> dict[str, Any]:
        raise NotFound("there is nothing at this address")

    monkeypatch.setattr(world.server, "about", earlier)
    assert world.me.about_coordinator() == {"operator": None, "contact": None}
    assert "does not say who runs it" in harmless(world.http.get("/operator"))


def test_a_hostile_operator_s_words_stay_words(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.server, "about", lambda: {"operator": "<script>x</script>\u202e", "contact": ["a"]})
    page = harmless(world.http.get("/operator"))
    assert "&lt;script&gt;" in page
    assert "not said" in page


def test_the_coordinator_is_asked_once_who_runs_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(world.server, "before", asked.append)
    for _ in range(3):
        assert isinstance(world.http.get("/operator"), httpx.Response)
    assert asked.count("about") == 1
