"""Who may come in, and who says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import datetime
from typing import TypeVar

from thebes.coordinator.accounts import Accounts, Role, Somebody, User, operates
from thebes.coordinator.capabilities import Capability
from thebes.wire.refusals import Busy, NotSignedIn

T = TypeVar("T")
_AT_ONCE = 2  #: passwords that are checked at the same time, 64 MiB each


class Lobby:
    """The accounts, for many at once: passwords that wait to be checked never hold up whoever has a token."""

    def __init__(self, accounts: Accounts, *, readers: Executor, most_waiting: int) -> None:
        self.accounts = accounts
        self._readers, self._most_waiting = readers, most_waiting
        self._passwords = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def login(self, name: str, password: str) -> tuple[str, datetime]:
        """A token for a name and a password."""
        if self._waiting >= self._most_waiting:
            raise Busy("too many people are logging in just now", 2.0)
        self._waiting += 1
        try:
            async with self._passwords:
                return await self._in_reader(lambda: self.accounts.login(name, password))
        finally:
            self._waiting -= 1

    async def who(self, bearer: str | None) -> Somebody:
        """Who asks; NotSignedIn where that is not known."""
        if bearer is None:
            raise NotSignedIn("this needs a token: Authorization: Bearer TOKEN")
        return await self._in_reader(lambda: self.accounts.who(bearer))

    async def users(self, asking: Somebody) -> list[User]:
        """Everybody with a password, by name."""
        operates(asking)
        return await self._in_reader(self.accounts.users)

    async def capabilities(self, asking: Somebody) -> dict[str, list[Capability]]:
        """Which sites each user may ask for what; users of whom nothing is said are left out."""
        operates(asking)
        return await self._in_reader(self.accounts.capabilities.all)

    async def add(self, name: str, password: str, role: Role, asking: Somebody) -> None:
        """Let somebody in by a name that is free and a password."""
        operates(asking)
        async with self._passwords:
            await self._in_reader(lambda: self.accounts.add(name, password, role))

    async def disable(self, name: str, asking: Somebody) -> None:
        """Let somebody in no longer."""
        operates(asking)
        await self._in_reader(lambda: self.accounts.disable(name))

    async def grant(self, name: str, role: Role, asking: Somebody) -> None:
        """Give a user another role; a disabled one may come in again."""
        operates(asking)
        await self._in_reader(lambda: self.accounts.grant(name, role))

    async def _in_reader(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)
