"""A client that a standard generator makes of the coordinator's description: typed, and at work against real sites."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from thebes.wire import task_log

sys.path.insert(0, str(Path(__file__).parent))
from institutions import Institutions
from processes import PATIENCE

from tests.support.command import exit_status
from tests.support.generator import EXAMPLE, environment, generated

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Institutions]:
    made = Institutions(tmp_path_factory.mktemp("institutions"))
    yield made
    assert set(made.close()) == {0}


def test_a_generated_client_is_typed_asks_real_sites_and_hears_refusals_in_words(
    there: Institutions, tmp_path: Path
) -> None:
    python, url = environment(), there.server.url
    warned = generated(python, httpx.get(f"{url}/openapi.json").text, tmp_path)
    assert re.findall(r"^WARNING .*\n\n(.*)", warned, re.MULTILINE) == [
        "Unsupported content type application/vnd.thebes.frame"  # which owners send
    ]
    for name in ("ask.py", "mypy.ini"):
        shutil.copy(EXAMPLE / name, tmp_path)
    typed = subprocess.run(
        [sys.executable, "-m", "mypy", "--python-executable", str(python), "ask.py", "thebes_api"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert typed.returncode == 0, typed.stdout
    asked = subprocess.run(
        [str(python), "ask.py", url, there.token, "patients"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert asked.returncode == 0, asked.stderr
    lines = asked.stdout.splitlines()
    assert lines[0].startswith("north connected ['patients'")
    assert 18 < float(lines[2].split()[0]) < 100
    assert "ReleasedInterval(level=0.95, low=" in lines[2]
    assert "epsilon 1" in lines[2]
    assert lines[3] == "0 tasks are open"
    assert lines[4].startswith("refused: statistic: must be ")
    listed = tmp_path / "list.json"
    listed.write_text(httpx.get(f"{url}/api/log").text)
    key = ("--key", task_log.fingerprint(json.loads(listed.read_text())["key"]))
    assert exit_status("verify", str(tmp_path / "release.json"), "--list", str(listed), *key) == 0
