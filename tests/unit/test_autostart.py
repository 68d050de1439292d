"""The start of a person's machine with the session: a unit of systemd that runs as it stands, an agent of launchd."""

from __future__ import annotations

import os
import plistlib
import shutil
import signal
import stat
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.support.command import exit_status
from tests.support.user_units import UserService, settings, systemd, until, words
from thebes.machine import NotOnThisSystem
from thebes.person.autostart import autostart
from thebes.person.client import PersonClient
from thebes.person.folder import announced
from thebes.person.home import Person

NOBODY = "http://127.0.0.1:1"  #: a coordinator that nobody runs


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    (tmp_path / "user").mkdir()
    return tmp_path / "user"


@pytest.fixture
def home(user: Path) -> Path:
    Person(user / "my data", coordinator=NOBODY).close()
    return user / "my data"


def unit_of(user: Path) -> Path:
    (unit,) = (user / ".config" / "systemd" / "user").glob("*.service")
    return unit


def test_on_writes_a_unit_that_is_wanted_and_off_leaves_nothing(
    user: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd(user, monkeypatch, answers=True)
    assert exit_status("person", "autostart", "show", "--home", home) == 0
    assert capsys.readouterr().out.startswith("Off: ")
    for _ in range(2):  # again changes nothing
        assert exit_status("person", "autostart", "on", "--home", home) == 0
    told = capsys.readouterr().out
    unit = unit_of(user)
    assert str(unit) in told
    assert "--open" in told
    assert settings(unit, "Install") == {"WantedBy": "default.target"}
    link = unit.parent / "default.target.wants" / unit.name
    assert link.resolve() == unit.resolve()
    assert stat.S_IMODE(unit.stat().st_mode) == 0o600
    assert exit_status("person", "autostart", "off", "--home", home) == 0
    assert not [path for path in (user / ".config").rglob("*") if not path.is_dir()]


def test_the_line_that_lets_a_browser_in_is_written_nowhere(user: Path, home: Path) -> None:
    autostart(home).turn_on()
    assert settings(unit_of(user), "Service")["StandardOutput"] == "null"
    agent = plistlib.loads(autostart(home, system="darwin", user=user).content)
    assert agent["StandardOutPath"] == "/dev/null"


@pytest.mark.parametrize("name", ["plain", "a space", 'a"quote', "back\\slash", "100%h", "$HOME", "ünïcode", "it's"])
def test_a_unit_names_the_home_whatever_it_is_called(user: Path, name: str) -> None:
    autostart(user / name).turn_on()
    said = words(settings(unit_of(user), "Service")["ExecStart"])
    assert said == [sys.executable, "-m", "thebes", "person", "--home", str(user / name)]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.slow
def test_systemd_finds_nothing_wrong_with_the_unit(user: Path, home: Path) -> None:
    autostart(home).turn_on()
    unit = unit_of(user)
    asked = ["systemd-analyze", "--user", "verify", "--man=no", str(unit)]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(user)}

    def complaints() -> list[str]:
        found = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False, env=environment)
        return [line for line in found.stderr.splitlines() if unit.name in line]

    assert complaints() == []
    unit.write_text(unit.read_text().replace("RestartSec=", "RestartSecond="))
    assert [line for line in complaints() if "RestartSecond" in line]  # so it would have said of a mistake


#: every key of launchd.plist(5) that is used, with its type there
LAUNCHD = {
    "Label": "string", "ProgramArguments": "array", "EnvironmentVariables": "dict", "RunAtLoad": "true",
    "KeepAlive": "dict", "ThrottleInterval": "integer", "ProcessType": "string", "StandardOutPath": "string",
    "Umask": "integer",
}  # fmt: skip


def test_an_agent_of_launchd_is_a_property_list_with_keys_that_it_knows(user: Path) -> None:
    made = autostart(user / 'a & "b"', system="darwin", user=user)
    made.turn_on()
    assert made.path == user / "Library" / "LaunchAgents" / made.path.name
    told = plistlib.loads(made.path.read_bytes())
    assert told["ProgramArguments"] == [sys.executable, "-m", "thebes", "person", "--home", str(user / 'a & "b"')]
    assert made.path.name == f"{told['Label']}.plist"
    entries = list(ElementTree.fromstring(made.path.read_bytes())[0])
    assert {key.text: value.tag for key, value in zip(entries[::2], entries[1::2], strict=True)} == LAUNCHD
    assert made.on
    made.turn_off()
    assert not made.path.exists()


def test_two_homes_of_a_user_do_not_share_a_file(user: Path) -> None:
    for system in ("linux", "darwin"):
        first, second = (autostart(user / name, system=system) for name in ("one", "two"))
        assert first.path != second.path
        assert "one" not in first.path.name


def test_windows_is_told_not_yet(user: Path) -> None:
    with pytest.raises(NotOnThisSystem, match="nothing starts with a session on this system yet"):
        autostart(user / "home", system="win32")


def test_a_home_that_could_not_start_by_itself_is_refused(user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Person(user / "nobodys").close()
    Person(user / "sealed", coordinator=NOBODY, passphrase="correct horse").close()
    for name, why in (("nobodys", "knows no coordinator"), ("sealed", "made from a passphrase")):
        assert exit_status("person", "autostart", "on", "--home", user / name) == 1
        assert why in capsys.readouterr().err
    (user / "empty").mkdir()
    assert exit_status("person", "autostart", "on", "--home", user / "empty") == 2
    assert not (user / ".config").exists()


@pytest.mark.slow
def test_the_command_of_the_unit_runs_as_it_stands_and_comes_back_after_a_crash(user: Path, home: Path) -> None:
    """By a runner of our own: `systemd --user` needs a machine that systemd has started."""
    assert exit_status("person", "autostart", "on", "--home", home) == 0
    pauses: list[float] = []
    log = user / "journal"
    service = UserService(unit_of(user), user, log, pauses.append)
    try:
        until(lambda: announced(home).get("pid") == service.process.pid)
        with PersonClient.running(home) as me:  # type: ignore[union-attr]
            assert me.settings()["coordinator"] == NOBODY
            assert me.address().startswith("http://127.0.0.1:")
        service.process.send_signal(signal.SIGKILL)
        assert service.follow()
        assert pauses == [30.0]
        until(lambda: announced(home).get("pid") == service.process.pid)
    finally:
        status = service.stop()
    assert status == 0
    assert not service.follow()  # who stops it means it
    assert service.starts == 2
    assert "?code=" not in log.read_text()
    (home / "person.toml").write_text("nonsense = 1\n")
    mistaken = UserService(unit_of(user), user, log, pauses.append)
    assert not mistaken.follow()
    assert mistaken.process.returncode == 2


def test_what_starts_a_home_goes_with_it(user: Path, home: Path) -> None:
    autostart(home).turn_on()
    with Person(home) as me:
        me.destroy()
    assert not [path for path in (user / ".config").rglob("*") if not path.is_dir()]


def test_what_starts_a_home_that_is_gone_can_be_seen_and_turned_off(
    user: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    autostart(home).turn_on()
    shutil.rmtree(home)
    assert exit_status("person", "autostart", "show", "--home", home) == 0
    assert capsys.readouterr().out.startswith("On")
    assert exit_status("person", "autostart", "off", "--home", home) == 0
    assert capsys.readouterr().out.startswith("Off: ")
    assert not [path for path in (user / ".config").rglob("*") if not path.is_dir()]


def test_where_no_systemd_answers_that_is_said(
    user: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(user))  # no systemctl
    assert exit_status("person", "autostart", "on", "--home", home) == 0
    assert "On, but not here: no systemd answers for this user" in capsys.readouterr().out
    answering = user / "systemctl"
    answering.write_text("#!/bin/sh\nexit 0\n")
    answering.chmod(0o700)
    assert exit_status("person", "autostart", "on", "--home", home) == 0
    assert "no systemd" not in capsys.readouterr().out


def test_an_address_with_a_mistake_leaves_no_folder(user: Path) -> None:
    assert exit_status("person", "--home", user / "nonsense", "--coordinator", "blah") == 2
    assert not (user / "nonsense").exists()
