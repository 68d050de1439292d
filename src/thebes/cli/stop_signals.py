"""Commands that are told to end, and end in order: between two steps, or after they have cleaned up.

What must stay true: no exception comes out of a signal's handler. It would come up in whatever code the main thread is
in just then, where it may be lost (in a finaliser, in a library that catches everything) or end a step in disorder.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import finalize

from thebes import machine


class StopAsked(BaseException):
    """Somebody asked this command to end: Ctrl-C, SIGTERM, or the terminal that went away."""


@contextmanager
def stoppable() -> Iterator[Callable[[], None]]:
    """Inside, a request to end is only noted. What this gives is called wherever there is nothing half done, and there
    raises `StopAsked`; what cleans up calls it no more, so that further requests change nothing."""
    asked = False
    numbers = machine.signals("SIGINT", "SIGTERM", "SIGHUP")
    before = {number: signal.getsignal(number) for number in numbers}

    def stop(*_: object) -> None:
        nonlocal asked
        asked = True

    def heed() -> None:
        if asked:
            raise StopAsked

    for number in numbers:
        signal.signal(number, stop)
    try:
        yield heed
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


class Rest:
    """The moments between two steps. Only there is a command ended that was told to."""

    def __init__(self) -> None:
        self._asked = False
        self._heard: int | None = None

    def end_in_it(self, *numbers: signal.Signals) -> None:
        """Each of these signals ends the command in its next rest, with status 0. A second one ends it where it is,
        like a kill."""
        self._heard, told = os.pipe()
        for end in (self._heard, told):
            finalize(self, os.close, end)

        def stop(*_: object) -> None:
            for number in numbers:
                signal.signal(number, signal.SIG_DFL)
            if not self._asked:
                os.write(told, b"!")  # a rest that goes on hears of it
            self._asked = True

        for number in numbers:
            signal.signal(number, stop)

    def rest(self, seconds: float = 0.0) -> None:
        """So long, or until it is the end."""
        if self._heard is None:
            time.sleep(seconds)
        else:
            select.select([self._heard], [], [], seconds)
        if self._asked:
            raise SystemExit(0)
