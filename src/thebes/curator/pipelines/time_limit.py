"""Work that can be stopped: a developer's code that never comes to an end must not hold its run for ever.

What must stay true: what was stopped gives nothing, whatever it still does; whoever waits goes on at once.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
LOOK_SECONDS = 0.2  #: between two looks at the clock
_TRIES, _TRY_SECONDS = 10, 0.02


class TimeUp(BaseException):
    """Raised inside the work itself, wherever it is: not an Exception, so that nobody takes it for one."""


class OutOfTime(Exception):
    """The work was stopped."""


def finished(work: Callable[[], T], *, late: Callable[[], bool]) -> T:
    """Return what `work` gives, or raise what it raises; raise OutOfTime as soon as `late` is true before it has ended.

    It runs in a thread of its own, into which `TimeUp` is raised. Code outside Python (a sleep, a product of large
    matrices) is stopped where it comes back; until then its thread stays, and nobody waits for it any more.
    """
    going = _Going(work)
    going.start()
    try:
        while not going.ended(LOOK_SECONDS):
            if late():
                raise OutOfTime
    except BaseException:  # also where whoever waits is interrupted
        going.stop()
        raise
    return going.result()


class _Going(threading.Thread, Generic[T]):
    """A piece of work, on its way."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__(name="pipeline", daemon=True)
        self._work = work
        self._made: list[T] = []
        self._raised: BaseException | None = None

    def run(self) -> None:
        try:
            self._made.append(self._work())
        except BaseException as error:
            self._raised = error

    def ended(self, seconds: float) -> bool:
        self.join(seconds)
        return not self.is_alive()

    def result(self) -> T:
        if self._raised is not None:
            raise self._raised
        return self._made[0]

    def stop(self) -> None:
        """Raise `TimeUp` in it, some times over, should it be caught."""
        for _ in range(_TRIES):
            if not self.is_alive() or self.ident is None:
                return
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident), ctypes.py_object(TimeUp))
            self.join(_TRY_SECONDS)
