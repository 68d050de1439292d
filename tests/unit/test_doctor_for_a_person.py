"""`thebes doctor` for a person: each line says how something stands, and what to do where it does not."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.command import exit_status
from tests.support.user_units import systemd
from thebes.cli.homes.examination import Surroundings, examined
from thebes.cli.homes.findings import HomeFinding, How
from thebes.collectors.installation import Installed, Record
from thebes.person.autostart import autostart
from thebes.person.home import Person
from thebes.person.tasks.task_feed import pin
from thebes.wire import task_log
from thebes.wire.access import make_token

sys.path.insert(0, str(Path(__file__).parent))
from test_doctor import answering, everything

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC).timestamp()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with Person(tmp_path / "me", delay=False, clock=lambda: NOW) as me:
        me.set_settings({"local": {"epsilon": 3.0}, "task": {"epsilon": 1.0, "delta": 1e-7}})
        make_token(me.home)
    return tmp_path / "me"


def look(home: Path, coordinator: str | None = None) -> dict[str, HomeFinding]:
    before = everything(home)
    found = list(examined(home, Surroundings(coordinator, clock=lambda: NOW)))
    assert everything(home) == before
    for finding in found:
        assert finding.how is How.OK or finding.advice, finding
    return {finding.what: finding for finding in found}


def one(found: dict[str, HomeFinding], words: str) -> HomeFinding:
    (finding,) = [finding for what, finding in found.items() if words in what]
    return finding


def test_a_machine_that_runs_and_starts_by_itself_is_told_from_one_that_does_not(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd(tmp_path, monkeypatch, answers=True)
    found = look(home)
    assert one(found, "starts with this user's session").advice == (
        f"if it is to: thebes person autostart on --home {home}"
    )
    assert "thebes person --home" in one(found, "runs on this home").advice
    autostart(home).turn_on()
    assert one(look(home), "starts with this user's session").how is How.OK


@pytest.mark.parametrize("on", [False, True])
def test_where_no_systemd_answers_nothing_is_said_to_start_by_itself(
    on: bool, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    systemd(tmp_path, monkeypatch, answers=False)
    if on:
        autostart(home).turn_on()
    finding = one(look(home), "starts with this user's session")
    assert finding.how is (How.WARNING if on else How.ABSENT)
    assert "no systemd answers for this user" in finding.advice
    assert f"by hand: thebes person --home {home}" in finding.advice
    assert exit_status("doctor", "--home", home) == 0, "a machine that is started by hand is sound"
    assert exit_status("person", "autostart", "show", "--home", home) == 0
    assert ("On, but not here: no systemd" if on else "Off: ") in capsys.readouterr().out


def test_what_the_limits_leave_is_told_for_each_budget(home: Path) -> None:
    found = look(home)
    assert one(found, "noised on this machine").what.startswith("3 left of the epsilon 3 until 20")
    assert one(found, "limits were chosen").how is How.OK
    with Person(home, delay=False, clock=lambda: NOW) as me:
        blocks = me._budget.blocks("local")
        me._ledger.reserve([b.name for b in blocks], epsilon=2.5, delta=0, purpose="a mean", spender="ana").consume()
    left = one(look(home), "noised on this machine")
    assert (left.how, left.what[:25]) == (How.OK, "0.5 left of the epsilon 3")
    with Person(home, delay=False, clock=lambda: NOW) as me:
        blocks = me._budget.blocks("local")
        me._ledger.reserve([b.name for b in blocks], epsilon=0.5, delta=0, purpose="a mean", spender="ana").consume()
    found = look(home)
    spent = one(found, "noised on this machine")
    assert spent.how is How.WARNING
    assert "/limits" in spent.advice
    assert not [what for what in found if "two servers" in what], "theirs is part of another"
    own = {"epsilon": 2, "delta": 0, "overall_epsilon": 4, "overall_delta": 0}
    with Person(home, delay=False, clock=lambda: NOW) as me:
        me.set_settings({"split": own})
    assert one(look(home), "where one of two servers is trusted").what.startswith("2 left of the epsilon 2")


def test_a_collector_that_failed_or_never_ran_is_told_with_the_command_that_runs_it(home: Path) -> None:
    place = Installed(home)
    told = {
        "fine": {"last_at": "2029-12-31T10:00:00+00:00", "last_rows": 3},
        "failed": {"last_at": "2029-12-31T10:00:00+00:00", "last_error": "the file is gone"},
        "never": {},
        "alone": {"last_at": "2029-12-31T10:00:00+00:00", "every_seconds": 60.0},
    }
    for app, facts in told.items():
        installed = "2029-12-30T10:00:00+00:00"
        place.write(Record(app=app, collector="git", version=1, installed_at=installed, **facts))  # type: ignore[arg-type]
    found = look(home)
    assert one(found, "collector fine").how is How.OK
    for app, command in (("failed", "run failed"), ("never", "run never"), ("alone", "run --all --every")):
        finding = one(found, f"collector {app}")
        assert finding.how is How.WARNING
        assert f"thebes collector {command}" in finding.advice


@pytest.fixture
def signed() -> bytes:
    return task_log.new_key()


def published(key: bytes, count: int = 2) -> bytes:
    entries: list[task_log.TaskLogEntry] = []
    for number in range(count):
        entries.append(task_log.TaskLogEntry.after(entries[-1] if entries else None, f"task{number}", "0" * 64))
    return json.dumps(task_log.published(key, entries)).encode()


def test_the_list_is_held_against_the_key_that_was_pinned_and_its_fingerprint_shown(home: Path, signed: bytes) -> None:
    public = task_log.public_key(signed)
    with answering(0.0, published(signed)) as url:
        assert one(look(home, url), "key of the coordinator's list is pinned").how is How.ABSENT
        for pinned in (public, task_log.fingerprint(public)):
            pin(home, pinned)
            found = one(look(home, url), "list is signed by the key")
            assert found.how is How.OK
            assert task_log.fingerprint(public) in found.what
        pin(home, task_log.public_key(task_log.new_key()))
        assert one(look(home, url), "list is signed by the key").how is How.WARNING
    pin(home, public)
    wrong = published(signed).replace(b"task1", b"task7")
    with answering(0.0, wrong) as url:
        assert one(look(home, url), "list is signed by the key").how is How.BROKEN
