"""The thread that carries a home's participations on while nobody looks.

What must stay true: whatever happens in one turn, there is a next one; only the home's end is its end.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)


class BackgroundThread:
    """Calls `turn` again when it said so or when woken, and `look` every now and then. Does nothing before `start`."""

    def __init__(self, turn: Callable[[], float], look: Callable[[], None]) -> None:
        self._turn, self._look = turn, look
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def started(self) -> bool:
        return self._thread is not None

    def start(self, look_seconds: float) -> None:
        self._thread = threading.Thread(target=self._run, args=(look_seconds,), name="person", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """There is something to do."""
        self._woken.set()

    def stop(self) -> None:
        """End after the turn that is being taken."""
        self._stopping.set()
        self._woken.set()

    def join(self) -> None:
        """Wait for that, not forever."""
        if self._thread is not None:
            self._thread.join(timeout=10)

    def _run(self, look_seconds: float) -> None:
        next_look = 0.0
        while not self._stopping.is_set():
            try:
                pause = self._turn()
                if time.monotonic() >= next_look:
                    self._look()
                    next_look = time.monotonic() + look_seconds
            except Exception as error:  # the thread is all there is to send: it must not end
                if not self._stopping.is_set():
                    log.error(
                        "the work stopped for a moment: %s", type(error).__name__, extra={"event": "work.stopped"}
                    )
                pause = 1.0
            self._woken.wait(max(0.0, min(pause, next_look - time.monotonic())))
            self._woken.clear()
