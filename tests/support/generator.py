"""A client generated from the coordinator's description, by a generator that lives in an environment of its own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "clients" / "python"
REQUIRE = "THEBES_REQUIRE"
_PLACE = ROOT / ".venv-generator"


def environment() -> Path:
    """The interpreter of the generator's environment, made where there is none. Where its packages cannot be had the
    test is skipped, or fails where THEBES_REQUIRE names `generator`."""
    wanted = EXAMPLE / "requirements.txt"
    digest = hashlib.sha256(wanted.read_bytes()).hexdigest()
    mark, python = _PLACE / ".made-from", _PLACE / "bin" / "python"
    if mark.is_file() and mark.read_text() == digest:
        return python
    shutil.rmtree(_PLACE, ignore_errors=True)
    base = getattr(sys, "_base_executable", sys.executable)
    for command in (
        [base, "-m", "venv", str(_PLACE)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(wanted)],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            if "generator" in os.environ.get(REQUIRE, ""):
                pytest.fail(f"the generator cannot be installed: {done.stderr[-500:]}")
            pytest.skip("the generator's packages cannot be had")
    mark.write_text(digest)
    return python


def generated(python: Path, description: str, folder: Path) -> str:
    """Generate the package `thebes_api` into a folder; what the generator warned of."""
    (folder / "api.json").write_text(description)
    command = [str(python), "-m", "openapi_python_client", "generate", "--path", "api.json", "--meta", "none"]
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [*command, "--output-path", "thebes_api"],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
