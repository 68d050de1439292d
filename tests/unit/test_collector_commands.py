"""`thebes collector` as a person at a terminal meets it, where nobody serves the home."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import exit_status
from thebes.collectors.installation import Installed


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    (made / "token").write_text("token")
    (made / "token").chmod(0o600)
    return made


@pytest.fixture
def collector(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run one command in this process: (exit status, standard output, standard error)."""

    def run(*arguments: str, typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setenv("THEBES_HOME", str(home))
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        return exit_status("collector", *arguments), *capsys.readouterr()

    return run


def test_what_will_be_read_and_filled_is_shown_and_asked_about(collector: Any, home: Path) -> None:
    status, out, err = collector("install", "browser", typed="n\n")
    assert (status, "nothing was installed" in err) == (1, True)
    for word in ("browser.visits", "domain (string)", "Never titles", "every hour under", "part of Thebes itself"):
        assert word in out
    assert list((home / "collectors").glob("*.json")) == []
    status, _, err = collector("install", "browser")  # and nobody there who could answer
    assert (status, err) == (2, "thebes: --yes: is needed where no terminal can ask for it; nothing was changed\n")
    status, _, _ = collector("install", "browser", typed="y\n")
    assert status == 0
    record = json.loads((home / "collectors" / "browser.json").read_text())
    assert record["options"] == {"file": [], "full-urls": False}
    assert (home / "collectors" / "browser.json").stat().st_mode & 0o077 == 0


def test_what_could_mean_two_things_is_said_at_installation(collector: Any, tmp_path: Path) -> None:
    file = tmp_path / "rides.csv"
    file.write_text("day,price\n03/04/2026,2.5\n")
    asked = ("install", "table", "--as", "rides", "--file", str(file))
    _, out, _ = collector(*asked, typed="n\n")
    assert "? day could be dates: say --dates dmy (day first) or --dates mdy (month first)" in out
    assert out.count("could be") == 1
    assert "could be" not in collector(*asked, "--dates", "mdy", "--yes")[1]


def test_a_preview_shows_what_would_be_kept_and_installs_nothing(collector: Any, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.ics"
    event = "BEGIN:VEVENT\nSUMMARY:dentist\x1b[2J\nDTSTART:20260301T080000Z\nEND:VEVENT\n"
    without = "BEGIN:VEVENT\nEND:VEVENT\n"
    file.write_text(f"BEGIN:VCALENDAR\n{event * 5}{without}END:VCALENDAR\n")
    status, out, _ = collector("install", "calendar", "--file", str(file), "--preview")
    assert status == 0
    assert "would keep 5 rows of calendar.events, such as" in out
    assert out.count("at 2026-03-01 08:00:00") == 3
    assert "would leave out 1: without a time" in out
    assert "dentist" not in out
    assert list((home / "collectors").glob("*.json")) == []
    _, out, _ = collector("install", "calendar", "--file", str(file), "--titles", "--preview")
    assert "title dentist?[2J" in out  # nothing of a file moves the cursor


def test_without_a_process_a_run_says_how_to_start_one(collector: Any) -> None:
    assert collector("install", "screen", "--every", "once", "--yes")[0] == 0
    status, _, err = collector("run", "screen")
    assert (status, "thebes person --home" in err) == (1, True)
    status, out, _ = collector("list", "--json")
    (row,) = [row for row in json.loads(out) if row["installed"]]
    assert (row["name"], row["rows"], row["every_seconds"]) == ("screen", None, None)
    assert "does not run for this folder" in row["last_error"]
    status, out, _ = collector("list")
    assert "rows unknown" in out
    assert collector("install", "screen", "--yes")[0] == 0  # once more, and what was set stays set
    (row,) = [row for row in json.loads(collector("list", "--json")[1]) if row["installed"]]
    assert row["every_seconds"] is None
    assert collector("remove", "screen", "--with-data")[0] == 1  # the rows could not be deleted, so it stays


def test_where_nobody_can_be_asked_about_the_rows_the_collector_stays(
    collector: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Serving:
        def __enter__(self) -> Serving:
            return self

        def __exit__(self, *_: object) -> None: ...

        def store(self) -> list[dict[str, Any]]:
            return [{"name": "screen", "tables": []}]

    assert collector("install", "screen", "--yes")[0] == 0
    monkeypatch.setattr("thebes.cli.collector_runs.person_of", lambda place: Serving())
    status, _, err = collector("remove", "screen")
    assert (status, err.count("\n"), "--keep-data or --with-data" in err) == (2, 1, True)
    assert "screen       installed" in collector("list")[1]


def test_a_run_of_all_says_so_where_it_has_nothing_to_run(collector: Any, home: Path, tmp_path: Path) -> None:
    assert collector("run", "--all") == (0, "No collector is installed here: thebes collector install NAME\n", "")
    (tmp_path / "x.csv").write_text("a\n1\n")
    assert collector("install", "table", "--as", "x", "--file", tmp_path / "x.csv", "--yes")[0] == 0
    held = Installed(home).record("x")
    Installed(home).write(replace(held, last_at="2026-11-20T08:00:00+00:00"))
    assert "No collector is due now" in collector("run", "--all")[1]
    assert collector("run", "--all", "--json")[1] == "[]\n"


def test_the_next_run_is_promised_only_while_somebody_stays_for_it(collector: Any, home: Path) -> None:
    assert collector("install", "browser", "--yes")[0] == 0
    assert "but nothing runs it: `thebes collector run --all --every` does" in collector("list")[1]
    for name, awaited in (("screen", False), ("browser", True), (None, True)):
        with Installed(home).staying(name):
            assert ("nothing runs it" in collector("list")[1]) is not awaited
    assert "nothing runs it" in collector("list")[1]


def test_show_is_for_people_and_for_machines(collector: Any) -> None:
    status, out, _ = collector("show", "table")
    assert (status, "--dates VALUE" in out, "(needed)" in out) == (0, True, True)
    told = json.loads(collector("show", "git", "--json")[1])
    assert set(told["tables"]["commits"]["columns"]) == {"at", "repository", "files", "added", "deleted"}
    assert told["publisher"] is None


@pytest.mark.parametrize("name", ["list", "show", "install", "run", "remove", "sign", "publish"])
def test_every_command_has_help_with_an_example(collector: Any, name: str) -> None:
    status, out, _ = collector(name, "--help")
    assert (status, f"Example: thebes collector {name}" in out) == (0, True)


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["install", "nothing"], "there is no collector"),
        (["install", "table", "--file", "x"], "--as"),
        (["install", "table", "--as", "two words", "--file", "x"], "app"),
        (["install", "browser", "--colour", "red"], "--colour"),
        (["install", "git"], "--repository"),
        (["install", "browser", "--every", "often"], "--every"),
        (["run"], "NAME"),
        (["run", "--all", "browser"], "NAME"),
        (["run", "browser"], "not installed"),
        (["run", "--all", "--once", "--every"], "--every"),
        (["remove", "browser"], "not installed"),
        (["show", "nothing"], "there is no collector"),
        (["publish", "nothing.json"], "there is no file"),
        (["publish", "browser"], "--coordinator"),
        (["sign", "nowhere:Nothing", "--key", "k"], "cannot be loaded"),
        (["list", "--home", "/nowhere"], "thebes person"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(
    collector: Any, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("THEBES_COORDINATOR", raising=False)
    status, _, err = collector(*arguments)
    assert (status, said in err) == (2, True), err
    assert err.count("\n") == 1
