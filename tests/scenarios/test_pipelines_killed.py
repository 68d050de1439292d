"""A pipeline that is killed with SIGKILL, in real processes, at every step of a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.pipelines import SCHEMA

KILLER = Path(__file__).with_name("pipeline_killer.py")
#: what is started here finds our tests' own parts from wherever it runs
QUIET = {"PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring", "PYTHONPATH": str(Path(__file__).parents[2])}


def killed(folder: Path, strategy: str, stride: int) -> list[dict[str, Any]]:
    """Return what was found after each kill; the last says how many steps there are."""
    command = [sys.executable, str(KILLER), str(folder / "homes"), strategy, str(stride)]
    quiet = {**os.environ, **QUIET}
    done = subprocess.run(command, capture_output=True, text=True, env=quiet, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def fair(one: dict[str, Any]) -> None:
    """Check what holds wherever a process was killed."""
    assert one["open"] == 0, "what was only reserved has gone back"
    assert one["exact"], "blocks have paid for the attempts that say so, and for nothing else"
    assert one["spare"] == []
    assert one["published_before"] <= one["versions"]
    assert one["versions"] <= one["runs"]


@pytest.mark.slow
def test_a_run_killed_at_any_step_goes_on_or_is_abandoned_and_its_budget_is_right(tmp_path: Path) -> None:
    *found, last = killed(tmp_path, "aggressive", 1)
    assert last["steps"] == len(found) > 20
    wheres = {one["where"] for one in found}
    assert {"after Ledger._write", "before Killed.train", "before Killed.validate", "before os.replace"} <= wheres
    trained = next(place for place, one in enumerate(found) if one["where"] == "before Killed.train")
    judged = next(place for place, one in enumerate(found) if one["where"] == "before os.replace")
    for place, one in enumerate(found):
        fair(one)
        assert one["most"] <= 1 or one["runs"] == 2  # a run takes no more than its limits
        if one["where"] in ("before Killed.train", "after Killed.train", "before Killed.validate"):
            assert one["states"] == ["lost"]  # paid, and nothing came of it: its limits allow these blocks no more
            assert (one["verdict"], one["versions"]) == ("RETRY", 0)
        if place < trained - 5:
            assert one["verdict"] == "ACCEPT"  # nothing was charged yet: it begins again
            assert one["versions"] == 1
        if judged <= place < len(found) - 1:
            assert (one["verdict"], one["versions"], one["runs"]) == ("ACCEPT", 1, 1)  # its verdict stands


@pytest.mark.slow
def test_a_run_of_several_attempts_goes_on_after_a_kill(tmp_path: Path) -> None:
    *found, _ = killed(tmp_path, "conserve", 6)
    for one in found:
        fair(one)
        assert one["verdict"] in ("ACCEPT", "RETRY")
        assert one["states"].count("lost") <= 1
        assert one["most"] <= 1 or one["runs"] == 2
    assert sum(one["verdict"] == "ACCEPT" for one in found) > len(found) / 2


FILE = """
import time
from pathlib import Path
from tests.support.pipelines import Lines

class Slopes(Lines):
    name = "slopes"
    epsilon = 0.25

    def train(self, data, budget):
        Path("training").touch()
        while Path("slow").exists():
            time.sleep(0.05)
        return super().train(data, budget)
"""


class Command:
    """`thebes pipeline` at a home, in processes of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[subprocess.Popen[str]] = []
        (folder / "slopes.py").write_text(FILE)
        schema = json.dumps(SCHEMA.as_json())
        (folder / "schema.json").write_text(schema)
        create = ("--schema", "schema.json", "--block-by", "time:1d", "--epsilon", "9")
        self.done("dataset", "create", "rides", "--home", "site", *create)
        chance = np.random.default_rng(1)
        x = chance.random(4000)
        at = pd.Timestamp("2026-10-01") + pd.to_timedelta(chance.random(4000) * 3.99, unit="D")
        pd.DataFrame({"at": at, "x": x, "y": 0.8 * x}).to_parquet(folder / "rides.parquet")
        self.done("dataset", "ingest", "rides", "rides.parquet", "--home", "site")
        grant = ("--to", "ana", "--kinds", "pipeline", "--epsilon", "9")
        self.done("dataset", "grant", "rides", "--home", "site", *grant)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        quiet = {**os.environ, **QUIET}
        command = [sys.executable, "-m", "thebes.cli.main", *arguments]
        made = subprocess.Popen(
            command, cwd=self.folder, env=quiet, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.running.append(made)
        return made

    def done(self, *arguments: str) -> str:
        out, err = self.start(*arguments).communicate(timeout=240)
        assert self.running[-1].returncode == 0, err
        return out

    def runs(self) -> list[dict[str, Any]]:
        """Of the only pipeline, newest first."""
        found = json.loads(self.done("pipeline", "list", "--home", "site", "--json"))["pipelines"]
        return list(found[0]["runs"]) if found else []


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    made = Command(tmp_path)
    yield made
    for one in made.running:
        if one.poll() is None:
            one.kill()
            one.wait()


RUN = ("pipeline", "run", "slopes.py", "--home", "site", "--as", "ana")


@pytest.mark.slow
def test_a_command_that_is_killed_while_it_trains_has_paid_once_and_the_next_goes_on(command: Command) -> None:
    (command.folder / "slow").touch()
    first = command.start(*RUN)
    until(lambda: (command.folder / "training").exists())
    second = command.start(*RUN)
    _, err = second.communicate(timeout=240)
    assert second.returncode == 1
    assert "being run already" in err
    first.kill()
    first.wait()
    (command.folder / "slow").unlink()
    command.done(*RUN)
    (run,) = command.runs()
    lost, *others = run["attempts"]
    assert lost["state"] == "lost"
    assert others
    assert not set(lost["blocks"]) & set(others[0]["blocks"])  # it has had all that it may of these
    shown = json.loads(command.done("dataset", "show", "rides", "--home", "site", "--json"))
    paid = {block["block"]: 9 - block["remaining"]["epsilon"] for block in shown["blocks"]}
    assert paid[lost["blocks"][0]] == pytest.approx(0.25 + 0.45)  # and its size


@pytest.mark.slow
def test_a_pipeline_that_is_launched_periodically_ends_when_it_is_told_to(command: Command) -> None:
    periodic = command.start(*RUN, "--every", "1s")
    until(lambda: len([run for run in command.runs() if run["attempts"]]) >= 1)
    periodic.send_signal(signal.SIGTERM)
    assert periodic.wait(timeout=240) == 0
    for run in command.runs():
        assert all(attempt["state"] != "charged" for attempt in run["attempts"])


@pytest.mark.slow
def test_what_is_being_learned_when_it_is_told_to_end_is_learned_to_its_end(command: Command) -> None:
    (command.folder / "slow").touch()
    periodic = command.start(*RUN, "--every", "1d")
    until(lambda: (command.folder / "training").exists())
    periodic.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert periodic.poll() is None
    (command.folder / "slow").unlink()
    assert periodic.wait(timeout=240) == 0
    [run] = command.runs()
    assert [bool(attempt["verdict"]) for attempt in run["attempts"]] == [True]


def until(truth: Callable[[], bool], seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not truth():
        assert time.monotonic() < end
        time.sleep(0.1)
