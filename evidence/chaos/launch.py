"""`python -m evidence.chaos.launch SECONDS COMMAND ...`: a `thebes` command whose clock is off by so many seconds.

Time enters a coordinator and a person's machine by one door each, and only there is it bent, in each of several
processes that answer for a coordinator, too; what else they start has the machine's own clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any


def skew(seconds: float) -> None:
    """Bend both doors."""
    from thebes.coordinator.clock import SystemClock
    from thebes.coordinator.process import fronts
    from thebes.person import daemon
    from thebes.person.home import Person

    def now(self: SystemClock) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=seconds)

    class Bent(fronts.Fronts):
        def __init__(self, command: Sequence[str], *more: Any) -> None:
            _, _, _, *arguments = command  # python -m thebes
            super().__init__([sys.executable, "-m", "evidence.chaos.launch", str(seconds), *arguments], *more)

    fronts.Fronts = Bent  # type: ignore[assignment, misc]
    SystemClock.now = now  # type: ignore[method-assign]
    bent = partial(Person, clock=lambda: time.time() + seconds)
    daemon.Person = bent  # type: ignore[assignment, attr-defined]


def main() -> None:
    seconds = float(sys.argv[1])
    sys.argv[:] = ["thebes", *sys.argv[2:]]
    if seconds:
        skew(seconds)
    from thebes.cli.main import main as thebes

    thebes()


if __name__ == "__main__":
    main()
