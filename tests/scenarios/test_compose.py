"""`deploy/compose/compose.yaml`, typed as its head says, with processes in place of containers and a real PostgreSQL:
two sites join by code and answer together."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.compose import Compose
from tests.support.postgres import REQUIRE, server_programs
from tests.support.socket_folder import socket_folder

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose"
SCHEMA = 'unit = "person"\n[columns.age]\ntype = "integer"\nlow = 0\nhigh = 100\n'


def image_environment() -> dict[str, str]:
    """Read what the Containerfile sets, without where programs lie."""
    (line,) = re.findall(r"^ENV (.*)$", (COMPOSE / "Containerfile").read_text(), re.MULTILINE)
    told = dict(word.split("=", 1) for word in line.split())
    told.pop("PATH")
    return told


def documented() -> list[str]:
    """The commands of the page that are typed before the first one of compose."""
    text = (ROOT / "docs" / "deployments.md").read_text(encoding="utf-8")
    section = text.partition("### Containers")[2].partition("\n##")[0]
    block = section.partition("```console\n")[2].partition("```")[0]
    return [line.removeprefix("$ ") for line in block.splitlines() if line.startswith("$ ")]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder into which the user of PostgreSQL may look."""
    if server_programs() is None:
        assert "postgres" not in os.environ.get(REQUIRE, "")
        pytest.skip("PostgreSQL's server programs are not installed")
    made = socket_folder("thebes-compose-")
    made.chmod(0o711)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def wait_for_sites(compose: Compose) -> None:
    """Wait until both sites are connected: an answer is about those that are."""
    address, deadline = f"http://{compose.address('coordinator:8000')}/api/site", time.monotonic() + 240
    while True:
        with suppress(OSError), urllib.request.urlopen(address, timeout=30) as answer:
            if [site["state"] for site in json.load(answer) if "patients" in site["datasets"]] == ["connected"] * 2:
                return
        assert time.monotonic() < deadline, "there were no two sites within four minutes"
        time.sleep(0.2)


def ask(compose: Compose, token: str) -> float:
    wait_for_sites(compose)
    command = [sys.executable, "-m", "thebes.cli.main", "sql", "SELECT COUNT(*) AS n FROM patients", "--epsilon", "0.5"]
    command += ["--coordinator", f"http://{compose.address('coordinator:8000')}", "--json", "--timeout", "240"]
    ended = subprocess.run(command, env={**os.environ, "THEBES_TOKEN": token}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return float(json.loads(ended.stdout)["rows"][0]["n"])


@pytest.mark.slow
@pytest.mark.postgres
def test_what_the_file_says_to_type_leads_to_an_answer_of_two_sites(folder: Path) -> None:
    shutil.copy(COMPOSE / "compose.yaml", folder)
    for line in documented():
        subprocess.run(["sh", "-ec", line], cwd=folder, check=True)
    for site, count in (("north", 400), ("south", 300)):
        rows = "".join(f"{20 + n % 60}\n" for n in range(count))
        (folder / "data" / site / "patients.csv").write_text(f"age\n{rows}")
        (folder / "data" / site / "schema.toml").write_text(SCHEMA)
    with Compose(folder / "compose.yaml", image_environment()) as compose:
        assert len(compose.commands) == 10
        for line in compose.commands:
            compose.type(line)
        token = (compose.volume("coordinator") / "admin.token").read_text().strip()
        assert ask(compose, token) == pytest.approx(700, abs=80)
        for name in ("coordinator", "north", "south"):
            compose.kill(name)
        assert ask(compose, token) == pytest.approx(700, abs=80)
        for name in ("north", "south", "coordinator", "database"):
            assert compose.stop(name) == 0
        for name in ("north", "south"):
            home = compose.volume(name)
            assert sorted(path.name for path in (home / "link").iterdir()) == [
                "ca.pem",
                "joined",
                "site.key",
                "site.pem",
            ]
            verified = [sys.executable, "-m", "thebes.cli.main", "ledger", "verify", "--home", home]
            subprocess.run(verified, check=True, capture_output=True)
