"""One `thebes` server that can be struck: killed, one of its own processes killed, left without room on the disk."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_STOP_SECONDS = 60.0
_UNLIMITED = resource.RLIM_INFINITY


class Process:
    """`home` is what it writes into. `facts` is its ready line, once it has said it."""

    def __init__(self, name: str, home: Path, *arguments: str, log: Path) -> None:
        self.name, self.home, self._arguments, self._log = name, home, arguments, log
        self._running: subprocess.Popen[str] | None = None
        self._heard = threading.Event()
        self.facts: dict[str, Any] = {}
        self.skew = 0.0
        self._before: list[int] = []

    def start(self, skew: float = 0.0) -> None:
        """Without waiting until it listens; but until nobody is left who holds the ports of the one before."""
        self.skew = skew
        end = time.monotonic() + _STOP_SECONDS
        while any(map(_lives, self._before)) and time.monotonic() < end:
            time.sleep(0.02)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("THEBES_")},
            "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
            "PYTHONPATH": str(ROOT),
        }
        self._heard.clear()
        with self._log.open("ab") as errors:
            self._running = subprocess.Popen(
                [sys.executable, "-m", "evidence.chaos.launch", str(skew), *self._arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                cwd=self._log.parent,
                start_new_session=True,
            )
        threading.Thread(target=self._listen, args=(self._running,), daemon=True).start()

    def ready(self, timeout: float) -> bool:
        """Return whether it listens by now, or within so long."""
        return self._heard.wait(timeout)

    @property
    def alive(self) -> bool:
        return self._running is not None and self._running.poll() is None

    @property
    def pids(self) -> list[int]:
        """Its own, and those of all that it started, oldest first."""
        if not self.alive or self._running is None:
            return []
        found, look = [self._running.pid], [self._running.pid]
        while look:
            ours = _children(look.pop())
            found += ours
            look += ours
        return found

    def kill(self) -> None:
        """SIGKILL."""
        if self.alive and self._running is not None:
            self._before = _children(self._running.pid) if "--processes" in self._arguments else []
            self._running.kill()
            self._running.wait()

    def kill_part(self, place: int) -> None:
        """SIGKILL to one of the processes that it started, where it has any."""
        parts = self.pids[1:]
        if parts:
            with suppress(ProcessLookupError):
                os.kill(parts[place % len(parts)], signal.SIGKILL)

    def fill(self, room: int) -> None:
        """From now on no file of it grows beyond `room` bytes more than its largest one has."""
        sizes = [file.stat().st_size for file in self.home.rglob("*") if file.is_file()]
        self._limit(max(sizes, default=0) + room)

    def clear(self) -> None:
        """There is room again."""
        self._limit(_UNLIMITED)

    def stop(self) -> int:
        """The status of a clean end; whatever is left of it is killed."""
        if self._running is None:
            return 0
        with suppress(ProcessLookupError):
            self._running.terminate()
        try:
            status = self._running.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            status = -signal.SIGKILL
        with suppress(ProcessLookupError):
            os.killpg(self._running.pid, signal.SIGKILL)
        self._running.wait()
        return status

    def _limit(self, size: int) -> None:
        for pid in self.pids:
            with suppress(ProcessLookupError, PermissionError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, _UNLIMITED))

    def _listen(self, running: subprocess.Popen[str]) -> None:
        assert running.stdout is not None
        with running.stdout as lines:
            for line in lines:
                with suppress(ValueError):
                    told = json.loads(line)
                    if running is self._running and told.get("ready"):
                        self.facts = told
                        self._heard.set()


def _lives(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def _children(pid: int) -> list[int]:
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            with suppress(OSError, IndexError):
                if int((place / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(place.name))
    return sorted(found)
