"""The coordinator's own site, as real processes: there without a certificate, killed, started again, gone with it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator import Server
from thebes.testing.command import typed

pytestmark = pytest.mark.slow
COUNT = {"type": "query", "statistic": "count", "dataset": "visits", "epsilon": 1.0, "sites": ["local"]}
SCHEMA = {"unit": "event", "columns": {"age": {"type": "integer", "low": 0, "high": 120}}}


def dataset(home: Path, *arguments: str) -> None:
    done = typed("dataset", *arguments, "--home", home)
    assert done.returncode == 0, done.stderr


def made(home: Path) -> None:
    (home.parent / "schema.json").write_text(json.dumps(SCHEMA))
    (home.parent / "visits.csv").write_text("age\n" + "".join(f"{20 + n % 50}\n" for n in range(1000)))
    files = ("--schema", str(home.parent / "schema.json"), "--source", str(home.parent / "visits.csv"))
    dataset(home, "create", "visits", *files, "--epsilon", "5")


def until(condition: Callable[[], Any], seconds: float = 120) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "not in time"
        time.sleep(0.05)
    return found


def state(server: Server) -> str | None:
    known = {site["name"]: site for site in server.client.get("/api/site").json()}
    return known["local"]["state"] if "local" in known and known["local"]["datasets"] else None


def process(home: Path) -> int | None:
    """The process with the rows."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"thebes.site.algorithm_process" in line and str(home).encode() in line:
                return int(entry.name)
    return None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("local")
    with Server(folder / "home", log=folder / "log") as started:
        assert started.client.get("/api/site").json() == []
        assert process(folder / "home") is None
        made(folder / "home")  # while it runs
        yield started
    assert process(folder / "home") is None
    assert "Traceback" not in (folder / "log").read_text()


def test_data_sets_in_the_coordinator_s_home_make_its_own_site(server: Server) -> None:
    until(lambda: state(server) == "connected")
    (site,) = server.client.get("/api/site").json()
    assert site["name"] == "local"
    assert site["datasets"]["visits"]["schema"]["columns"] == {"age": {"type": "integer", "low": 0.0, "high": 120.0}}
    assert "1000" not in json.dumps(site)


def test_it_refuses_everything_until_its_policy_allows_it_and_then_answers(server: Server) -> None:
    until(lambda: state(server) == "connected")
    refused = server.wait_for(server.post(COUNT), "expired")
    told = server.progress(refused["task_id"])["sites"]
    assert told["missing"]["local"].startswith("refused: ")
    dataset(server.folder, "grant", "visits", "--to", "the operator", "--kinds", "query", "--epsilon", "4")
    done = server.wait_for(server.post({**COUNT, "epsilon": 2.0}), "done")
    assert abs(done["result"]["value"] - 1000) < 30
    assert done["result"]["cost"]["epsilon"] == 2.0


def test_killed_it_is_started_again_and_what_is_asked_meanwhile_is_answered(server: Server) -> None:
    until(lambda: state(server) == "connected")
    dataset(server.folder, "grant", "visits", "--to", "*", "--kinds", "*", "--epsilon", "5")
    first = until(lambda: process(server.folder))
    os.kill(first, signal.SIGKILL)
    done = server.wait_for(server.post({**COUNT, "epsilon": 0.5}), "done")
    assert abs(done["result"]["value"] - 1000) < 100
    assert process(server.folder) not in (None, first)


def test_a_killed_coordinator_leaves_none_behind_and_the_next_one_has_its_own(tmp_path: Path) -> None:
    with Server(tmp_path / "home") as first:
        made(tmp_path / "home")
        dataset(tmp_path / "home", "grant", "visits", "--to", "*", "--kinds", "*", "--epsilon", "5")
        until(lambda: state(first) == "connected")
        task = first.post(COUNT)
        first.kill()
    until(lambda: process(tmp_path / "home") is None)
    with Server(tmp_path / "home") as second:
        done = second.wait_for(task, "done")
        assert abs(done["result"]["value"] - 1000) < 60
        assert until(lambda: process(tmp_path / "home"))
    until(lambda: process(tmp_path / "home") is None)
