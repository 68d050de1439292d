"""A pipeline that is killed with SIGKILL, in real processes, at every step of a run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KILLER = Path(__file__).with_name("pipeline_killer.py")


def killed(folder: Path, strategy: str, stride: int) -> list[dict[str, Any]]:
    """What was found after each kill; the last says how many steps there are."""
    command = [sys.executable, str(KILLER), str(folder / "homes"), strategy, str(stride)]
    quiet = {**os.environ, "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
    done = subprocess.run(command, capture_output=True, text=True, env=quiet, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def fair(one: dict[str, Any]) -> None:
    """What holds wherever a process was killed."""
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
    assert {"after Ledger._write", "before Killed.train", "before Killed.validate", "before Path.rename"} <= wheres
    trained = next(place for place, one in enumerate(found) if one["where"] == "before Killed.train")
    judged = next(place for place, one in enumerate(found) if one["where"] == "before Path.rename")
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
