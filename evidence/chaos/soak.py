"""A day's worth of asks in minutes: nobody strikes, but every role is restarted in turn, as on a day of maintenance."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import cycle

from evidence.chaos.world import World

DAY = 288  #: asks of one day: one every five minutes
_RESTARTS = 24  #: on such a day
_MOST_OPEN = 8  #: tasks that are under way before the next one is asked
_PATIENCE_SECONDS = 120.0


def soak(world: World, asks: int, tell: Callable[[str], None]) -> int:
    """Ask so often and restart a role after every few; how many restarts there were."""
    turns, every, restarts = cycle([world.coordinator, *world.people, *world.sites]), max(1, asks // _RESTARTS), 0
    for number in range(asks):
        _until(world, partial(_asked, world, number))
        if number % every == every - 1:
            role = next(turns)
            tell(f"{len(world.posted)} asked, {len(world.witnessed)} answered; {role.name} is restarted")
            if (status := role.stop()) != 0:
                raise RuntimeError(f"{role.name} ended with {status}")
            role.start()
            restarts += 1
        _until(world, lambda: len(world.posted) - len(world.witnessed) < _MOST_OPEN)
    return restarts


def _asked(world: World, number: int) -> bool:
    """Put one up; whether it arrived."""
    before = len(world.posted)
    world.ask(world.document(number))
    return len(world.posted) > before


def _until(world: World, true: Callable[[], bool]) -> None:
    """Wait while a role comes back; what never does is told at the end, when nothing comes to rest."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while not true() and time.monotonic() < end:
        time.sleep(0.1)
        world.look()
