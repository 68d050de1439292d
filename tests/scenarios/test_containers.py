"""The packages that `deploy/compose/Containerfile` installs, installed by its own commands into an empty folder, and
both roles run out of that. It is no image: there is no builder here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.ports import free_ports
from tools import supply

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy" / "compose" / "Containerfile"
SCHEMA = 'unit = "person"\n[columns.age]\ntype = "integer"\nlow = 0\nhigh = 100\n'


def instructions() -> list[str]:
    """The instructions of the first stage, each on one line."""
    text = FILE.read_text(encoding="utf-8").replace("\\\n", " ")
    stage = text.partition(" AS built\n")[2].partition("\nFROM ")[0]
    return [line for line in stage.splitlines() if line and not line.startswith("#")]


def built(role: str, place: Path) -> Path:
    """The folder that the second stage copies, after the commands of the first ran there."""
    source, target = place / "src", place / "opt"
    source.mkdir(parents=True)
    target.mkdir()
    for line in instructions():
        word, _, rest = line.partition(" ")
        rest = rest.replace("${ROLE}", role)
        if word == "COPY":
            *names, into = rest.split()
            for name in names:
                here = ROOT / name
                where = source / into
                if here.is_dir():
                    shutil.copytree(here, where, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    where.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(here, where)
        elif word == "RUN":
            rest = rest.replace("/opt/", f"{target}/").replace("python -m venv", f"{sys.executable} -m venv")
            subprocess.run(["sh", "-ec", rest], cwd=source, check=True, capture_output=True, timeout=900)
        else:
            assert (word, rest) in {("ARG", "ROLE"), ("WORKDIR", "/src")}
    return target / "thebes"


@pytest.mark.heavy  # a minute and some hundred megabytes of packages each
def test_both_roles_run_from_what_the_file_installs(tmp_path: Path) -> None:
    roots = {role: built(role, tmp_path / role) for role in ("coordinator", "site")}
    for role, root in roots.items():
        (packages,) = root.glob("lib/python*/site-packages")
        found = {
            re.sub(r"[-_.]+", "-", path.name.rpartition(".dist-info")[0].rsplit("-", 1)[0]).lower()
            for path in packages.glob("*.dist-info")
        }
        assert found == {*supply.pins(supply.runtime_file(role)), "thebes"}
        assert not {path.name for path in (root / "bin").iterdir()} & {
            "pip",
            "pip3",
            "pytest",
            "mypy",
            "playwright",
            "gcc",
        }

    def environment(role: str) -> dict[str, str]:
        return {"PATH": str(roots[role] / "bin"), "THEBES_HOME": str(tmp_path / f"home-{role}"), "THEBES_LOG": "json"}

    def thebes(role: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
        command = [roots[role] / "bin" / "thebes", *words]
        return subprocess.run(command, env=environment(role), capture_output=True, text=True, timeout=300, check=False)

    port, site_port = free_ports(2)
    url = f"http://127.0.0.1:{port}"
    commands = {
        "coordinator": ["coordinator", "--port", str(port), "--site-port", str(site_port)],
        "site": ["site", "--coordinator", f"127.0.0.1:{site_port}", "--port", "0"],
    }
    running = []
    try:
        for role, words in commands.items():
            if role == "site":
                (tmp_path / "patients.csv").write_text("age\n" + "".join(f"{20 + n % 60}\n" for n in range(400)))
                (tmp_path / "schema.toml").write_text(SCHEMA)
                declared = ["--schema", tmp_path / "schema.toml", "--source", tmp_path / "patients.csv"]
                code = tmp_path / "code"
                for ended in (
                    thebes("coordinator", "ca", "invite", "north", "--out", code),
                    thebes("site", "dataset", "create", "patients", *declared, "--epsilon", "10"),
                    thebes("site", "dataset", "grant", "patients", "--to", "*", "--kinds", "query", "--epsilon", "5"),
                    thebes("site", "site", "join", url, "--code-file", code),
                ):
                    assert ended.returncode == 0, ended.stderr
            running.append(subprocess.Popen([roots[role] / "bin" / "thebes", *words], env=environment(role)))
            where = ["--coordinator", url] if role == "coordinator" else []
            end = time.monotonic() + 240
            while thebes(role, "doctor", "--probe", "ready", *where).returncode:
                assert running[-1].poll() is None
                assert time.monotonic() < end
                time.sleep(0.2)
        token = (tmp_path / "home-coordinator" / "admin.token").read_text().strip()
        command = [
            sys.executable,
            "-m",
            "thebes.cli.main",
            "sql",
            "SELECT COUNT(*) AS n FROM patients",
            "--epsilon",
            "1",
        ]
        command += ["--coordinator", url, "--json", "--timeout", "240"]
        asked = subprocess.run(command, env={**os.environ, "THEBES_TOKEN": token}, capture_output=True, text=True)
        assert asked.returncode == 0, asked.stderr
        assert json.loads(asked.stdout)["rows"][0]["n"] == pytest.approx(400, abs=60)
    finally:
        for process in reversed(running):
            process.terminate()
        assert [process.wait(timeout=120) for process in running] == [0 for _ in running]
