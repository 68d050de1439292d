"""Processes that a command starts for itself: each says in a line of JSON that it is ready, and none is left behind."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from thebes.privacy.faults import Fault
from thebes.privacy.figures import figure

READY_SECONDS = 120.0
STOP_SECONDS = 15.0
_OURS = (
    "THEBES_HOME",
    "THEBES_COORDINATOR",
    "THEBES_TOKEN",
    "THEBES_PASSPHRASE",
)  # meant for somebody else's processes


class Process:
    """`python -m module arguments...`, with `log` for what it says on standard error. It does not hear Ctrl-C; who
    started it stops it. `said` gives its lines of JSON in order, and None once it has ended."""

    def __init__(self, name: str, module: str, *arguments: str, log: Path) -> None:
        self.name, self._log = name, log
        # A home in a temporary folder leaves nothing in the keyring of whoever runs this.
        kept = {key: value for key, value in os.environ.items() if key not in _OURS}
        environment = {**kept, "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                start_new_session=True,
            )
        self.said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._listen, name=f"hearing {name}", daemon=True).start()

    def tell(self, message: dict[str, Any]) -> None:
        """Hand it one line of JSON."""
        assert self._process.stdin is not None  # noqa: S101
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self.lost() from None

    def hear(self, timeout: float) -> dict[str, Any]:
        """Its next line; a Fault when it has ended or stays silent."""
        try:
            line = self.said.get(timeout=timeout)
        except queue.Empty:
            raise Fault(f"{self.name} has said nothing for {figure(timeout)} seconds") from None
        if line is None:
            raise self.lost()
        return line

    def ready(self) -> dict[str, Any]:
        """Wait until the process listens and return what it says then."""
        end = time.monotonic() + READY_SECONDS
        while not (line := self.hear(max(0.1, end - time.monotonic()))).get("ready"):
            continue
        return line

    @property
    def ended(self) -> bool:
        """Return whether the process runs no more, and nobody stopped it."""
        return self._process.poll() is not None

    def lost(self) -> Fault:
        """Return a Fault that says why the process ended, as far as the system or its last words say."""
        words = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1)  # what it said has ended, so it is about to
        status = self._process.returncode
        if status is not None and status < 0:
            return Fault(f"{self.name} has ended: it was killed ({signal.Signals(-status).name})")
        return Fault(f"{self.name} has ended" + (f": {words[-1][:300]}" if words else ""))

    def ask_to_stop(self) -> None:
        with suppress(OSError):
            self._process.terminate()

    def stop(self) -> int:
        """Its exit status; whatever of it still runs after a while is killed, with all it started."""
        self.ask_to_stop()
        try:
            status = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            status = -signal.SIGKILL
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for end in (self._process.stdin,):
            with suppress(OSError):
                if end is not None:
                    end.close()
        return status

    def _listen(self) -> None:
        assert self._process.stdout is not None  # noqa: S101
        with self._process.stdout as lines:
            for line in lines:
                with suppress(ValueError):
                    self.said.put(json.loads(line))
        self.said.put(None)


class Stopped(BaseException):
    """Somebody asked this command to end: Ctrl-C, SIGTERM, or the terminal that went away."""


@contextmanager
def stoppable() -> Iterator[None]:
    """Inside, the first request to end raises `Stopped` in the main thread, and later ones do nothing: what has begun
    to clean up goes on."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}

    def stop(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped

    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    except KeyboardInterrupt:  # DuckDB forgets what a handler raised while it worked, and tells of Ctrl-C instead
        raise Stopped from None
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
