"""The collectors that come with Thebes, on files as the programs write them."""

from __future__ import annotations

import io
import json
import pwd
import shutil
import sqlite3
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from thebes.collectors.session import Outcome
from thebes.collectors.shipped import screen as screens
from thebes.collectors.shipped.browser import Browser
from thebes.collectors.shipped.calendar import Calendar
from thebes.collectors.shipped.git import Git
from thebes.collectors.shipped.github import Github
from thebes.collectors.shipped.health import Health
from thebes.collectors.shipped.location import Location
from thebes.collectors.shipped.screen import Screen
from thebes.collectors.shipped.shell import Shell
from thebes.privacy.faults import Mistake
from thebes.testing.collectors import HomeOnDisk

MARCH = datetime(2026, 3, 1, 8, tzinfo=UTC)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[HomeOnDisk]:
    made = HomeOnDisk(tmp_path / "home")
    yield made
    made.close()


@pytest.mark.parametrize("collector", [Browser, Shell])
def test_who_has_no_home_is_asked_to_name_a_file(
    home: HomeOnDisk, monkeypatch: pytest.MonkeyPatch, collector: type[Browser | Shell]
) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    with pytest.raises(Mistake, match="name one with --file"):
        home.collect(collector())


# --- browser --------------------------------------------------------------------------------------------

CHROMIUM = """
CREATE TABLE urls(id INTEGER PRIMARY KEY AUTOINCREMENT,url LONGVARCHAR,title LONGVARCHAR,visit_count INTEGER DEFAULT 0
 NOT NULL,typed_count INTEGER DEFAULT 0 NOT NULL,last_visit_time INTEGER NOT NULL,hidden INTEGER DEFAULT 0 NOT NULL);
CREATE TABLE visits(id INTEGER PRIMARY KEY AUTOINCREMENT,url INTEGER NOT NULL,visit_time INTEGER NOT NULL,from_visit
 INTEGER,external_referrer_url TEXT,transition INTEGER DEFAULT 0 NOT NULL,segment_id INTEGER,visit_duration INTEGER
 DEFAULT 0 NOT NULL,incremented_omnibox_typed_score BOOLEAN DEFAULT FALSE NOT NULL,opener_visit INTEGER);
"""
FIREFOX = """
CREATE TABLE moz_places (id INTEGER PRIMARY KEY, url LONGVARCHAR, title LONGVARCHAR, rev_host LONGVARCHAR, visit_count
 INTEGER DEFAULT 0, hidden INTEGER DEFAULT 0 NOT NULL, typed INTEGER DEFAULT 0 NOT NULL, frecency INTEGER DEFAULT -1 NOT
 NULL, last_visit_date INTEGER, guid TEXT, url_hash INTEGER DEFAULT 0 NOT NULL);
CREATE TABLE moz_historyvisits (id INTEGER PRIMARY KEY, from_visit INTEGER, place_id INTEGER, visit_date INTEGER,
 visit_type INTEGER, session INTEGER);
"""


def micros(at: datetime, epoch: int) -> int:
    return int((at - datetime(epoch, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))


class Chromium:
    """A History that its browser holds: locked, and in the middle of a write."""

    def __init__(self, path: Path, *, wal: bool = False) -> None:
        self.path = path
        self.database = sqlite3.connect(path, isolation_level=None)
        if wal:
            self.database.execute("PRAGMA journal_mode = WAL")
        self.database.executescript(CHROMIUM)

    def visit(self, url: str, at: datetime, seconds: float = 0) -> None:
        url_id = self.database.execute(
            "INSERT INTO urls (url, title, last_visit_time) VALUES (?, 'a title', 0)", (url,)
        ).lastrowid
        self.database.execute(
            "INSERT INTO visits (url, visit_time, visit_duration) VALUES (?, ?, ?)",
            (url_id, micros(at, 1601), int(seconds * 1e6)),
        )


@pytest.mark.parametrize("wal", [False, True])
def test_visits_of_chromium_are_read_while_the_browser_holds_its_database(
    home: HomeOnDisk, tmp_path: Path, wal: bool
) -> None:
    held = Chromium(tmp_path / "History", wal=wal)
    held.visit("https://www.news.example/a?q=private", MARCH, 12.5)
    held.visit("chrome://settings/", MARCH)
    held.visit("file:///home/ana/secret.txt", MARCH)
    held.database.execute("BEGIN IMMEDIATE")  # what is not committed must not show
    held.visit("https://unfinished.example/", MARCH)
    own_pages = {"no page of the web": 2}
    assert home.collect(Browser(), "--file", str(held.path)) == Outcome(1, 0, own_pages)
    assert home.rows("browser", "visits") == [
        {"at": "2026-03-01 08:00:00", "domain": "news.example", "seconds": 12.5, "browser": "chromium", "url": None}
    ]
    assert "private" not in json.dumps(home.store.export())
    held.database.execute("COMMIT")
    held.visit("https://shop.example/", MARCH + timedelta(hours=1))
    assert home.collect(Browser(), "--file", str(held.path)) == Outcome(2, 0)
    assert home.collect(Browser(), "--file", str(held.path)) == Outcome(0, 0)


def test_a_history_that_was_cleared_and_counts_anew_adds_nothing_twice(home: HomeOnDisk, tmp_path: Path) -> None:
    first = Chromium(tmp_path / "History")
    for hour in range(3):
        first.visit("https://news.example/", MARCH + timedelta(hours=hour))
    assert home.collect(Browser(), "--file", str(first.path)).inserted == 3
    first.database.close()
    first.path.unlink()
    again = Chromium(tmp_path / "History")
    again.visit("https://news.example/", MARCH + timedelta(hours=2))  # kept by the browser
    again.visit("https://news.example/", MARCH + timedelta(hours=9))
    assert home.collect(Browser(), "--file", str(again.path)) == Outcome(1, 1)


def test_visits_of_firefox_and_full_addresses_only_when_asked_for(home: HomeOnDisk, tmp_path: Path) -> None:
    path = tmp_path / "places.sqlite"
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.executescript(FIREFOX)
    database.execute("INSERT INTO moz_places (id, url) VALUES (7, 'http://Museum.example:8080/rooms')")
    database.execute("INSERT INTO moz_historyvisits VALUES (1, 0, 7, ?, 1, 0)", (micros(MARCH, 1970),))
    assert home.collect(Browser(), "--file", str(path), "--full-urls").inserted == 1
    (row,) = home.rows("browser", "visits")
    assert (row["domain"], row["browser"], row["seconds"]) == ("museum.example", "firefox", None)
    assert row["url"] == "http://Museum.example:8080/rooms"


def test_browsers_are_found_where_they_keep_their_histories(
    home: HomeOnDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Mistake, match="--file"):
        home.collect(Browser())
    for folder in (".config/chromium/Default", ".config/google-chrome/Profile 1"):
        (tmp_path / folder).mkdir(parents=True)
        Chromium(tmp_path / folder / "History").visit(f"https://{folder[8:14]}.example/", MARCH)
    assert home.collect(Browser()).inserted == 2


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\x00" + b"\xff" * 2000])
def test_a_file_that_is_no_history_is_a_mistake(home: HomeOnDisk, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "History").write_bytes(content)
    with pytest.raises(Mistake, match="History"):
        home.collect(Browser(), "--file", str(tmp_path / "History"))


def test_strange_cells_of_a_history_are_left_out(home: HomeOnDisk, tmp_path: Path) -> None:
    held = Chromium(tmp_path / "History")
    for url, at in (
        ("https://[broken/", 1),
        (None, 1),
        (b"\xff", 1),
        ("https://a.example/", -5),
        ("https://a.example/", 2**62),
    ):
        held.database.execute("INSERT INTO urls (url, last_visit_time) VALUES (?, 0)", (url,))
        held.database.execute("INSERT INTO visits (url, visit_time) SELECT max(id), ? FROM urls", (at,))
    held.visit("https://fine.example/", MARCH)
    assert home.collect(Browser(), "--file", str(held.path)) == Outcome(1, 0, {"no page of the web": 5})


def test_a_view_that_never_ends_is_not_read(home: HomeOnDisk, tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "History")
    database.executescript(
        "CREATE TABLE urls (id INTEGER PRIMARY KEY, url);"
        "CREATE VIEW visits AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r)"
        " SELECT n AS id, n AS url, 1 AS visit_time, 1 AS visit_duration FROM r;"
    )
    database.close()
    with pytest.raises(Mistake, match="not a history"):
        home.collect(Browser(), "--file", str(tmp_path / "History"))


@pytest.mark.slow
def test_a_real_chromium_s_history_is_read(home: HomeOnDisk, tmp_path: Path) -> None:
    from tests.support.browser import needed

    chromium = needed()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<title>a page</title>hello")

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        subprocess.run(
            [
                chromium,
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                f"--user-data-dir={tmp_path / 'profile'}",
                "--dump-dom",
                "--virtual-time-budget=2000",
                f"http://127.0.0.1:{server.server_port}/a?b=c",
            ],
            capture_output=True,
            timeout=240,
            check=True,
        )
    finally:
        server.shutdown()
        server.server_close()
    history = tmp_path / "profile" / "Default" / "History"
    assert home.collect(Browser(), "--file", str(history)).inserted == 1
    (row,) = home.rows("browser", "visits")
    assert row["domain"] == "127.0.0.1"
    assert abs(datetime.fromisoformat(row["at"]).replace(tzinfo=UTC) - datetime.now(UTC)) < timedelta(minutes=5)


# --- screen ---------------------------------------------------------------------------------------------


class Proc:
    """A /proc as Linux shows it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "sys/kernel/random").mkdir(parents=True)
        self.boot("one")

    def boot(self, boot_id: str) -> None:
        (self.folder / "sys/kernel/random/boot_id").write_text(f"{boot_id}\n")

    def process(self, number: int, name: str, ticks: int, *, start: int = 5, state: str = "S") -> None:
        folder = self.folder / str(number)
        folder.mkdir(exist_ok=True)
        fields = f"{number} ({name}) {state} 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {start} 0 0"
        (folder / "stat").write_text(fields)
        (folder / "cmdline").write_text("--password=secret")

    def end(self, number: int) -> None:
        shutil.rmtree(self.folder / str(number))


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    monkeypatch.setattr(screens.os, "sysconf", lambda _: 100)
    return Proc(tmp_path / "proc")


@pytest.fixture
def looks(home: HomeOnDisk, proc: Proc, monkeypatch: pytest.MonkeyPatch) -> Any:
    moment = [MARCH]
    monkeypatch.setattr("thebes.collectors.session.Session.now", property(lambda _: moment[0]))

    def look(minutes: int) -> Outcome:
        moment[0] += timedelta(minutes=minutes)
        return home.collect(Screen(), "--proc", str(proc.folder))

    return look


def test_two_looks_say_how_busy_programs_were_and_which_began_and_ended(
    home: HomeOnDisk, proc: Proc, looks: Any
) -> None:
    proc.process(10, "editor (beta) x", 1000)
    proc.process(11, "mail", 50)
    assert looks(0).inserted == 0
    proc.process(10, "editor (beta) x", 1250)
    proc.process(12, "mail", 30)
    proc.end(11)
    proc.process(13, "music", 0)
    looks(5)
    assert home.rows("screen", "use") == [
        {"at": "2026-03-01 08:05:00", "application": "editor (beta) x", "busy_seconds": 2.5, "interval_seconds": 300.0},
        {"at": "2026-03-01 08:05:00", "application": "mail", "busy_seconds": 0.3, "interval_seconds": 300.0},
    ]
    proc.end(13)
    looks(5)
    events = [(row["event"], row["application"]) for row in home.rows("screen", "events")]
    assert events == [("opened", "music"), ("closed", "music")]
    assert "secret" not in json.dumps(home.store.export())


def test_after_a_restart_or_a_long_pause_no_use_is_claimed(home: HomeOnDisk, proc: Proc, looks: Any) -> None:
    proc.process(10, "editor", 1000)
    looks(0)
    proc.process(10, "editor", 9000)
    looks(600)
    proc.boot("two")
    proc.process(10, "editor", 9900)
    looks(5)
    assert home.rows("screen", "use") == []


def test_the_processes_of_this_machine_can_be_read(home: HomeOnDisk) -> None:
    home.collect(Screen())
    names = {name for name, _ in home.progress("screen")["state"]["seen"].values()}
    assert any(name.startswith("python") for name in names)


def test_a_system_without_proc_is_told_so(home: HomeOnDisk, tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="/proc"):
        home.collect(Screen(), "--proc", str(tmp_path))


# --- shell ----------------------------------------------------------------------------------------------


def commands(home: HomeOnDisk) -> list[tuple[str | None, str]]:
    return [(row["at"], row["command"]) for row in home.rows("shell", "commands")]


def test_bash_with_and_without_times(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "bash_history"
    file.write_text("ls -l /secret\n#1772352000\nFOO=1 python3 -c 'x'\n#1772352060\ncd ..\nhunter2\n")
    assert home.collect(Shell(), "--file", str(file)).inserted == 4
    assert commands(home) == [
        (None, "ls"),
        ("2026-03-01 08:00:00", "python3"),
        ("2026-03-01 08:01:00", "cd"),
        (None, "other"),
    ]
    assert "secret" not in json.dumps(home.store.export())
    assert "hunter2" not in json.dumps(home.store.export())


def test_a_history_that_grows_and_loses_its_beginning_adds_only_what_is_new(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "bash_history"
    lines = [f"echo {n}" for n in range(80)]
    file.write_text("\n".join(lines) + "\n")
    assert home.collect(Shell(), "--file", str(file)).inserted == 80
    assert home.collect(Shell(), "--file", str(file)).inserted == 0
    file.write_text("\n".join([*lines[70:], "ls", "ls", "ls"]) + "\n")
    assert home.collect(Shell(), "--file", str(file)).inserted == 3
    file.write_text("\n".join([*lines[79:], "ls", "ls", "ls", "ls"]) + "\n")
    assert home.collect(Shell(), "--file", str(file)).inserted == 1


def test_zsh_with_times_continued_lines_and_its_own_spelling_of_letters(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / ".zsh_history"
    accented = "ls caf\u00e9".encode()
    spelled = b"".join(bytes([0x83, byte ^ 32]) if byte >= 0x83 and byte < 0xA3 else bytes([byte]) for byte in accented)
    file.write_bytes(b": 1772352000:0;echo one\\\ntwo\n: 1772352060:3;" + spelled + b"\n")
    assert home.collect(Shell(), "--file", str(file), "--arguments").inserted == 2
    assert [row["line"] for row in home.rows("shell", "commands")] == ["echo one\ntwo", "ls caf\u00e9"]


def test_fish(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "fish_history"
    file.write_text(
        "- cmd: ls\\nls -a\n  when: 1772352000\n  paths:\n    - a\n- cmd: cd x\n  when: 1772352060\n- cmd: ls\n"
    )
    assert home.collect(Shell(), "--file", str(file)).inserted == 3
    assert commands(home) == [("2026-03-01 08:00:00", "ls"), ("2026-03-01 08:01:00", "cd"), (None, "ls")]


def test_bytes_of_all_kinds_in_a_history_do_no_harm(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "bash_history"
    file.write_bytes(b"ls \xff\xfe\x00\n\x00\n#99999999999\n" + bytes(range(1, 256)) + b"\n")
    assert home.collect(Shell(), "--file", str(file), "--arguments").inserted >= 2


# --- git ------------------------------------------------------------------------------------------------


def git(repository: Path, *arguments: str, email: str = "ana@example.org", at: int = 1772352000) -> None:
    quiet = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": str(repository.parent)}
    who = {"GIT_AUTHOR_NAME": "A", "GIT_COMMITTER_NAME": "A", "GIT_AUTHOR_EMAIL": email, "GIT_COMMITTER_EMAIL": email}
    when = {"GIT_AUTHOR_DATE": f"{at} +0100", "GIT_COMMITTER_DATE": f"{at} +0100", "PATH": "/usr/bin:/bin"}
    subprocess.run(
        ["git", "-C", str(repository), *arguments], check=True, capture_output=True, env={**quiet, **who, **when}
    )


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    made = tmp_path / "novel"
    made.mkdir()
    git(made, "init", "-q", "-b", "main")
    (made / "a\nb.txt").write_text("1\n2\n3\n")
    git(made, "add", ".")
    git(made, "commit", "-q", "-m", "a private message\x1e\x1f")
    (made / "c.txt").write_text("x\n")
    git(made, "add", ".")
    git(made, "commit", "-q", "-m", "not mine", email="bob@example.org")
    return made


def test_only_one_s_own_commits_and_only_counts(home: HomeOnDisk, repository: Path) -> None:
    arguments = ("--repository", str(repository), "--author", "ana@example.org")
    assert home.collect(Git(), *arguments) == Outcome(1, 0)
    row = {"at": "2026-03-01 08:00:00", "repository": "novel", "files": 1, "added": 3, "deleted": 0}
    assert home.rows("git", "commits") == [row]
    assert "private" not in json.dumps(home.store.export())
    (repository / "c.txt").write_text("y\nz\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "more")
    assert home.collect(Git(), *arguments) == Outcome(1, 0)
    assert home.collect(Git(), *arguments) == Outcome(0, 0)
    assert home.rows("git", "commits")[1]["added"] == 2


def test_the_author_is_whom_git_is_set_to(home: HomeOnDisk, repository: Path) -> None:
    git(repository, "config", "user.email", "bob@example.org")
    assert home.collect(Git(), "--repository", str(repository)).inserted == 1


def test_commits_of_which_none_is_kept_are_counted_with_what_to_do(home: HomeOnDisk, repository: Path) -> None:
    arguments = ("--repository", str(repository), "--author", "ana@elsewhere.example")
    outcome = home.collect(Git(), *arguments)
    assert outcome.inserted == 0
    (reason,) = outcome.left_out
    assert outcome.left_out[reason] == 2
    assert "--author" in reason
    assert home.collect(Git(), *arguments) == Outcome()  # and are not counted again while nothing is new
    both = (*arguments, "--author", "ana@example.org")  # what was advised brings them
    assert (
        home.collect(Git(), *both).inserted == home.collect(Git(), *both, "--author", "bob@example.org").inserted == 1
    )


def test_a_repository_cannot_make_git_run_anything(home: HomeOnDisk, repository: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    program = tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {mark}\ncat\n")
    program.chmod(0o755)
    (repository / ".gitattributes").write_text("* diff=evil\n")
    for name in (
        "core.fsmonitor",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "core.pager",
        "gpg.program",
    ):
        git(repository, "config", name, str(program))
    git(repository, "config", "log.showSignature", "true")
    mark.unlink(missing_ok=True)
    assert home.collect(Git(), "--repository", str(repository), "--author", "ana@example.org").inserted == 1
    assert not mark.exists()


def test_a_folder_that_is_no_repository_and_an_empty_one(home: HomeOnDisk, tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="repository"):
        home.collect(Git(), "--repository", str(tmp_path), "--author", "a@b")
    (tmp_path / "new").mkdir()
    git(tmp_path / "new", "init", "-q")
    assert home.collect(Git(), "--repository", str(tmp_path / "new"), "--author", "a@b") == Outcome(0, 0)


# --- calendar -------------------------------------------------------------------------------------------

ICS = """BEGIN:VCALENDAR\r
VERSION:2.0\r
BEGIN:VTIMEZONE\r
TZID:Europe/Athens\r
BEGIN:STANDARD\r
DTSTART:19961027T040000\r
END:STANDARD\r
END:VTIMEZONE\r
BEGIN:VEVENT\r
UID:1@x\r
DTSTART;TZID=Europe/Athens:20260301T100000\r
DTEND;TZID=Europe/Athens:20260301T113000\r
SUMMARY:Dentist\\, agai\r
 n\r
ATTENDEE;CN="Doe: Jane";ROLE=REQ-PARTICIPANT:mailto:jane@example.org\r
RRULE:FREQ=WEEKLY;COUNT=4\r
BEGIN:VALARM\r
TRIGGER:-PT15M\r
END:VALARM\r
END:VEVENT\r
BEGIN:VEVENT\r
UID:2@x\r
DTSTART;VALUE=DATE:20260302\r
SUMMARY:Holiday\r
END:VEVENT\r
BEGIN:VEVENT\r
UID:3@x\r
DTSTART:20260303T090000Z\r
DURATION:PT1H30M\r
END:VEVENT\r
END:VCALENDAR\r
"""


def test_appointments_in_all_their_forms(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "mine.ics"
    file.write_text(ICS, newline="")
    assert home.collect(Calendar(), "--file", str(file)) == Outcome(3, 0)
    assert home.collect(Calendar(), "--file", str(file)) == Outcome(0, 3)
    first, second, third = home.rows("calendar", "events")
    assert first == {
        "at": "2026-03-01 08:00:00",
        "minutes": 90.0,
        "all_day": False,
        "repeats": "weekly",
        "people": 1,
        "title": None,
    }
    assert (second["at"], second["all_day"], second["minutes"]) == ("2026-03-02 00:00:00", True, 1440.0)
    assert (third["minutes"], third["people"]) == (90.0, 0)
    assert "Dentist" not in json.dumps(home.store.export())


def test_an_appointment_without_a_time_is_left_out_and_counted(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "mine.ics"
    file.write_text(ICS.replace("DTSTART:20260303T090000Z\r\n", ""), newline="")
    assert home.collect(Calendar(), "--file", str(file)) == Outcome(2, 0, {"without a time": 1})


def test_titles_when_asked_for_and_calendars_in_a_zip(home: HomeOnDisk, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Takeout/Calendar/mine.ics", ICS)
        archive.writestr("Takeout/readme.txt", "nothing")
    assert home.collect(Calendar(), "--file", str(tmp_path / "all.zip"), "--titles").inserted == 3
    assert home.rows("calendar", "events")[0]["title"] == "Dentist, again"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("hello", 1),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:tomorrow\nEND:VEVENT\nEND:VCALENDAR\n", 3),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260230T000000Z\nEND:VEVENT\nEND:VCALENDAR\n", 3),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nDTSTART:20260201T000000Z\nEND:VEVENT\n", 5),
        ("BEGIN:VCALENDAR\nEND:VEVENT\n", 2),
        ("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260201T000000Z\nDURATION:long\nEND:VEVENT\nEND:VCALENDAR\n", 4),
        ("BEGIN:VCARD\nEND:VCARD\n", 1),
    ],
)
def test_a_broken_calendar_is_named_with_its_line_and_nothing_is_stored(
    home: HomeOnDisk, tmp_path: Path, text: str, line: int
) -> None:
    (tmp_path / "good.ics").write_text(ICS)
    (tmp_path / "x.ics").write_text(text)
    with pytest.raises(Mistake, match=rf"x\.ics, line {line}:"):
        home.collect(Calendar(), "--file", str(tmp_path / "good.ics"), "--file", str(tmp_path / "x.ics"))
    assert home.rows("calendar", "events") == []


# --- location -------------------------------------------------------------------------------------------

RECORDS = {
    "locations": [
        {"latitudeE7": 379838000, "longitudeE7": 237275000, "accuracy": 12, "timestamp": "2026-03-01T08:00:00.123Z"},
        {"latitudeE7": 379838000, "longitudeE7": 237275000, "timestampMs": "1772355600000", "source": "WIFI"},
        {"accuracy": 5, "timestamp": "2026-03-01T08:00:00Z"},
    ]
}
SEMANTIC = {
    "timelineObjects": [
        {
            "placeVisit": {
                "location": {
                    "latitudeE7": 379838000,
                    "longitudeE7": 237275000,
                    "name": "Ana's",
                    "semanticType": "TYPE_HOME",
                },
                "duration": {"startTimestamp": "2026-03-01T08:00:00Z", "endTimestamp": "2026-03-01T09:00:00Z"},
            }
        },
        {
            "activitySegment": {
                "duration": {"startTimestampMs": "1772355600000", "endTimestampMs": "1772356200000"},
                "distance": 900,
                "activityType": "WALKING",
            }
        },
    ]
}
TIMELINE = {
    "semanticSegments": [
        {
            "startTime": "2026-03-01T10:00:00.000+02:00",
            "endTime": "2026-03-01T11:00:00.000+02:00",
            "visit": {"topCandidate": {"placeLocation": {"latLng": "37.9838°, 23.7275°"}, "semanticType": "HOME"}},
        },
        {
            "startTime": "2026-03-01T11:00:00.000+02:00",
            "endTime": "2026-03-01T11:30:00.000+02:00",
            "activity": {"topCandidate": {"type": "IN_BUS"}, "distanceMeters": 5000.5},
        },
        {
            "startTime": "2026-03-01T11:00:00Z",
            "timelinePath": [{"point": "geo:37.1,23.5", "time": "2026-03-01T11:05:00Z"}],
        },
    ],
    "rawSignals": [{"position": {"LatLng": "1°, 2°"}}],
    "userLocationProfile": {"frequentPlaces": []},
}
GPX = """<?xml version="1.0"?>
<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1"><metadata><time>2020-01-01T00:00:00Z</time></metadata>
<trk><name>Secret</name><trkseg>
<trkpt lat="37.98380" lon="23.72750"><ele>90</ele><time>2026-03-01T08:00:00Z</time></trkpt>
<trkpt lat="37.98400" lon="23.72750"><time>2026-03-01T08:00:10Z</time></trkpt>
<trkpt lat="37.98500" lon="23.72750"/>
</trkseg></trk></gpx>
"""


def test_location_in_the_forms_of_all_years(home: HomeOnDisk, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "takeout.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Takeout/Location History/Records.json", json.dumps(RECORDS))
        archive.writestr(
            "Takeout/Location History/Semantic Location History/2026/2026_MARCH.json", json.dumps(SEMANTIC)
        )
        archive.writestr("Takeout/Location History/Settings.json", "{broken")
    (tmp_path / "Timeline.json").write_text(json.dumps(TIMELINE))
    (tmp_path / "walk.gpx").write_text(GPX)
    files = [str(tmp_path / name) for name in ("takeout.zip", "Timeline.json", "walk.gpx")]
    arguments = [word for file in files for word in ("--file", file)]
    first = home.collect(Location(), *arguments, "--decimals", "4")
    points = [(row["at"], row["latitude"], row["longitude"]) for row in home.rows("location", "points")]
    assert points == [
        ("2026-03-01 08:00:00.123000", 37.9838, 23.7275),
        ("2026-03-01 09:00:00", 37.9838, 23.7275),
        ("2026-03-01 11:05:00", 37.1, 23.5),
        ("2026-03-01 08:00:00", 37.9838, 23.7275),
        ("2026-03-01 08:00:10", 37.984, 23.7275),
    ]
    visit = {"at": "2026-03-01 08:00:00", "minutes": 60.0, "latitude": 37.9838, "longitude": 23.7275}
    assert home.rows("location", "visits") == [{**visit, "kind": "type_home"}]  # the same visit in both files is one
    assert [(t["minutes"], t["metres"], t["activity"]) for t in home.rows("location", "trips")] == [
        (10.0, 900.0, "walking"),
        (30.0, 5000.5, "in_bus"),
    ]
    assert "Ana's" not in json.dumps(home.store.export())
    lacking = {"without a time or a place": 2}  # one in Records.json, one in walk.gpx
    assert first.left_out == lacking
    assert home.collect(Location(), *arguments, "--decimals", "4") == Outcome(0, first.inserted + first.known, lacking)


def test_everything_in_a_timeline_that_is_no_row_is_counted(home: HomeOnDisk, tmp_path: Path) -> None:
    segments = [{"timelineMemory": {}}, 7, {"activity": {"topCandidate": {}}}, {"timelinePath": [3, {"point": "x"}]}]
    (tmp_path / "Timeline.json").write_text(json.dumps({"semanticSegments": segments, "other": [1, 2]}))
    assert home.collect(Location(), "--file", str(tmp_path / "Timeline.json")) == Outcome(
        left_out={
            "neither a visit nor a trip": 1,
            "no object": 2,
            "without a time": 1,
            "without a time or a place": 1,
        }
    )


@pytest.mark.slow
def test_a_file_far_larger_than_what_is_read_at_once_has_all_its_points(home: HomeOnDisk, tmp_path: Path) -> None:
    points = [
        {
            "latitudeE7": 379838000 + n,
            "longitudeE7": 237275000,
            "timestamp": f"2026-03-01T08:{n // 60 % 60:02}:{n % 60:02}.{n:06}Z",
        }
        for n in range(20_000)
    ]
    (tmp_path / "Records.json").write_text(json.dumps({"locations": points}, indent=1))
    assert home.collect(Location(), "--file", str(tmp_path / "Records.json"), "--decimals", "7").inserted == 20_000


def test_the_list_that_telephones_of_apple_export(home: HomeOnDisk, tmp_path: Path) -> None:
    visit = {"topCandidate": {"placeLocation": "geo:37.9838,23.7275", "semanticType": "Home"}}
    body = [{"startTime": "2026-03-01T08:00:00Z", "endTime": "2026-03-01T09:00:00Z", "visit": visit}]
    (tmp_path / "location-history.json").write_text(json.dumps(body))
    assert home.collect(Location(), "--file", str(tmp_path / "location-history.json")).inserted == 1


# --- health ---------------------------------------------------------------------------------------------

APPLE = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE HealthData [
<!ELEMENT HealthData (ExportDate,Me,(Record|Workout)*)>
<!ATTLIST HealthData locale CDATA #REQUIRED>
]>
<HealthData locale="en_GR">
 <ExportDate value="2026-03-02 10:00:00 +0200"/>
 <Me HKCharacteristicTypeIdentifierDateOfBirth="1990-01-01"/>
 <Record type="HKQuantityTypeIdentifierStepCount" sourceName="Ana's iPhone" unit="count"
  startDate="2026-03-01 10:00:00 +0200" endDate="2026-03-01 10:10:00 +0200" value="512"/>
 <Record type="HKCategoryTypeIdentifierSleepAnalysis" sourceName="Ana's Watch"
  startDate="2026-03-01 00:00:00 +0200" endDate="2026-03-01 07:00:00 +0200"
  value="HKCategoryValueSleepAnalysisAsleepCore"><MetadataEntry key="a" value="b"/></Record>
 <Correlation type="HKCorrelationTypeIdentifierBloodPressure">
  <Record type="HKQuantityTypeIdentifierBloodPressureSystolic" startDate="2026-03-01 10:00:00 +0200" value="120"/>
 </Correlation>
 <Workout workoutActivityType="HKWorkoutActivityTypeRunning" duration="0.5" durationUnit="hr" totalDistance="5"
  startDate="2026-03-01 18:00:00 +0200" endDate="2026-03-01 18:30:00 +0200"/>
</HealthData>
"""


def test_health_of_apple(home: HomeOnDisk, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("apple_health_export/export.xml", APPLE)
        archive.writestr("apple_health_export/export_cda.xml", "<broken")
    assert home.collect(Health(), "--raw", "--file", str(tmp_path / "export.zip")) == Outcome(3, 0)
    assert home.collect(Health(), "--raw", "--file", str(tmp_path / "export.zip")) == Outcome(0, 3)
    steps, sleep = home.rows("health", "measurements")
    assert steps == {
        "at": "2026-03-01 08:00:00",
        "minutes": 10.0,
        "kind": "StepCount",
        "amount": 512.0,
        "status": None,
        "unit": "count",
    }
    assert (sleep["kind"], sleep["status"], sleep["amount"]) == ("SleepAnalysis", "AsleepCore", None)
    (workout,) = home.rows("health", "workouts")
    assert (workout["kind"], workout["minutes"], workout["distance"]) == ("Running", 30.0, 5.0)
    for private in ("Ana's", "1990"):
        assert private not in json.dumps(home.store.export())


def test_health_of_google_by_kind(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "Daily activity metrics.csv"
    file.write_text(
        "Date,Move Minutes count,Calories (kcal),Step count\n2026-03-01,42,1800.5,5000\n2026-03-02,,1700,\n"
    )
    home.collect(Health(), "--raw", "--file", str(file))
    rows = [(r["at"], r["kind"], r["amount"], r["unit"]) for r in home.rows("health", "measurements")]
    assert rows == [
        ("2026-03-01 00:00:00", "MoveMinutes", 42.0, "count"),
        ("2026-03-01 00:00:00", "Calories", 1800.5, "kcal"),
        ("2026-03-01 00:00:00", "Step", 5000.0, "count"),
        ("2026-03-02 00:00:00", "Calories", 1700.0, "kcal"),
    ]


def record(kind: str, at: str, value: str, *, device: str = "Ana's Watch", unit: str = "count", end: str = "") -> str:
    said = f'type="{kind}" sourceName="{device}" unit="{unit}" startDate="{at}" endDate="{end or at}" value="{value}"'
    return f"<Record {said}/>\n"


STEPS, PULSE, SLEEP = (
    "HKQuantityTypeIdentifierStepCount",
    "HKQuantityTypeIdentifierHeartRate",
    "HKCategoryTypeIdentifierSleepAnalysis",
)
NEWEST = "of the newest day, which may not be over"


def exported(*records: str, on: str = "2026-03-03 12:00:00 +0200") -> str:
    return f'<HealthData><ExportDate value="{on}"/>{"".join(records)}</HealthData>'


def daily(home: HomeOnDisk) -> list[tuple[Any, ...]]:
    rows = home.rows("health", "daily")
    return sorted((r["day"][:10], r["kind"], r["count"], r["sum"], r["mean"], r["unit"]) for r in rows)


def test_health_is_kept_by_days_that_are_over(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "export.xml"
    asleep = "HKCategoryValueSleepAnalysisAsleepCore"
    older = (
        record(STEPS, "2026-03-01 00:30:00 +0200", "100"),  # still February in UTC
        record(STEPS, "2026-03-01 10:00:00 +0200", "500"),
        record(STEPS, "2026-03-01 10:00:00 +0200", "450", device="Ana's iPhone"),
        record(PULSE, "2026-03-01 10:00:00 +0200", "60", unit="count/min"),
        record(PULSE, "2026-03-01 11:00:00 +0200", "70", unit="count/min"),
        record(SLEEP, "2026-03-02 00:00:00 +0200", asleep, end="2026-03-02 01:30:00 +0200"),
    )
    file.write_text(exported(*older, record(STEPS, "2026-03-03 10:00:00 +0200", "7")))
    assert home.collect(Health(), "--file", str(file)) == Outcome(3, 0, {NEWEST: 1})
    assert home.collect(Health(), "--file", str(file)) == Outcome(0, 3, {NEWEST: 1})
    expected = [
        ("2026-03-01", "HeartRate", 2, 130.0, 65.0, "count/min"),
        ("2026-03-01", "StepCount", 2, 600.0, 300.0, "count"),
        ("2026-03-02", "SleepAnalysisAsleepCore", 1, 90.0, 90.0, None),
    ]
    assert daily(home) == expected
    newer = record(STEPS, "2026-03-03 10:00:00 +0200", "7"), record(STEPS, "2026-03-03 20:00:00 +0200", "9")
    file.write_text(exported(*older, *newer, on="2026-03-04 12:00:00 +0200"))
    assert home.collect(Health(), "--file", str(file)) == Outcome(1, 3)
    assert daily(home) == [*expected, ("2026-03-03", "StepCount", 2, 16.0, 8.0, "count")]
    assert "Ana's" not in json.dumps(home.store.export())


def test_days_of_google_are_the_rows_of_its_table_but_the_newest(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "Daily activity metrics.csv"
    file.write_text("Date,Calories (kcal),Step count\n2026-03-01,1800.5,5000\n2026-03-02,1700,10\n")
    assert home.collect(Health(), "--file", str(file)) == Outcome(2, 0, {NEWEST: 2})
    assert daily(home) == [
        ("2026-03-01", "Calories", 1, 1800.5, 1800.5, "kcal"),
        ("2026-03-01", "Step", 1, 5000.0, 5000.0, "count"),
    ]


def test_a_home_of_single_measurements_goes_on_with_them(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "export.xml"
    file.write_text(exported(record(STEPS, "2026-03-01 10:00:00 +0200", "500")))

    class Before(Health):
        version = 1
        migrations: ClassVar[dict[int, Any]] = {}

        def declare(self, options: Any, state: Any) -> Any:
            return [each for each in self.tables if each.name != "daily"]

    home.collect(Before(), "--raw", "--file", str(file))
    home.store.deliver("health", {"delivery": "0" * 32, "after": 1, "part": 0, "rows": {}, "last": True, "release": 1})
    file.write_text(exported(*(record(STEPS, f"2026-03-0{day} 10:00:00 +0200", "500") for day in (1, 2))))
    assert home.collect(Health(), "--file", str(file)) == Outcome(1, 1)
    assert len(home.rows("health", "measurements")) == 2
    assert home.collect(Health(), "--file", str(file)) == Outcome(0, 2)


def test_who_asks_for_single_measurements_later_keeps_the_days(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "export.xml"
    file.write_text(exported(record(STEPS, "2026-03-01 10:00:00 +0200", "500")))
    home.collect(Health(), "--file", str(file))
    assert home.collect(Health(), "--raw", "--file", str(file)).inserted == 1
    assert len(daily(home)) == 1


# --- github ---------------------------------------------------------------------------------------------


def archive(path: Path, files: dict[str, Any]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, body in files.items():
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


ME, OTHER = "https://github.com/Ana", "https://github.com/bob"
REPOSITORY = "https://github.com/bob/novel"


def entry(kind: str, number: int, user: str = ME, **more: Any) -> dict[str, Any]:
    url = f"{REPOSITORY}/{kind}/{number}"
    return {
        "url": url,
        "user": user,
        "repository": REPOSITORY,
        "body": "private",
        "created_at": "2026-03-01T08:00:00Z",
        **more,
    }


def test_activity_on_github_is_one_s_own_and_without_words(home: HomeOnDisk, tmp_path: Path) -> None:
    files = {
        "schema.json": {"version": "1.2.0"},
        "users_000001.json": [{"type": "user", "url": ME, "login": "Ana"}],
        "issues_000001.json": [entry("issues", 1, closed_at=None), entry("issues", 2, OTHER)],
        "pull_requests_000001.json": [
            entry("pull", 3, merged_at="2026-03-02T08:00:00Z", closed_at="2026-03-02T08:00:00Z"),
            entry("pull", 4, merged_at=None, closed_at="2026-03-02T08:00:00Z"),
            entry("pull", 5, merged_at=None, closed_at=None),
        ],
        "issue_comments_000001.json": [entry("issues/1#c", 9), entry("issues/1#c", 10, OTHER)],
        "../../etc/issues_000002.json": [entry("issues", 7)],
    }
    file = archive(tmp_path / "export.tar.gz", files)
    assert home.collect(Github(), "--file", str(file), "--user", "ana") == Outcome(6, 0)
    assert home.collect(Github(), "--file", str(file), "--user", "ana") == Outcome(0, 6)
    accepted = [row["accepted"] for row in home.rows("github", "pull_requests")]
    assert accepted == [True, False, None]
    assert {row["repository"] for row in home.rows("github", "issues")} == {"bob/novel"}
    assert home.rows("github", "comments")[0]["length"] == 7
    assert "private" not in json.dumps(home.store.export())
    assert not (tmp_path.parent / "etc").exists()


@pytest.mark.parametrize(
    "files",
    [
        {"readme.txt": b"nothing"},
        {"issues_000001.json": b"[{"},
        {"issues_000001.json": ["text"]},
        {"issues_000001.json": [{"user": ME}]},
    ],
)
def test_an_archive_that_is_none_of_github_is_a_mistake(home: HomeOnDisk, tmp_path: Path, files: Any) -> None:
    file = archive(tmp_path / "export.tar.gz", files)
    with pytest.raises(Mistake, match=r"json|export"):
        home.collect(Github(), "--file", str(file), "--user", "ana")
    assert home.rows("github", "issues") == []
