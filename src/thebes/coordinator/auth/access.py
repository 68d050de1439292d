"""Access to the coordinator: who may come in, and who says so."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from thebes.coordinator.auth.accounts import ADMIN, Accounts, Role, Somebody, User, operates
from thebes.coordinator.auth.capabilities import Capability
from thebes.coordinator.auth.device_codes import WaitingProgram
from thebes.coordinator.auth.lasting_sessions import Renewal, SessionFacts
from thebes.wire.identity_provider import BegunSignIn, IdentityProvider
from thebes.wire.refusals import Busy, NotAllowed, NotSignedIn

T = TypeVar("T")
_AT_ONCE = 2  #: passwords that are checked at the same time, 64 MiB each
_REFUSAL_SECONDS = 1.0  #: until somebody hears that too many are waiting, who would else ask again at once
_NICER = 10  #: by so much what checks passwords gives way; each check runs on four threads


class Authenticator:
    """The accounts, for many at once: passwords that wait to be checked, or are, never hold up anybody else."""

    def __init__(
        self, accounts: Accounts, *, readers: Executor, most_waiting: int, provider: IdentityProvider | None = None
    ) -> None:
        self.accounts, self._provider = accounts, provider
        self._readers, self._most_waiting = readers, most_waiting
        self._passwords = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="thebes-password", initializer=_give_way)
        self._waiting = 0

    def close(self) -> None:
        self._passwords.shutdown(cancel_futures=True)

    async def login(self, name: str, password: str) -> tuple[str, datetime]:
        """A token for a name and a password."""
        if self._waiting >= self._most_waiting:
            await asyncio.sleep(_REFUSAL_SECONDS)
            raise Busy("too many people are logging in just now", 2.0)
        self._waiting += 1
        try:
            return await self._slowly(lambda: self.accounts.login(name, password))
        finally:
            self._waiting -= 1

    @property
    def federated(self) -> bool:
        """Return whether users may sign in at an identity provider."""
        return self._provider is not None

    async def leave_for_provider(self, back: str) -> BegunSignIn:
        """Return where to send somebody who signs in at the provider, and comes back to `back`."""
        provider = self._provider
        assert provider is not None  # noqa: S101  # asked before
        return await self._slowly(lambda: provider.begin(back))

    async def enter_from_provider(
        self, begun: BegunSignIn, back: str, *, state: str, code: str
    ) -> tuple[str, datetime]:
        """A token for whoever came back from the provider."""
        provider = self._provider
        if provider is None:
            raise NotSignedIn("this coordinator has no identity provider; sign in with a password")

        def work() -> tuple[str, datetime]:
            return self.accounts.federated.login(provider.finish(begun, back, state=state, code=code))

        return await self._slowly(work)

    async def begin(self, client: str, address: str) -> tuple[str, str]:
        """Return what a program proves itself by that wants to be let in, and the code that it shows."""
        return await self._in_reader(lambda: self.accounts.devices.begin(client, address))

    async def claim(self, device: str) -> LastingToken | None:
        """The session of a program that somebody let in; None while nobody has decided."""

        def work() -> LastingToken | None:
            renewal = self.accounts.devices.claim(device)
            return None if renewal is None else LastingToken(*self.accounts.access(renewal), renewal)

        return await self._in_reader(work)

    async def renew(self, token: str) -> LastingToken:
        """The same session for another quarter of an hour, with the token for the next time."""

        def work() -> LastingToken:
            renewal = self.accounts.lasting.renew(token)
            return LastingToken(*self.accounts.access(renewal), renewal)

        return await self._in_reader(work)

    async def end(self, token: str) -> None:
        """End a session that lasts."""
        await self._in_reader(lambda: self.accounts.lasting.end(token))

    async def sessions(self, asking: Somebody) -> list[SessionFacts]:
        """List one's own sessions that go on; to an operator everybody's."""
        return await self._in_reader(lambda: self.accounts.lasting.listed(_whose(asking)))

    async def end_session(self, session: str, asking: Somebody) -> None:
        """End one of one's own sessions; an operator anybody's."""
        await self._in_reader(lambda: self.accounts.lasting.end_listed(session, _whose(asking)))

    async def waiting(self, typed: str, asking: Somebody) -> WaitingProgram:
        """Return which program shows the code that somebody typed."""
        _with_password(asking)
        return await self._in_reader(lambda: self.accounts.devices.waiting(typed, asking.name))

    async def decide(self, typed: str, asking: Somebody, *, let_in: bool) -> WaitingProgram:
        """Let a program in as whoever decides, or refuse it."""
        _with_password(asking)
        return await self._in_reader(lambda: self.accounts.devices.decide(typed, asking.name, let_in=let_in))

    async def who(self, bearer: str | None) -> Somebody:
        """Return who asks; NotSignedIn where that is not known."""
        if bearer is None:
            raise NotSignedIn("sign in first: `thebes login URL`, or give a token")
        return await self._in_reader(lambda: self.accounts.who(bearer))

    async def leave(self, bearer: str) -> None:
        """This token counts no longer, in any process and whoever has a copy of it."""
        await self._in_reader(lambda: self.accounts.end(bearer))

    async def knows(self, tokens: list[str]) -> bool:
        """Return whether one of these is somebody's token."""
        for token in tokens:
            with suppress(NotSignedIn):
                await self.who(token)
                return True
        return False

    async def users(self, asking: Somebody) -> list[User]:
        """Everybody with a password, by name."""
        operates(asking)
        return await self._in_reader(self.accounts.users)

    async def capabilities(self, asking: Somebody) -> dict[str, list[Capability]]:
        """Return which sites each user may ask for what; users of whom nothing is said are left out."""
        operates(asking)
        return await self._in_reader(self.accounts.capabilities.all)

    async def add(self, name: str, password: str, role: Role, asking: Somebody) -> None:
        """Let somebody in by a name that is free and a password."""
        operates(asking)
        await self._slowly(lambda: self.accounts.add(name, password, role))

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

    async def _slowly(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._passwords, work)


@dataclass(frozen=True, slots=True)
class LastingToken:
    """A token, when it ends, and how its session goes on."""

    token: str
    ends: datetime
    renewal: Renewal


def _whose(asking: Somebody) -> str | None:
    """Return whose sessions somebody may see and end; None: everybody's."""
    return None if asking.role is Role.OPERATOR else asking.name


def _with_password(asking: Somebody) -> None:
    if asking == ADMIN:
        raise NotAllowed(
            "the operator's token cannot let a program in; sign in as a user, or give the program that token itself"
        )


def _give_way() -> None:
    """This thread, and those it starts, run when nobody else needs the machine. Elsewhere than on Linux a priority is a
    whole process's."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + _NICER))
