"""The process that ends phases, so that submissions never wait for a computation.

Its parent writes where it works on the first line of its standard input, a line more whenever a phase may have
become full, and closes it to say goodbye. It is safe to kill at any moment; the next one finds what is to be done.
"""

from __future__ import annotations

import json
import logging
import os
import select
import sys
from pathlib import Path

from thebes.coordinator.clock import SystemClock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.storage.database import Database, StoreUnavailable
from thebes.coordinator.tasks.phase_end import Closing
from thebes.coordinator.tasks.phase_queue import PhaseQueue
from thebes.wire import log_output

LOOK_SECONDS = 0.5  #: how often deadlines, and what others left, are looked for
log = logging.getLogger("thebes.coordinator")


def main() -> None:
    """Work until the parent says goodbye or is gone."""
    log_output.to_stderr("%(levelname)s %(name)s: %(message)s")
    told = json.loads(sys.stdin.readline())
    home = CoordinatorHome(Path(told["home"]))
    closing = Closing(PhaseQueue(Database(told["store"]), told["holder"]), home.keys, SystemClock())
    closing.forget_orphans()
    while True:
        try:
            closing.step()
        except StoreUnavailable as error:
            log.error("%s; trying again", error, extra={"event": "store.away"})
        if _goodbye():
            return


def _goodbye() -> bool:
    """Wait for a line or a while; whether the parent is gone."""
    ready, _, _ = select.select([sys.stdin], [], [], LOOK_SECONDS)
    return bool(ready) and os.read(sys.stdin.fileno(), 65536) == b""


if __name__ == "__main__":
    main()
