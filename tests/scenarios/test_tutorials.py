"""The tutorials for stewards and operators do what they say, pasted line by line into one shell in an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ports import free_port

pytestmark = pytest.mark.heavy  # a dozen programs each, one after another
DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: a server that is started, and how long a reader waits for it
WAIT = re.compile(r"> (\w+)\.log 2>&1 &\nsleep 10\n")
#: what each server has written when it can be asked
SAYS = {"coordinator": "ready", "site": "connected to"}


def pasted(page: str, folder: Path) -> str:
    """Return what a shell says to which the page's blocks are pasted, with ports that are free here."""
    script = "".join(BLOCK.findall((DOCS / page).read_text(encoding="utf-8")))
    for port in ("8000", "8443"):
        script = script.replace(port, str(free_port()))
    script = WAIT.sub(_until_it_can_be_asked, script)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        ["bash", "-e", "-c", f"trap 'kill $(jobs -p) 2> /dev/null || true; wait' EXIT\n{script}"],
        cwd=folder, env={**os.environ, "PATH": path, "HOME": str(folder)}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def _until_it_can_be_asked(started: re.Match[str]) -> str:
    log, wanted = f"{started[1]}.log", SAYS[started[1]]
    return f"> {log} 2>&1 &\nfor _ in $(seq 600); do grep -qs '{wanted}' {log} && break; sleep 0.1; done\n"


def test_a_steward_comes_from_an_empty_folder_to_an_answer_and_to_a_no(tmp_path: Path) -> None:
    said = pasted("tutorial-steward.md", tmp_path)
    assert re.search(r"^female +[\d,.]+ \([\d,.]+ to [\d,.]+\)", said, re.MULTILINE)
    assert "refused, and nothing was charged" in said
    assert re.search(r"^2,0\d\d|^1,9\d\d", said, re.MULTILINE)  # 2,000 patients, 1.5 of epsilon: within 10
    assert "Nothing was changed" in said


def test_an_operator_finds_the_first_question_again_in_what_came_out_of_a_copy(tmp_path: Path) -> None:
    said = pasted("tutorial-operator.md", tmp_path)
    assert "BROKEN" not in said
    assert len(re.findall(r"^[0-9a-f]{32}  bounded  open", said, re.MULTILINE)) == 2
    assert "ana  requestor" in said
