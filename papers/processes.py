"""Thebes' own commands as processes on this machine: what is measured is what people run.

All of them share this machine's cores, which those of a real deployment do not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from thebes.confinement import answers
from thebes.privacy.faults import Fault

_STOP_SECONDS = 15.0
_TOGETHER = 4  #: commands at once


class Processes:
    """Use in a `with` block, which ends them. What they say on standard error goes to `folder`/log."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def ended(self) -> bool:
        """Return whether one of them is no longer there."""
        return any(process.poll() is not None for process in self._running)

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Start `thebes` with these arguments."""
        with (self._folder / "log").open("a") as log:
            process = subprocess.Popen(
                command(*arguments), stdout=subprocess.PIPE, stderr=log, text=True, env=environment()
            )
        self._running.append(process)
        return process

    def start(self, *arguments: str) -> dict[str, Any]:
        """Start it and wait for what it says when it is ready."""
        return ready(self.begin(*arguments), arguments[0])

    def close(self) -> None:
        for process in reversed(self._running):
            process.terminate()
        end = time.monotonic() + _STOP_SECONDS
        for process in self._running:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._running.clear()


def client(url: str, bearer: Path, seconds: float = 60.0) -> httpx.Client:
    """Speaks to one of them as who holds the token in that file."""
    headers = {"Authorization": f"Bearer {bearer.read_text(encoding='utf-8').strip()}"}
    return answers.client(base_url=url, headers=headers, timeout=seconds, seconds=seconds)


def told(answer: httpx.Response) -> Any:
    """Return what the coordinator says; a Fault where it refuses."""
    if answer.is_error:
        raise Fault(f"the coordinator of an experiment refused: {answer.text[:300]}")
    return answer.json()


def ready(process: subprocess.Popen[str], what: str) -> dict[str, Any]:
    """Return what a process says when it is ready."""
    assert process.stdout is not None  # noqa: S101
    facts: dict[str, Any] = json.loads(process.stdout.readline() or "{}")
    if not facts.get("ready"):
        raise Fault(f"thebes {what} does not start")
    return facts


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "thebes", *arguments]


def environment() -> dict[str, str]:
    """A home in a temporary folder leaves nothing in the keyring of whoever runs this."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("THEBES_")}
    return {**kept, "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}


def run_all(jobs: Iterable[Sequence[tuple[str, ...]]]) -> None:
    """Run commands to their end, some at a time."""
    waiting = [job for some in jobs for job in some]
    while waiting:
        now, waiting = waiting[:_TOGETHER], waiting[_TOGETHER:]
        running = [
            subprocess.Popen(
                command(*job), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment()
            )
            for job in now
        ]
        for job, process in zip(now, running, strict=True):
            _, said = process.communicate()
            if process.returncode:
                raise Fault(f"thebes {job[0]} of an experiment failed: {said.strip()[-300:]}")
