"""What takes a while to make and may be a little old: made by whoever asks first, and given to everybody meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lately(Generic[T]):
    """Never made twice at the same time. Used from the event loop only."""

    def __init__(self, make: Callable[[], Awaitable[T]]) -> None:
        self._make = make
        self._kept: tuple[float, T] | None = None
        self._making: asyncio.Task[T] | None = None

    async def get(self, seconds: float) -> T:
        """What was made in the last so many seconds, or is being made."""
        if self._making is None:
            now = asyncio.get_running_loop().time()
            if self._kept is not None and now - self._kept[0] < seconds:
                return self._kept[1]
            self._making = asyncio.get_running_loop().create_task(self._made(now))
        return await asyncio.shield(self._making)

    async def _made(self, began: float) -> T:
        try:
            made = await self._make()
            self._kept = began, made
            return made
        finally:
            self._making = None
