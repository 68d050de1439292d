"""Tasks without end: each contribution is taken into a state at once, and an answer is always there.

What must stay true: a contribution is taken at most once, and is so exactly if its receipt is in the database. No
lock: what happens to the state happens on the event loop, one step after another, and nothing there waits; what takes
longer than a step is computed beside it, from a copy.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from thebes.coordinator.api.single_flight import Lately
from thebes.coordinator.clock import Clock
from thebes.coordinator.people.contribution_check import Submission
from thebes.coordinator.tasks.task_keys import TaskKey
from thebes.coordinator.training.model_store import KeptModels, TakenContribution, TrainingStore
from thebes.privacy.faults import Mistake
from thebes.tasks.contributions import read_payloads
from thebes.tasks.protocols import Ask, Closed, Endless, State, TaskClosed, Wait
from thebes.wire.refusals import Conflict

T = TypeVar("T")
CLOSED = "this task takes no more contributions"
SHOWN_SECONDS = 1.0  #: for so long a release is given out again before a newer one is made


@dataclass(frozen=True, slots=True)
class Trainee:
    """One task without end, with what is needed for it."""

    id: str
    aggregator: Endless
    key: TaskKey
    deadline: datetime | None
    most: int | None  #: it takes no more than so many


class TaskInMemory(ABC):
    """One task in one process. `ended`: it takes nothing more, and the worker has been left what there is to do."""

    def __init__(
        self,
        trainee: Trainee,
        kept: KeptModels,
        shelf: TrainingStore,
        clock: Clock,
        *,
        reader: Executor,
        writer: Executor,
    ) -> None:
        self.task = trainee.id
        self.key = trainee.key
        self.aggregator = trainee.aggregator
        self.ended = False
        self._deadline, self._clock, self._shelf = trainee.deadline, clock, shelf
        self._reader, self._writer = reader, writer
        self._packets = {part: packet for packet, part in enumerate(self.aggregator.parts)}
        self._answer, self._pictures = Lately(self._released, clock), Lately(self._pictured, clock)
        self._restore(kept)

    # --- what is asked of it ----------------------------------------------------------------------------

    async def ask(self, slot: str, packet: int) -> Ask | Wait | Closed:
        """Return what is wanted from this slot now."""
        if self._over() or self._full():
            return Closed()
        return self.aggregator.ask(slot, packet)

    @abstractmethod
    async def take(self, sent: Submission) -> str:
        """Take a contribution; its receipt. The same again gets the same."""

    @abstractmethod
    async def settle(self) -> None:
        """Settle what was acknowledged: it is in the database when this returns."""

    @abstractmethod
    def finish(self) -> None:
        """The same where nothing moves any more: the process ends."""

    async def release(self) -> str | None:
        """The answer as it stands, as JSON; a second old at the most."""
        return await self._answer.get(SHOWN_SECONDS)

    async def end(self) -> None:
        """Take nothing more, and leave the rest to the worker; Conflict where there is no answer to keep."""
        if await self._released() is None:
            raise Conflict("there is no answer yet: too little was taken; wait, or cancel the task")
        self.ended = True  # first: what is written below is then all there is
        try:
            await self.settle()
            await self._in(self._writer, lambda: self._shelf.end(self.task))
        except BaseException:
            self.ended = False
            raise

    async def catch_up(self) -> None:
        """Hear of what other processes did, where there are any."""
        return

    async def progress(self, *, pieces: bool) -> dict[str, Any]:
        """Return what a live view shows: how it went and, with `pieces`, how each of them is, a second old at the
        most."""
        await self.catch_up()
        pictured = await self._pictures.get(SHOWN_SECONDS) if pieces else None
        return self.aggregator.progress(self.aggregator.facts(), pictured)

    async def _released(self) -> str | None:
        await self.catch_up()
        copied = self.aggregator.copied()

        def work() -> str | None:
            made = copied.release()
            return None if made is None else json.dumps(made.as_json())

        return await self._in(self._reader, work)

    async def _pictured(self) -> Any:
        copied = self.aggregator.copied()
        return await self._in(self._reader, copied.pictured)

    # --- taking -----------------------------------------------------------------------------------------

    def _over(self) -> bool:
        late = self._deadline is not None and self._clock.now() >= self._deadline
        return self.ended or late or self.aggregator.state is not State.OPEN

    def _mix(self, sent: Submission) -> None:
        """Take a contribution into the state; a refusal leaves it as it was."""
        if self._over() or self._full():
            raise TaskClosed(CLOSED)
        packet = self._packets.get(sent.part)
        if packet is None:
            raise Mistake("part", "is not a part of this task")
        if not self.aggregator.asked(sent.ask_id, sent.contributor, packet):
            raise Mistake("ask_id", "is not what this task asks now; get a new ask")
        layout = self.aggregator.layout(sent.part)
        self.aggregator.accept(read_payloads(layout, sent.part, [sent.payload]))
        self._count()

    def _count(self) -> None:
        """Remember which pieces were replaced."""
        for place in self.aggregator.replaced():
            self._replaced[place] = self._replaced.get(place, 0) + 1

    def _full(self) -> bool:
        """Return whether it has all it wants, or its target."""
        self.aggregator.advance(self._clock.now())
        return self.aggregator.state is not State.OPEN

    # --- the state in and out ---------------------------------------------------------------------------

    def _restore(self, kept: KeptModels) -> None:
        """Take over what the database has."""
        self.aggregator.take_over(kept.facts, kept.models, kept.times)
        self._times = list(kept.times)
        self._replaced: dict[int, int] = {}  # since it was last written: place -> how often

    def _pieces(self) -> dict[int, tuple[int, bytes]]:
        """Take out how often each replaced piece was replaced, and what it is now; from here on only what comes after
        is new."""
        found = {place: (times, self.aggregator.saved(place)) for place, times in self._replaced.items()}
        self._replaced = {}
        return found

    async def _in(self, pool: Executor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, work)


def again(noted: TakenContribution, fingerprint: bytes) -> str:
    """The receipt of a contribution that comes once more."""
    if noted.fingerprint != fingerprint:
        raise Conflict("this contributor sent something else for this part before; the first is kept")
    return noted.receipt
