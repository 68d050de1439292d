"""The trainings of one process: each begun once, when somebody first comes, and kept while its task is open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import Executor
from typing import Any

from thebes.coordinator.clock import Clock
from thebes.coordinator.storage.database import Database
from thebes.coordinator.training.endless_task import TaskInMemory, Trainee
from thebes.coordinator.training.model_store import TrainingStore
from thebes.coordinator.training.multiple_processes import Shared
from thebes.coordinator.training.single_process import Alone


class Trainings:
    """`writer` writes one thing after another, `readers` do several at a time. Used from the event loop only."""

    def __init__(self, database: Database, clock: Clock, *, readers: Executor, writer: Executor) -> None:
        self.shelf = TrainingStore(database)
        self._alone, self._clock = database.alone, clock
        self._readers, self._writer = readers, writer
        self._known: dict[str, TaskInMemory] = {}
        self._beginning: dict[str, asyncio.Task[TaskInMemory]] = {}

    def of(self, task_id: str) -> TaskInMemory | None:
        """The training of a task, unless it is over or nobody came yet."""
        known = self._known.get(task_id)
        return None if known is None or known.ended else known

    async def begun(self, trainee: Trainee) -> TaskInMemory:
        """The training of an open task; whoever comes while it begins waits for the same one."""
        known = self._known.get(trainee.id)
        if known is not None:
            return known
        if trainee.id not in self._beginning:
            self._beginning[trainee.id] = asyncio.create_task(self._begin(trainee))
        return await asyncio.shield(self._beginning[trainee.id])

    def all(self) -> list[str]:
        """The tasks of all of them."""
        return list(self._known)

    def forget(self, task_ids: Iterable[str]) -> None:
        """These take nothing more."""
        for task_id in task_ids:
            training = self._known.pop(task_id, None)
            if training is not None:
                training.ended = True

    async def settle(self) -> None:
        """Whatever was acknowledged is in the database when this returns."""
        for training in list(self._known.values()):
            await training.settle()

    def finish(self) -> None:
        """The same where nothing moves any more."""
        for training in self._known.values():
            training.finish()

    async def _begin(self, trainee: Trainee) -> TaskInMemory:
        def read() -> TaskInMemory:
            arguments: Any = (trainee, self.shelf.read(trainee.id), self.shelf, self._clock)
            if self._alone:
                return Alone(*arguments, reader=self._readers, writer=self._writer)
            return Shared(*arguments, reader=self._readers, writer=self._readers)

        try:
            made = self._known[trainee.id] = await asyncio.get_running_loop().run_in_executor(self._readers, read)
        finally:
            del self._beginning[trainee.id]
        return made
