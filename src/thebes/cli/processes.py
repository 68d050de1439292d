"""Processes that a command starts for itself: each says in a line of JSON that it is ready, and none is left behind,
also where the command is killed: each looks whether it still has its parent.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from thebes import machine
from thebes.privacy.faults import Fault
from thebes.privacy.figures import figure

READY_SECONDS = 120.0
HEED_SECONDS = 0.2  #: so soon is a request to end noticed while a process is silent
STOP_SECONDS = 15.0
_PARENT = "THEBES_STARTED_BY"  #: holds the number of the process that started this one for itself
_LOOK_SECONDS = 1.0  #: between two looks whether it is still there
_OURS = (
    "THEBES_HOME",
    "THEBES_COORDINATOR",
    "THEBES_TOKEN",
    "THEBES_PASSPHRASE",
)  # meant for somebody else's processes


def end_with_parent() -> None:
    """End this process, and whatever it started, soon after the one that started it as a `Process` has gone."""
    parent = os.environ.pop(_PARENT, "")
    if not parent.isdigit():
        return

    def watch() -> None:
        while os.getppid() == int(parent):
            time.sleep(_LOOK_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(STOP_SECONDS)
        machine.end_group(os.getpid())  # it leads a session of its own

    threading.Thread(target=watch, name="watching the parent", daemon=True).start()


class Process:
    """`python -m module arguments...`, with `log` for what it says on standard error. It does not hear Ctrl-C; who
    started it stops it. `said` gives its lines of JSON in order, and None once it has ended. `heed` is called
    while it is waited for, and may end that by raising."""

    def __init__(
        self, name: str, module: str, *arguments: str, log: Path, heed: Callable[[], None] = lambda: None
    ) -> None:
        self.name, self._log, self._heed = name, log, heed
        # A home in a temporary folder leaves nothing in the keyring of whoever runs this.
        kept = {key: value for key, value in os.environ.items() if key not in _OURS}
        environment = {**kept, _PARENT: str(os.getpid()), "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
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
        end = time.monotonic() + timeout
        while True:
            self._heed()
            left = end - time.monotonic()
            try:
                line = self.said.get(timeout=max(0.0, min(left, HEED_SECONDS)))
                break
            except queue.Empty:
                if left <= 0:
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
            machine.end_group(self._process.pid)
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
