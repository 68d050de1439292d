"""The one thread that writes, and the queue before it.

What must stay true: nobody is answered before the disk has it. While one transaction waits for the disk the next
arrivals gather, and are then examined and written together: the busier it is, the less each one costs.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from thebes.coordinator.people.contribution_check import Arrival, deliveries
from thebes.coordinator.storage.contribution_intake import ContributionDelivery, Taken
from thebes.coordinator.storage.store import CoordinatorStore
from thebes.privacy.faults import ThebesError
from thebes.wire.refusals import Busy

T = TypeVar("T")
_TOGETHER = 256  #: arrivals in one transaction
_MOST_SECONDS = 1.0  #: that whoever comes would wait; beyond that they are told to come later
_LATELY = 0.2  #: the weight of the newest transaction in how long one takes


class Intake:
    """Everything that changes the database goes through here, one after another. `clock` is read to say how long the
    queue is."""

    def __init__(self, store: CoordinatorStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._transaction = 0.0  #: seconds that one took lately
        self.writer = ThreadPoolExecutor(1, thread_name_prefix="thebes-writer")
        self._waiting: list[tuple[Arrival, asyncio.Future[Taken]]] = []
        self._writing = False

    async def change(self, work: Callable[[], T]) -> T:
        """Run any other change in its turn."""
        return await asyncio.get_running_loop().run_in_executor(self.writer, work)

    def check_room(self) -> None:
        """Refuse whoever comes to a queue that is longer than one transaction and takes longer than a second: a queue
        that only grows answers nobody in time. Nothing of theirs was looked at, so coming again costs nothing."""
        seconds = -(-len(self._waiting) // _TOGETHER) * self._transaction
        if len(self._waiting) >= _TOGETHER and seconds > _MOST_SECONDS:
            spread = 1 + secrets.randbelow(1000) / 1000  # or all who are told this would come at the same moment
            raise Busy("many contributions wait just now; nothing was taken, send it again later", seconds * spread)

    async def take(self, arrival: Arrival) -> Taken:
        """The receipt of an arrival once it is durable, or the refusal."""
        answer: asyncio.Future[Taken] = asyncio.get_running_loop().create_future()
        self._waiting.append((arrival, answer))
        if not self._writing:
            self._write_next()
        return await answer

    def close(self) -> None:
        self.writer.shutdown()

    def _write_next(self) -> None:
        batch, self._waiting = self._waiting[:_TOGETHER], self._waiting[_TOGETHER:]
        self._writing = bool(batch)
        if batch:
            loop, began = asyncio.get_running_loop(), self._clock()
            written = loop.run_in_executor(self.writer, self._write, [arrival for arrival, _ in batch])
            written.add_done_callback(lambda done: self._answer([answer for _, answer in batch], done, began))

    def _write(self, arrivals: Sequence[Arrival]) -> list[Taken | ThebesError]:
        examined = deliveries(arrivals)
        good = [delivery for delivery in examined if isinstance(delivery, ContributionDelivery)]
        taken = iter(self._store.take(good) if good else ())
        return [next(taken) if isinstance(delivery, ContributionDelivery) else delivery for delivery in examined]

    def _answer(
        self, answers: Sequence[asyncio.Future[Taken]], done: asyncio.Future[list[Taken | ThebesError]], began: float
    ) -> None:
        self._transaction += _LATELY * (self._clock() - began - self._transaction)
        self._write_next()
        settle(answers, done)


def settle(answers: Sequence[asyncio.Future[T]], done: asyncio.Future[list[T | ThebesError]]) -> None:
    """Tell everybody who asked together what became of theirs, or all of them the error that stopped the work."""
    error = done.exception()
    for place, answer in enumerate(answers):
        if answer.cancelled():  # who asked has hung up; what was done stays done
            continue
        told = error or done.result()[place]
        if isinstance(told, BaseException):
            answer.set_exception(told)
        else:
            answer.set_result(told)
