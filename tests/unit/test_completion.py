"""The shell completes commands and options, without loading what commands need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ("numpy", "pandas", "scipy", "httpx", "sqlalchemy", "jwt", "thebes.tasks.registry")
PROGRAM = f"""
import sys
sys.argv = ["thebes"]
from thebes.cli.main import main
try:
    main()
except SystemExit:
    pass
print("loaded", [name for name in {HEAVY!r} if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("typed", "place", "offered"),
    [("thebes lo", 1, "login\nlogout"), ("thebes task su", 2, "submit"), ("thebes sql --eps", 2, "--epsilon")],
)
def test_what_is_begun_is_completed_and_nothing_heavy_is_loaded(typed: str, place: int, offered: str) -> None:
    asked = {"_THEBES_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(place)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={**os.environ, **asked}, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == f"{offered}\nloaded []\n", done.stderr


def test_completion_is_installed_for_a_shell_that_is_named(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM.replace('["thebes"]', '["thebes", "--show-completion", "bash"]')]
    done = subprocess.run(
        command, env={**os.environ, "HOME": str(tmp_path)}, capture_output=True, text=True, timeout=60
    )
    assert "complete -o default -F _thebes_completion thebes" in done.stdout, done.stderr
    assert not [*tmp_path.rglob("*")], "showing it writes nothing"
