"""The R package against a real coordinator and real sites, run by R itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from institutions import Institutions
from processes import PATIENCE

from tests.support.command import exit_status
from thebes.wire import task_log

pytestmark = pytest.mark.slow
PACKAGE = Path(__file__).parents[2] / "clients" / "r"
NEEDED = ("httr2", "jsonlite", "openssl")


def missing() -> str:
    """Return what of R is not there."""
    if shutil.which("Rscript") is None:
        return "Rscript"
    asked = "cat(c({})[!sapply(c({}), requireNamespace, quietly = TRUE)])"
    names = ", ".join(f'"{name}"' for name in NEEDED)
    done = subprocess.run(
        ["Rscript", "-e", asked.format(names, names)], capture_output=True, text=True, timeout=PATIENCE
    )
    return done.stdout if done.returncode == 0 else "R"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package installed. Without R the test is skipped, or fails where THEBES_REQUIRE names `r`."""
    if lacking := missing():
        if "r" in os.environ.get("THEBES_REQUIRE", "").split(","):
            pytest.fail(f"{lacking} is not there")
        pytest.skip(f"{lacking} is not there")
    place = tmp_path_factory.mktemp("library")
    command = ["R", "CMD", "INSTALL", f"--library={place}", str(PACKAGE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture(scope="module")
def there(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Institutions]:
    made = Institutions(tmp_path_factory.mktemp("institutions"))
    yield made
    assert set(made.close()) == {0}


def run(script: str, library: Path, there: Institutions, **more: str) -> str:
    told = {"R_LIBS": str(library), "THEBES_URL": there.url, "THEBES_TOKEN": there.token, "LC_ALL": "C.UTF-8", **more}
    done = subprocess.run(
        ["Rscript", str(PACKAGE / script)],
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_r_asks_quotes_waits_is_refused_in_words_and_verifies(
    library: Path, there: Institutions, tmp_path: Path
) -> None:
    listed = tmp_path / "list.json"
    listed.write_text(httpx.get(f"{there.url}/api/log").text)
    saved = tmp_path / "release.json"
    fingerprint = task_log.fingerprint(httpx.get(f"{there.url}/api/log").json()["key"])
    told = run("tests/run.R", library, there, THEBES_FINGERPRINT=fingerprint, THEBES_SAVE=str(saved))
    assert told.splitlines()[-1] == "all of it holds"
    assert exit_status("verify", str(saved), "--key", fingerprint) == 0  # what R saved Python reads


def test_the_example_of_its_readme_runs(library: Path, there: Institutions) -> None:
    told = run("example.R", library, there)
    assert "at most epsilon 1" in told
    assert "Signed: the release of task" in told
