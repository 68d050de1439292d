"""`python -m chaos.launch SECONDS COMMAND ...`: a `thebes` command whose clock is off by so many seconds.

Time enters a coordinator and a person's machine by one door each, and only there is it bent; processes that they start
have the machine's own clock.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta
from functools import partial


def skew(seconds: float) -> None:
    """Bend both doors."""
    from thebes.coordinator.clock import SystemClock
    from thebes.person import daemon
    from thebes.person.home import Person

    def now(self: SystemClock) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=seconds)

    SystemClock.now = now  # type: ignore[method-assign]
    bent = partial(Person, clock=lambda: time.time() + seconds)
    daemon.Person = bent  # type: ignore[assignment, attr-defined]


def main() -> None:
    seconds = float(sys.argv[1])
    sys.argv[:] = ["thebes", *sys.argv[2:]]
    if seconds:
        skew(seconds)
    from thebes.apps.command import main as thebes

    thebes()


if __name__ == "__main__":
    main()
