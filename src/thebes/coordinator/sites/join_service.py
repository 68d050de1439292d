"""The questions that can be asked of a coordinator about join codes: who may, and on which thread it happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import datetime
from typing import Any, TypeVar

from thebes.coordinator.auth.accounts import Somebody, operates
from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.auth.join_codes import HOURS, JoinAnswer, JoinCodes
from thebes.coordinator.auth.site_certificates import DAYS
from thebes.coordinator.clock import Clock
from thebes.coordinator.home import CoordinatorHome
from thebes.wire.join_codes import JoinCode
from thebes.wire.refusals import NotFound

T = TypeVar("T")


class JoinService:
    """The use-cases of join codes. What they change lies in files, so no other change waits for them."""

    def __init__(self, home: CoordinatorHome, clock: Clock, *, readers: Executor) -> None:
        self._codes, self._clock = JoinCodes(CertificateAuthority(home.folder, clock), clock), clock
        self._readers = readers

    async def invite(
        self, site: str, asking: Somebody, *, hours: int = HOURS, days: int = DAYS
    ) -> tuple[JoinCode, datetime]:
        """A code for a site, and until when it counts: operators."""
        operates(asking)
        return await self._read(lambda: self._codes.make(site, by=asking.name, hours=hours, days=days))

    async def codes(self, asking: Somebody) -> list[dict[str, Any]]:
        """List what became of every code, the newest first: operators."""
        operates(asking)
        return await self._read(lambda: [each.as_json(self._clock.now()) for each in self._codes.all()])

    async def withdraw(self, site: str, asking: Somebody) -> None:
        """End the open code of a site: operators."""
        operates(asking)
        if not await self._read(lambda: self._codes.withdraw(site)):
            raise NotFound("no join code is open for this site")

    async def join(self, code: str, request: str, proof: str) -> JoinAnswer:
        """The certificate for whoever has a code."""
        return await self._read(lambda: self._codes.redeem(code, request, proof))

    async def _read(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)
