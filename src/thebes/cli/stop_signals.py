"""Commands that stay until they are told to end: they end in the moments between two steps.

What must stay true: no exception comes out of a signal's handler while a step is under way, where it may be lost or end
the process in disorder.
"""

from __future__ import annotations

import signal
import time


class Rest:
    """The moments between two steps. Only there is a command ended that was told to."""

    def __init__(self) -> None:
        self._resting = self._asked = False

    def end_in_it(self, *numbers: signal.Signals) -> None:
        """Each of these signals ends the command in its next rest, with status 0. A second one ends it where it is,
        like a kill."""

        def stop(*_: object) -> None:
            for number in numbers:
                signal.signal(number, signal.SIG_DFL)
            self._asked = True
            if self._resting:
                raise SystemExit(0)

        for number in numbers:
            signal.signal(number, stop)

    def rest(self, seconds: float = 0.0) -> None:
        """So long, or until it is the end."""
        self._resting = True
        if self._asked:
            raise SystemExit(0)
        time.sleep(seconds)
        self._resting = False
