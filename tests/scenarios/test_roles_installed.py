"""Each role from an environment of its own: how large it is, and that its scenario runs with what is in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.coordinator import PETS, Server

sys.path.insert(0, str(Path(__file__).parent))
from processes import PersonProcess

ROOT = Path(__file__).parents[2]
THIN = ROOT / "tests" / "support" / "thin"
LARGEST = {
    "": 180,
    "site": 520,
    "coordinator": 400,
}  #: megabytes, before Python compiles what it uses


@pytest.mark.slow
def test_a_person_contributes_without_the_other_roles_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(tmp_path / "coordinator") as server:
        task = server.post(PETS)
        monkeypatch.setenv("PYTHONPATH", str(THIN), prepend=os.pathsep)
        person = PersonProcess(tmp_path / "person", server.ready["url"], "--example")
        monkeypatch.undo()
        try:
            person.ready()
            assert person.accept(task) in (200, 202)
            assert person.wait(task, "sent", "done")
        finally:
            assert person.process.stop() == 0


@pytest.mark.heavy  # half a minute and some hundred megabytes of packages each
@pytest.mark.parametrize("extra", LARGEST)
def test_an_environment_is_as_small_as_is_said(extra: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "made"], check=True)
    python = tmp_path / "made" / "bin" / "python"
    wanted = f"{ROOT}[{extra}]" if extra else str(ROOT)
    install = [python, "-m", "pip", "install", "-q", "--no-compile", "-c", ROOT / "constraints.txt", wanted]
    subprocess.run(install, check=True, timeout=600)
    size = sum(path.lstat().st_size for path in (tmp_path / "made").rglob("*")) / 2**20
    assert size <= LARGEST[extra]
    looked = subprocess.run([python, "-m", "thebes.cli.main", "doctor"], capture_output=True, text=True, timeout=120)
    assert (looked.returncode, looked.stderr) == (0, "")
