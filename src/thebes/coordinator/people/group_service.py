"""The questions that can be asked of a coordinator about groups: who may look, who may change, and on which thread it
happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, TypeVar

from thebes.coordinator.auth.accounts import Somebody, operates
from thebes.coordinator.people.groups import Admitted, ContributorGroups
from thebes.coordinator.storage.write_queue import Intake
from thebes.tokens.parameters import PRIVATE
from thebes.wire.groups import GroupRecord

T = TypeVar("T")


class GroupService:
    """The use-cases of groups: reading beside everything else, changes in their turn."""

    def __init__(self, register: ContributorGroups, *, readers: Executor, intake: Intake) -> None:
        self._register, self._readers, self._intake = register, readers, intake

    async def group(self, name: str, epoch: str | None = None) -> dict[str, Any]:
        """Return what is public of a group's epoch, by default of its newest."""
        return await self._read(lambda: self._told(self._register.record(name, epoch)))

    async def all(self) -> list[dict[str, Any]]:
        """Every group with its newest epoch."""

        def work() -> list[dict[str, Any]]:
            newest = {record.name: record for record in reversed(self._register.all())}
            return [self._told(newest[name]) for name in sorted(newest)]

        return await self._read(work)

    async def published(self) -> list[dict[str, Any]]:
        """Every epoch that a task may name, the newest of a group first: without the list of its members."""

        def work() -> list[dict[str, Any]]:
            frozen = [record for record in self._register.all() if record.frozen]
            return [{"name": record.name, "epoch": record.epoch, "size": record.size} for record in frozen]

        return await self._read(work)

    async def enrol(self, name: str, code: str, request: str, epoch: str | None) -> tuple[str, str]:
        """(epoch, the authority's answer) for the holder of a code."""
        return await self._read(lambda: self._register.enrol(name, code, request, epoch=epoch))

    async def create(
        self, name: str, minimum: int, epoch: str | None, asking: Somebody, *, names: str = PRIVATE
    ) -> GroupRecord:
        """A new group or epoch: operators."""
        operates(asking)
        return await self._intake.change(lambda: self._register.create(name, minimum=minimum, epoch=epoch, names=names))

    async def admit(self, name: str, identities: Sequence[str], epoch: str, asking: Somebody) -> dict[str, str]:
        """One-time codes for people who may enrol: operators."""
        operates(asking)
        return await self._intake.change(lambda: self._register.admit(name, identities, epoch=epoch))

    async def publish(self, name: str, epoch: str, asking: Somebody) -> GroupRecord:
        """Freeze an epoch: operators."""
        operates(asking)
        return await self._intake.change(lambda: self._register.publish(name, epoch=epoch))

    async def admitted(self, name: str, epoch: str, asking: Somebody) -> list[Admitted]:
        """List who may enrol, and who has, for operators."""
        operates(asking)
        return await self._read(lambda: self._register.admitted(name, epoch))

    def _told(self, record: GroupRecord) -> dict[str, Any]:
        return {**record.as_json(), "epochs": self._register.epochs(record.name)}

    async def _read(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)
