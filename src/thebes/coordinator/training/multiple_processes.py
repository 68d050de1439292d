"""Training in one of several processes on one database: models are drawn from a copy and mixed in where all see them.

What must stay true: whoever is told of a receipt has it in the database, with the model that was replaced, in one
transaction; so has nobody else under that name, in whichever process. A copy is `COPY_SECONDS` old at the most: what it
lacks of others' updates is in flight, which the algorithm allows. Where there are no pieces, the facts are brought
together in that transaction, so that every contribution counts exactly once.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from thebes.coordinator.people.contribution_check import Submission
from thebes.coordinator.tasks.states import Status
from thebes.coordinator.training.endless_task import CLOSED, TaskInMemory, Trainee, again
from thebes.coordinator.training.model_store import Collision, Identity, MixedContributions, News, TakenContribution
from thebes.privacy.faults import ThebesError
from thebes.tasks.protocols import Ask, Closed, State, TaskClosed, Wait
from thebes.wire.refusals import Busy

COPY_SECONDS = 0.05
JOIN_SECONDS = 0.5  #: how often it is brought together what each process counted
_TOGETHER = 256  #: contributions in one transaction
_ATTEMPTS = 8
_BUSY_SECONDS = 0.5
log = logging.getLogger("thebes.coordinator")


@dataclass(frozen=True, slots=True)
class _Arrival:
    sent: Submission
    fingerprint: bytes
    answer: asyncio.Future[str]

    @property
    def identity(self) -> Identity:
        return self.sent.part, self.sent.contributor


class Shared(TaskInMemory):
    """Acknowledges what is in the database. While one batch is written the next one gathers. Nothing is locked but the
    models that are replaced; where the task takes no more than so many, they are counted under a lock."""

    def __init__(self, trainee: Trainee, *arguments: Any, **more: Any) -> None:
        super().__init__(trainee, *arguments, **more)
        self._most = trainee.most
        self._waiting: list[_Arrival] = []
        self._turn: asyncio.Task[None] | None = None
        self._read_at = float("-inf")
        self._read: asyncio.Task[None] | None = None
        self._overheard: set[int] = set()  # places that others replaced while a batch of ours was being written
        self._joined = self.aggregator.facts()
        self._in_hand = False  # something was mixed in that is not known to be written
        self._timer: asyncio.TimerHandle | None = None
        self._joining: asyncio.Task[None] | None = None

    async def ask(self, slot: str, packet: int) -> Ask | Wait | Closed:
        await self.catch_up()
        return await super().ask(slot, packet)

    async def take(self, sent: Submission) -> str:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._arrive(_Arrival(sent, self.key.fingerprint(sent.body()), answer))
        return await answer

    async def catch_up(self) -> None:
        if asyncio.get_running_loop().time() - self._read_at < COPY_SECONDS:
            return
        if self._read is None:
            self._read = asyncio.get_running_loop().create_task(self._listen())
        await asyncio.shield(self._read)

    async def settle(self) -> None:
        while self._turn is not None:
            await asyncio.shield(self._turn)
        if self._timer is not None:
            self._timer.cancel()
            self._join_now()
        while self._joining is not None:
            await asyncio.shield(self._joining)

    def finish(self) -> None:
        """Nothing is left to be done: what was acknowledged is in the database."""

    # --- what others did --------------------------------------------------------------------------------

    async def _listen(self) -> None:
        try:
            began = asyncio.get_running_loop().time()
            self._hear(await self._in(self._reader, lambda: self._shelf.news(self.task, tuple(self._times))))
            self._read_at = began
        finally:
            self._read = None

    def _hear(self, news: News) -> None:
        for place, (times, model) in news.models.items():
            if times > self._times[place]:
                self.aggregator.load(place, model)
                self._times[place] = times
                self._overheard.add(place)
        facts, taken = news.facts, self.aggregator.taken
        if facts is not None and not self._in_hand and taken(facts) >= taken(self._joined):  # else it was read earlier
            self._know(facts)
        self._add_up()
        if news.status is not Status.OPEN:
            self.ended = True

    def _add_up(self) -> None:
        """As many updates as are in the database, and no more: an ask that names one is known to every process."""
        self.aggregator.stands(self._times)

    # --- what came here ---------------------------------------------------------------------------------

    def _arrive(self, arrival: _Arrival) -> None:
        self._waiting.append(arrival)
        if self._turn is None:
            self._turn = asyncio.get_running_loop().create_task(self._turns())

    async def _turns(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_TOGETHER], self._waiting[_TOGETHER:]
            try:
                await self._attend(batch)
            except Exception as error:
                for arrival in batch:
                    _tell(arrival, error)
        self._turn = None
        if self._timer is None and self.aggregator.pieces:
            self._timer = asyncio.get_running_loop().call_later(JOIN_SECONDS, self._join_now)

    async def _attend(self, batch: Sequence[_Arrival]) -> None:
        """Answer each: repeats as before, what is refused with its refusal, the rest once it is written; all of it
        again where another process was quicker with one of them."""
        for _ in range(_ATTEMPTS):
            names = [arrival.identity for arrival in batch]
            known, news = await self._in(self._reader, partial(self._look, names))
            self._hear(news)
            try:
                told, mixed = self._mixed(batch, known)
                if mixed and not await self._written(mixed):
                    for arrival in (arrival for arrival, _ in told if arrival.identity in mixed):
                        _tell(arrival, TaskClosed(CLOSED))
            except Collision:
                await self._start_anew()
                batch = [arrival for arrival, _ in told]
                continue
            except BaseException:
                await self._start_anew()
                raise
            for arrival, noted in told:
                try:
                    _tell(arrival, again(noted, arrival.fingerprint))
                except ThebesError as refused:
                    _tell(arrival, refused)
            return
        raise Busy("too many processes take the same contributions", _BUSY_SECONDS)

    def _look(self, names: Sequence[Identity]) -> tuple[Mapping[Identity, TakenContribution], News]:
        return self._shelf.known(self.task, names), self._shelf.news(self.task, tuple(self._times))

    def _mixed(
        self, batch: Sequence[_Arrival], known: Mapping[Identity, TakenContribution]
    ) -> tuple[list[tuple[_Arrival, TakenContribution]], dict[Identity, TakenContribution]]:
        """Mix a batch in, and return who is to be told of which receipt, and which of those are new. Refusals are told
        at once."""
        told: list[tuple[_Arrival, TakenContribution]] = []
        mixed: dict[Identity, TakenContribution] = {}
        for arrival in batch:
            noted = known.get(arrival.identity) or mixed.get(arrival.identity)
            if noted is None:
                try:
                    self._mix(arrival.sent)
                except ThebesError as refused:
                    _tell(arrival, refused)
                    continue
                noted = mixed[arrival.identity] = TakenContribution(arrival.fingerprint, secrets.token_hex(16))
            told.append((arrival, noted))
        self._in_hand = self._in_hand or bool(mixed)
        return told, mixed

    async def _written(self, mixed: dict[Identity, TakenContribution]) -> bool:
        """Write a batch, and return whether it was written; it is not where the task is over."""
        full, most = self._full(), self._most
        before, mine, stored = self._joined, self.aggregator.facts(), dict[str, Any]()

        def joined(theirs: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
            stored.update(self.aggregator.joined(theirs, before, mine))
            return stored, self.aggregator.taken(stored)

        whole = None if self.aggregator.pieces else joined  # where facts are all there is
        new = MixedContributions(self.task, mixed, self._pieces(), full=full, most=most, joined=whole)
        self._overheard.clear()
        self._add_up()
        times = await self._in(self._writer, lambda: self._shelf.write(new))
        if whole is not None and times is not None:
            self._know(stored)
        self._in_hand = False
        if times is None or full:
            self.ended = True
        for place, updates in (times or {}).items():
            self._times[place] = updates
            if place in self._overheard:  # ours came later
                self.aggregator.load(place, new.models[place][1])
        self._add_up()
        return times is not None

    def _know(self, facts: Mapping[str, Any]) -> None:
        self.aggregator.recall(facts)
        self._joined = self.aggregator.facts()

    async def _start_anew(self) -> None:
        """Forget what was mixed in here and not written."""
        self._in_hand = False
        self._restore(await self._in(self._reader, lambda: self._shelf.read(self.task)))
        self.aggregator.state = State.OPEN
        self._joined = self.aggregator.facts()

    # --- what each counted ------------------------------------------------------------------------------

    def _join_now(self) -> None:
        self._timer = None
        if self._joining is None:
            self._joining = asyncio.get_running_loop().create_task(self._join())

    async def _join(self) -> None:
        mine, before = self.aggregator.facts(), self._joined

        def joined(theirs: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
            facts = self.aggregator.joined(theirs, before, mine)
            return facts, self.aggregator.taken(facts)

        try:
            stored = await self._in(self._writer, lambda: self._shelf.join(self.task, joined))
        except ThebesError as error:
            log.error(
                "task %s: %s; what was counted waits",
                self.task,
                error,
                extra={"event": "training.waits", "task": self.task},
            )
            self._timer = self._timer or asyncio.get_running_loop().call_later(JOIN_SECONDS, self._join_now)
        else:
            self.aggregator.recall(self.aggregator.joined(stored, mine, self.aggregator.facts()))
            self._joined = stored
            self._add_up()
        finally:
            self._joining = None


def _tell(arrival: _Arrival, answer: str | BaseException) -> None:
    """Unless who asked has hung up, or was told already; what was done stays done."""
    if arrival.answer.done():
        return
    if isinstance(answer, str):
        arrival.answer.set_result(answer)
    else:
        arrival.answer.set_exception(answer)
