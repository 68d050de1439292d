"""The one door through which time enters a coordinator."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Whoever needs to know the time is given one of these."""

    def now(self) -> datetime:
        """This moment, with its time zone."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)
