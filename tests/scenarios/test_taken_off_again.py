"""A person's machine is taken off a computer again, by the words of the tutorial as they stand."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from processes import PersonProcess

from tests.support.command import exit_status

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial-person.md"
NOBODY = "http://127.0.0.1:1"  #: a coordinator that nobody runs


def commands() -> list[str]:
    section = TUTORIAL.read_text(encoding="utf-8").split("## Stop, and take it off")[1]
    block = re.search(r"```console\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return [line.removeprefix("$ ") for line in block[1].splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("runs", [True, False])
def test_what_the_tutorial_says_takes_everything_away(
    runs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    program = tmp_path / "thebes-program" / "bin"
    program.mkdir(parents=True)
    (program / "thebes").write_text(f'#!/bin/sh\nexec {sys.executable} -m thebes "$@"\n')
    (program / "thebes").chmod(0o700)
    person = PersonProcess(tmp_path / "thebes", NOBODY, "--example")
    person.ready()
    assert exit_status("person", "autostart", "on", "--home", tmp_path / "thebes") == 0
    if not runs:
        assert person.process.stop() == 0
    monkeypatch.setenv("PATH", str(program), prepend=":")
    for command in commands():
        told = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
        assert told.returncode == 0, (command, told)
    if runs:
        assert person.process.ended() == 0, "it ends with its home"
    assert not [each for each in tmp_path.rglob("*") if not each.is_dir()]
    assert not (tmp_path / "thebes").exists()
    assert shutil.which("thebes", path=str(program)) is None
