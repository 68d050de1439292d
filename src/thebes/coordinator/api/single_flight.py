"""Values that take a while to make, each made once for many who ask at about the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Generic, TypeVar

from thebes.coordinator.clock import Clock

T = TypeVar("T")


class Lately(Generic[T]):
    """A value that may be a little old: made by whoever asks first, and given to everybody meanwhile. Never made twice
    at the same time. Used from the event loop only."""

    def __init__(self, make: Callable[[], Awaitable[T]], clock: Clock) -> None:
        self._make, self._clock = make, clock
        self._kept: tuple[datetime, T] | None = None
        self._making: asyncio.Task[T] | None = None

    async def get(self, seconds: float) -> T:
        """Return what was made in the last so many seconds, or is being made."""
        if self._making is None:
            now = self._clock.now()
            if self._kept is not None and 0 <= (now - self._kept[0]).total_seconds() < seconds:  # clocks are set back
                return self._kept[1]
            self._making = asyncio.get_running_loop().create_task(self._made(now))
        return await asyncio.shield(self._making)

    async def _made(self, began: datetime) -> T:
        try:
            made = await self._make()
            self._kept = began, made
            return made
        finally:
            self._making = None


class Together(Generic[T]):
    """A value that must be as it is: nobody is given what was begun to be made before they asked. Who asks meanwhile
    waits for the next one, with everybody else who does. Used from the event loop only."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._making: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def get(self) -> T:
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._turn(self._making))
        return await asyncio.shield(self._next)

    async def _turn(self, before: asyncio.Task[T] | None) -> T:
        if before is not None and not before.done():
            await asyncio.wait([before])
        self._making, self._next = self._next, None  # from here on it is begun
        return await self._make()
