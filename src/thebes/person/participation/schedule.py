"""The moments at which packets go, each its own, so that those of one person are not known by the company they keep.

What must stay true: every packet's moment is drawn on its own, before any data is touched for it; packets that had to
wait (the proxy was down, the machine was off) never leave together.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

_LATE_SECONDS = 30.0  #: behind its moment: something held everything up, so the moment is drawn anew
_BEFORE_THE_END = 30.0

Packet = tuple[int, int]  #: a participation, and which of its packets


class Pacing:
    """Random moments within `longest()` seconds. Without a longest wait everything may go at once."""

    def __init__(self, longest: Callable[[], float], clock: Callable[[], float]) -> None:
        self._longest, self._clock = longest, clock
        self._moments: dict[Packet, float] = {}
        self._looks: dict[int, float] = {}

    def wait(self, packet: Packet, *, planned: float | None = None, deadline: float | None = None) -> float:
        """Seconds until `packet` may go, 0 once it may. `planned` is its moment from before this process, or later."""
        now = self._clock()
        moment = self._moments.get(packet)
        if moment is None or now > max(moment, planned or moment) + _LATE_SECONDS:
            moment = self._moments[packet] = self._drawn(now, deadline)
        return max(0.0, moment - now)

    def again(self, packet: Packet, seconds: float, *, deadline: float | None = None) -> float:
        """The seconds until a packet that could not go is tried again: at least so many, and a random wait more."""
        moment = self._moments[packet] = self._drawn(self._clock() + seconds, deadline)
        return max(seconds, moment - self._clock())

    def looks(self, participation: int) -> bool:
        """Return whether to look for the result of this participation now: each has moments of its own."""
        now = self._clock()
        if self._looks.setdefault(participation, self._drawn(now)) > now:
            return False
        self._looks[participation] = self._drawn(self._drawn(now))
        return True

    def forget(self, unfinished: set[int]) -> None:
        """Keep the moments of these participations only."""
        self._moments = {packet: moment for packet, moment in self._moments.items() if packet[0] in unfinished}

    def _drawn(self, start: float, deadline: float | None = None) -> float:
        moment = start + secrets.randbelow(1_000_001) / 1_000_000 * self._longest()
        return moment if deadline is None else min(moment, max(start, deadline - _BEFORE_THE_END))
