"""The moments at which packets go, each its own, so that those of one person are not known by the company they keep.

What must stay true: every packet's moment is drawn on its own, before any data is touched for it; packets that had to
wait (the proxy was down, the machine was off) never leave together.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from thebes.tasks.document import Document
from thebes.tasks.mixed_document import MixedDocument

_LATE_SECONDS = 30.0  #: behind its moment: something held everything up, so the moment is drawn anew
_BEFORE_THE_END = 30.0

Packet = tuple[int, int]  #: a participation, and which of its packets


def delay_of(document: Document) -> float | None:
    """Return the longest wait that a document sets for everybody alike, so that no machine's own setting tells whose it
    is; None where each machine has its own. It may be the shorter: to take the longer of both would tell them apart."""
    mixed = document.mixed if isinstance(document, MixedDocument) else None
    return None if mixed is None else mixed.delay_seconds


def limits_of(document: Document) -> dict[str, float | None]:
    """Return until when, and how long at most, a packet may wait."""
    deadline = None if document.deadline is None else document.deadline.timestamp()
    return {"deadline": deadline, "longest": delay_of(document)}


def left_of_mixed(document: Document) -> str:
    """Say what is left of the promise of mixed answers where a task ended before it was complete."""
    return "" if delay_of(document) is None else ", and what you sent is protected by its own noise alone"


class Pacing:
    """Random moments within `longest()` seconds, or within those that a task sets. Without `waits` everything may go at
    once."""

    def __init__(self, longest: Callable[[], float], clock: Callable[[], float], *, waits: bool = True) -> None:
        self._longest, self._clock, self._waits = longest, clock, waits
        self._moments: dict[Packet, float] = {}
        self._looks: dict[int, float] = {}

    def wait(
        self,
        packet: Packet,
        *,
        planned: float | None = None,
        deadline: float | None = None,
        longest: float | None = None,
    ) -> float:
        """Seconds until `packet` may go, 0 once it may. `planned` is its moment from before this process, or later."""
        now = self._clock()
        moment = self._moments.get(packet)
        if moment is None or now > max(moment, planned or moment) + _LATE_SECONDS:
            moment = self._moments[packet] = self._drawn(now, deadline, longest)
        return max(0.0, moment - now)

    def again(
        self, packet: Packet, seconds: float, *, deadline: float | None = None, longest: float | None = None
    ) -> float:
        """The seconds until a packet that could not go is tried again: at least so many, and a random wait more."""
        moment = self._moments[packet] = self._drawn(self._clock() + seconds, deadline, longest)
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

    def _drawn(self, start: float, deadline: float | None = None, longest: float | None = None) -> float:
        most = 0.0 if not self._waits else self._longest() if longest is None else longest
        moment = start + secrets.randbelow(1_000_001) / 1_000_000 * most
        return moment if deadline is None else min(moment, max(start, deadline - _BEFORE_THE_END))
