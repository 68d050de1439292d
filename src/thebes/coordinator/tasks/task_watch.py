"""The watch that requests keep on a task's status, so that nobody has to ask again and again.

What must stay true: whoever waits is answered within the time they gave, however many wait and whatever happens; a
coordinator that ends keeps nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from thebes.coordinator.tasks.states import Status

LOOK_SECONDS = 0.5  #: between two looks at a task, which another process may have moved
MOST_WAITING = 1000  #: requests at once; others are answered as if they had not asked to wait


class TaskWatch:
    """`status` tells that of a task. Used from the event loop only."""

    def __init__(self, status: Callable[[str], Awaitable[Status]]) -> None:
        self._status = status
        self._moved = asyncio.Event()
        self._waiting, self._over = 0, False

    async def moved(self, task_id: str, was: Status, seconds: float) -> None:
        """Return once a task has another status than it had, or after so many seconds."""
        if self._over or self._waiting >= MOST_WAITING:
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        self._waiting += 1
        try:
            while not self._over and await self._status(task_id) is was and (left := end - loop.time()) > 0:
                moved = self._moved
                try:
                    await asyncio.wait_for(moved.wait(), min(left, LOOK_SECONDS))
                except TimeoutError:
                    continue
        finally:
            self._waiting -= 1

    def look(self) -> None:
        """Say that some task may have another status now: who waits looks."""
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()

    def end(self) -> None:
        """Let everybody go."""
        self._over = True
        self.look()
