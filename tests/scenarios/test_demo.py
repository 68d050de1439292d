"""`thebes demo`: real processes and people, every kind of task, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from thebes.tasks import registry

PATIENCE = 240.0  #: seconds for what takes some on an idle machine
DEMO = [sys.executable, "-m", "thebes.cli.main", "demo"]


def started(place: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*DEMO, *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(place)},
        cwd=place.parent,
    )


def known(process: Path) -> bytes:
    """Return what a process was started with, as far as it lives and may be looked at."""
    try:
        return (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
    except OSError:
        return b""


def left_over(place: Path) -> list[str]:
    """Whatever still runs with that folder for its temporary files, or knows it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        told = known(process)  # read once: it may be gone the next moment
        if str(place).encode() in told and process.name != str(os.getpid()):
            found.append(told.replace(b"\0", b" ").decode(errors="replace"))
    return found


def started_by(pid: int) -> list[Path]:
    """The processes that this one started itself, and not what those started."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            if int((process / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(process)
    return found


def people(place: Path) -> list[Path]:
    """The homes that have come so far; none while a folder goes just as it is looked into."""
    with suppress(FileNotFoundError):
        return list(place.glob("*/person-*/person.db"))
    return []


def nothing_is_left(place: Path) -> None:
    end = time.monotonic() + PATIENCE  # a killed child takes a moment to go
    while left := left_over(place):
        assert time.monotonic() < end, left
        time.sleep(0.1)
    assert list(place.iterdir()) == []


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@pytest.mark.heavy  # CI runs `make demo` itself, whose every scene must not fail and which must leave nothing
def test_every_kind_and_problem_is_answered_and_nothing_is_left(place: Path) -> None:
    running = started(place, "--people", "50", "--exit", "--json")
    out, err = running.communicate(timeout=8 * PATIENCE)
    assert running.returncode == 0, err
    body = json.loads(out)
    assert set(body) >= {"tasks", "urls", "seconds"}
    assert {task["type"] for task in body["tasks"]} == {*registry.types()}
    for task in body["tasks"]:
        assert set(task) >= {"type", "name", "true", "value", "interval", "epsilon", "seconds", "ok"}
        # so few people teach little, and one bar in twenty misses
        assert task["verdict"] in ("ok", "guess" if "metric" in task else "outside")
        assert task["ok"] is (task["verdict"] == "ok")
        assert isinstance(task["true"], float)
        assert isinstance(task["value"], float)
        assert (task["interval"] is None) == ("metric" in task) == ("guessing" in task)
        if task["interval"] is not None:
            assert task["interval"]["low"] <= task["interval"]["high"]
    names = [task["name"] for task in body["tasks"]]
    assert len(set(names)) == len(names)
    assert {"median age", "share of men", "gender from sites", "share of women, mixed", "mean age, two servers"} <= set(
        names
    )
    refused = next(task for task in body["tasks"] if task["name"] == "glucose, not harbour")
    assert "policy" in refused["missing"]["harbour"]
    assert set(body["urls"]) == {"coordinator", "person", "site north", "site south", "site harbour"}
    assert body["seconds"] >= sum(task["seconds"] for task in body["tasks"])
    assert "releas" in err  # the table, beside the JSON
    assert "another version" not in err
    assert all(
        f"{task['name']}: {task['verdict']}, " in err for task in body["tasks"]
    )  # told while it went on: there was no terminal
    assert "people have come in and 3 sites are linked, " in err
    assert not any(url in err for url in body["urls"].values())  # nobody answers there any more
    nothing_is_left(place)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_in_the_middle_it_leaves_nothing(place: Path, number: int) -> None:
    running = started(place, "--people", "50")
    end = time.monotonic() + PATIENCE
    while not people(place):
        assert time.monotonic() < end
        time.sleep(0.05)
    running.send_signal(number)
    _, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 1
    assert "stopped" in err
    assert "Traceback" not in err
    nothing_is_left(place)


@pytest.mark.slow
def test_killed_in_the_middle_its_processes_end_by_themselves_and_the_next_demo_sweeps(place: Path) -> None:
    running = started(place, "--people", "50")
    end = time.monotonic() + PATIENCE
    while not people(place):
        assert running.poll() is None
        assert time.monotonic() < end
        time.sleep(0.05)
    (left,) = place.iterdir()
    running.kill()
    running.communicate(timeout=PATIENCE)
    while still := left_over(place):
        assert time.monotonic() < end + PATIENCE, still
        time.sleep(0.1)
    assert left.is_dir()  # nobody was there to remove it
    again = started(place, "--people", "50")
    while not people(place) or left.is_dir():
        assert again.poll() is None
        assert time.monotonic() < end + 2 * PATIENCE
        time.sleep(0.05)
    again.send_signal(signal.SIGTERM)
    again.communicate(timeout=PATIENCE)
    nothing_is_left(place)


@pytest.mark.slow
def test_where_a_process_is_killed_the_demo_names_it_and_ends(place: Path) -> None:
    running = started(place, "--people", "50")
    found: list[str] = []
    end = time.monotonic() + PATIENCE
    while not found:
        assert time.monotonic() < end
        time.sleep(0.05)
        if people(place):
            found = [each.name for each in started_by(running.pid) if b"thebes.cli.demo.crowd" in known(each)]
    os.kill(int(found[0]), signal.SIGKILL)
    _, err = running.communicate(timeout=PATIENCE)
    assert running.returncode == 1
    assert "thebes: crowd-" in err
    assert "has ended: it was killed (SIGKILL)" in err
    assert "Traceback" not in err
    nothing_is_left(place)


@pytest.mark.slow
def test_a_part_that_cannot_start_is_named_and_nothing_is_left(place: Path) -> None:
    """Without room for a socket there is no coordinator."""
    code = (
        "import sys, thebes.cli.demo.deployment as stage; from thebes.cli import main\n"
        "start = stage.Stage._start\n"
        "stage.Stage._start = lambda self, name, *a: start(self, name, *[x if x != '0' else '70000' for x in a])\n"
        "sys.argv = ['thebes', 'demo', '--people', '50', '--exit']; main.main()"
    )
    environment = {**os.environ, "TMPDIR": str(place)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, env=environment
    )
    assert done.returncode == 1
    assert "coordinator has ended" in done.stderr
    assert "Traceback" not in done.stderr
    nothing_is_left(place)
