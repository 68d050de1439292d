"""Notices: off at first; a number once a day, never who or what; also before the title of the pages."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import exit_status
from thebes.person.home import Person
from thebes.person.notices import EVERY_SECONDS, QuestionNotices, on_the_desktop
from thebes.person.settings import PersonSettings
from thebes.wire.refusals import Unreachable

sys.path.insert(0, str(Path(__file__).parent))
from test_person_rest import MEDIAN, World

HOUR = 3600.0


class Day:
    """A home whose notices are looked at by hand; `said` is what they told, by the clock of `now`."""

    def __init__(self, folder: Path) -> None:
        self.world, self.now, self.said = World(folder), 1e9, list[int]()
        self.me, self.server = self.world.me, self.world.server
        self.begin()

    def begin(self) -> None:
        """As another process of the same home does."""
        self.notices = self.me._at.notices = QuestionNotices(
            self.me._task_store,
            self.me._at.feed,
            on=lambda: self.me.settings().notices,
            clock=lambda: self.now,
            tell=self.said.append,
        )

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.notices.look()

    def ask(self, count: int) -> list[str]:
        return [self.server.post({**MEDIAN, "name": f"telltale {number}"}) for number in range(count)]


@pytest.fixture
def day(tmp_path: Path) -> Iterator[Day]:
    made = Day(tmp_path / "home")
    yield made
    made.me.close()


def test_while_they_are_off_nobody_is_asked_and_nothing_is_said_or_kept(day: Day) -> None:
    day.ask(2)
    day.server.before = lambda what: pytest.fail(f"asks the coordinator to {what}")
    before = day.me.moment
    day.later(0)
    day.later(2 * EVERY_SECONDS)
    assert (day.said, day.me.new_questions, day.me.moment) == ([], 0, before)


def test_what_is_new_is_counted_once_a_day(day: Day) -> None:
    day.me.set_settings({"notices": True})
    day.ask(2)
    day.later(0)
    assert day.said == [2]
    day.ask(1)
    for _ in range(23):
        day.later(HOUR)
    assert day.said == [2]
    day.later(HOUR)
    assert day.said == [2, 1]  # those of yesterday are not new again
    day.later(EVERY_SECONDS)
    assert day.said == [2, 1]
    assert day.me.new_questions == 0


def test_what_was_decided_or_has_closed_is_no_question_any_more(day: Day) -> None:
    day.me.set_settings({"notices": True})
    declined, accepted, closed, _ = day.ask(4)
    day.later(0)
    assert day.me.new_questions == 4
    day.me.decline(declined)
    day.me.accept(accepted)
    assert day.me.new_questions == 2
    day.server.end(closed, "closed")
    day.me.tasks()
    assert day.me.new_questions == 1


def test_a_coordinator_that_is_away_is_asked_again_within_the_day(day: Day) -> None:
    day.me.set_settings({"notices": True})
    day.ask(1)

    def away(what: str) -> None:
        raise Unreachable("http://127.0.0.1:1", "nobody is there")

    day.server.before = away
    with pytest.raises(Unreachable):
        day.later(0)
    day.later(60)  # not at every look of the machine
    day.server.before = lambda what: None
    day.later(HOUR)
    assert day.said == [1]


def test_another_process_of_the_home_says_nothing_again(day: Day) -> None:
    day.me.set_settings({"notices": True})
    day.ask(3)
    day.later(0)
    day.begin()
    day.later(HOUR)
    assert (day.said, day.me.new_questions) == ([3], 3)


def test_turned_off_it_forgets_what_it_had_said(day: Day) -> None:
    day.me.set_settings({"notices": True})
    (task,) = day.ask(1)
    day.later(0)
    assert task in str(day.me._task_store.fact("notices"))
    day.me.set_settings({"notices": False})
    day.later(60)
    assert task not in str(day.me._task_store.fact("notices"))


def test_the_number_stands_before_the_title_and_goes_when_it_was_decided(day: Day) -> None:
    http = day.world.http
    assert "<title>My privacy" in http.get("/privacy").text
    day.me.set_settings({"notices": True})
    task, _ = day.ask(2)
    day.later(0)
    assert "<title>(2) My privacy" in http.get("/privacy").text
    day.me.decline(task)
    told = http.get("/moment/old", headers={"HX-Request": "true", "HX-Request-Type": "partial"})
    assert json.loads(told.headers["hx-trigger"]) == {"changed": {"badge": 1}}


def test_a_desktop_is_given_a_number_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, heard = tmp_path / "notify-send", tmp_path / "heard"
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\nopen({str(heard)!r}, 'a').write(json.dumps(sys.argv[1:]))\n"
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    on_the_desktop(1)
    assert json.loads(heard.read_text()) == ["--app-name=Thebes", "Thebes", "1 new question"]
    program.write_text("#!/bin/sh\nexit 7\n")  # as without a session
    on_the_desktop(2)


def test_the_command_turns_them_on_and_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    Person(home, coordinator="http://127.0.0.1:1").close()
    assert PersonSettings.read(home).notices is False
    for turn, begins, kept in (("show", "Off: ", False), ("on", "On: ", True), ("off", "Off: ", False)):
        assert exit_status("person", "notices", turn, "--home", home) == 0
        assert capsys.readouterr().out.startswith(begins)
        assert PersonSettings.read(home).notices is kept
    assert "notices" not in (home / "person.toml").read_text()  # an older version reads it


def test_the_page_turns_them_on(day: Day) -> None:
    http = day.world.http
    assert "Turn notices on" in http.get("/privacy/background").text
    told = http.post("/privacy/notices", json={"turn": "on"})
    assert "Turn notices off" in told.text
    assert day.me.settings().notices
    assert http.post("/privacy/notices", json={"turn": "perhaps"}).status_code == 422
