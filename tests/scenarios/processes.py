"""Real processes of a deployment, for scenario tests: started, killed without warning, started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

PATIENCE = 120.0  #: seconds for whatever takes a few on an idle machine


class Process:
    """One `thebes ...` server. `facts` is its ready line."""

    def __init__(self, *arguments: str) -> None:
        self.arguments = arguments
        self.facts: dict[str, Any] = {}
        self._running: subprocess.Popen[str] | None = None
        self.launch()

    def launch(self) -> Process:
        command = [sys.executable, "-m", "thebes.cli.main", *self.arguments]
        quiet = {**os.environ, "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
        self._running = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=quiet
        )
        return self

    def ready(self) -> dict[str, Any]:
        assert self._running is not None
        assert self._running.stdout is not None
        line = self._running.stdout.readline()
        assert line, f"{self.arguments[0]} did not start (status {self._running.wait()})"
        self.facts = json.loads(line)
        assert self.facts["ready"] is True
        return self.facts

    @property
    def pid(self) -> int:
        assert self._running is not None
        return self._running.pid

    def kill(self) -> None:
        assert self._running is not None
        self._running.send_signal(signal.SIGKILL)
        self._running.wait()

    def ended(self) -> int:
        """The exit status of a process that ends by itself."""
        assert self._running is not None
        return self._running.wait(timeout=PATIENCE)

    def stop(self) -> int:
        """The exit status of a clean stop."""
        return stopped([self])[0]


def stopped(processes: list[Process]) -> list[int]:
    """The exit statuses of clean stops."""
    running = [process._running for process in processes]
    for one in running:
        assert one is not None
        one.terminate()
    return [one.wait(timeout=PATIENCE) for one in running if one is not None]


class PersonProcess:
    """A `thebes person` and the REST client of whoever can read its token."""

    def __init__(self, home: Path, coordinator: str, *more: str) -> None:
        self.home = home
        self.process = Process(
            "person", "--home", str(home), "--coordinator", coordinator, "--port", "0", "--no-delay", *more
        )

    def ready(self) -> None:
        url = self.process.ready()["address"]
        token = (self.home / "token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}"}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=PATIENCE, trust_env=False)

    def get(self, path: str) -> Any:
        answer = self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def accept(self, task_id: str) -> int:
        return self.http.post(f"/api/tasks/{task_id}/accept", json={}).status_code

    def wait(self, task_id: str, *states: str, timeout: float = 2 * PATIENCE) -> str:
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            mine = [p for p in self.get("/api/participations") if p["task_id"] == task_id]
            if mine and mine[-1]["state"] in states:
                return str(mine[-1]["state"])
            time.sleep(0.05)
        raise AssertionError(f"not {states} in time: {mine}")


def coordinator(home: Path, port: int = 0) -> Process:
    return Process("coordinator", "--home", str(home), "--port", str(port))
