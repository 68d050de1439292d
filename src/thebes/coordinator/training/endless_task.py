"""Tasks that are trained without end: an ask draws a model, a contribution replaces one, an answer is always there.

What must stay true: a contribution is mixed in at most once, and is so exactly if its receipt is in the database. No
lock: what happens to the models happens on the event loop, one step after another, and nothing there waits; what takes
longer than a step is computed beside it, from a copy.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from thebes.coordinator.api.single_flight import Lately
from thebes.coordinator.clock import Clock
from thebes.coordinator.people.contribution_check import Submission
from thebes.coordinator.tasks.task_keys import TaskKey
from thebes.coordinator.training.model_store import Kept, Noted, Shelf
from thebes.privacy.faults import Mistake
from thebes.tasks.contributions import read_payloads
from thebes.tasks.protocols import Ask, Closed, Lane, State, TaskClosed, Trained, Wait
from thebes.wire.refusals import Conflict

T = TypeVar("T")
CLOSED = "this task takes no more contributions"
SHOWN_SECONDS = 1.0  #: for so long a release is given out again before a newer one is made
MOST_SHOWN = 2000  #: weights of one lane's models together that a live view has one by one


@dataclass(frozen=True, slots=True)
class Trainee:
    """One task that is trained, with what is needed for it."""

    id: str
    aggregator: Trained
    key: TaskKey
    deadline: datetime | None
    most: int | None  #: it takes no more than so many


class Training(ABC):
    """One task in one process. `ended`: it takes nothing more, and the worker has been left what there is to do."""

    def __init__(
        self, trainee: Trainee, kept: Kept, shelf: Shelf, clock: Clock, *, reader: Executor, writer: Executor
    ) -> None:
        self.task = trainee.id
        self.key = trainee.key
        self.aggregator = trainee.aggregator
        self.ended = False
        self._deadline, self._clock, self._shelf = trainee.deadline, clock, shelf
        self._reader, self._writer = reader, writer
        self._packets = {part: packet for packet, part in enumerate(self.aggregator.parts)}
        self._lanes = self.aggregator.lanes
        self._answer, self._models_shown = Lately(self._released), Lately(self._drawn)
        self._restore(kept)

    # --- what is asked of it ----------------------------------------------------------------------------

    async def ask(self, slot: str, packet: int) -> Ask | Wait | Closed:
        """A model, drawn for this slot."""
        if self._over():
            return Closed()
        return self.aggregator.ask(slot, packet)

    @abstractmethod
    async def take(self, sent: Submission) -> str:
        """Mix a contribution in; its receipt. The same again gets the same."""

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
            raise Conflict("there is no answer yet: too little was mixed in; wait, or cancel the task")
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

    async def progress(self, *, models: bool) -> dict[str, Any]:
        """Return what a live view shows: how it went and, with `models`, each of them, a second old at the most."""
        await self.catch_up()
        drawn = await self._models_shown.get(SHOWN_SECONDS) if models else [{} for _ in self._lanes]
        lanes = [
            {
                "updates": lane.updates,
                "refused": lane.refused,
                "quarantined": lane.quarantined,
                "stale": lane.stale,
                "history": [[updates, spread] for updates, spread in lane.history],
                **each,
            }
            for lane, each in zip(self._lanes, drawn, strict=True)
        ]
        return {"contributions": sum(self.aggregator.counts), "lanes": lanes}

    async def _released(self) -> str | None:
        await self.catch_up()
        copied = self.aggregator.copied()

        def work() -> str | None:
            made = copied.release()
            return None if made is None else json.dumps(made.as_json())

        return await self._in(self._reader, work)

    async def _drawn(self) -> list[dict[str, Any]]:
        copied = [lane.models.copy() for lane in self._lanes]
        return await self._in(self._reader, lambda: [_described(models) for models in copied])

    # --- mixing in --------------------------------------------------------------------------------------

    def _over(self) -> bool:
        late = self._deadline is not None and self._clock.now() >= self._deadline
        return self.ended or late or self.aggregator.state is not State.OPEN

    def _mix(self, sent: Submission) -> None:
        """Replace a model by a contribution; a refusal leaves every model as it was."""
        if self._over():
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
        """Remember which places were replaced."""
        for start, lane in zip(starts(self._lanes), self._lanes, strict=True):
            for place in lane.changed:
                self._replaced[start + place] = self._replaced.get(start + place, 0) + 1
            lane.changed.clear()

    def _full(self) -> bool:
        """Return whether it has all it wants, or its target."""
        self.aggregator.advance(self._clock.now())
        return self.aggregator.state is not State.OPEN

    # --- models in and out ------------------------------------------------------------------------------

    def _restore(self, kept: Kept) -> None:
        """Take over what the database has."""
        restore(self.aggregator, kept)
        self._times = list(kept.times)
        self._replaced: dict[int, int] = {}  # since it was last written: place -> how often

    def _put(self, place: int, model: bytes) -> None:
        lane, at = _found(self._lanes, place)
        lane.load(at, model)

    def _models(self) -> dict[int, tuple[int, bytes]]:
        """Take out how often each replaced model was replaced, and what it is now; from here on only what comes after
        is new."""
        models = {}
        for place, times in self._replaced.items():
            lane, at = _found(self._lanes, place)
            models[place] = (times, lane.saved(at))
        self._replaced = {}
        return models

    async def _in(self, pool: Executor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, work)


def _described(models: NDArray[np.float64]) -> dict[str, Any]:
    """Each model of a lane: its length, how far it is from their average and, of small ones, its weights."""
    return {
        "norms": np.linalg.norm(models, axis=1).tolist(),
        "distances": np.linalg.norm(models - models.mean(axis=0), axis=1).tolist(),
        "models": models.tolist() if models.size <= MOST_SHOWN else [],
    }


def restore(aggregator: Trained, kept: Kept) -> None:
    """An aggregator as the database has it."""
    aggregator.recall(kept.facts)
    for place, model in enumerate(kept.models):
        lane, at = _found(aggregator.lanes, place)
        lane.load(at, model)
    for start, lane in zip(starts(aggregator.lanes), aggregator.lanes, strict=True):
        lane.updates = sum(kept.times[start : start + lane.count])
        lane.settle()
    count(aggregator)


def count(aggregator: Trained) -> None:
    """So many contributions were taken in all, whichever process or turn they came to."""
    taken = sum(lane.updates + lane.quarantined for lane in aggregator.lanes)
    aggregator.counts[:] = [taken, *[0] * (len(aggregator.counts) - 1)]


def again(noted: Noted, fingerprint: bytes) -> str:
    """The receipt of a contribution that comes once more."""
    if noted.fingerprint != fingerprint:
        raise Conflict("this contributor sent something else for this part before; the first is kept")
    return noted.receipt


def starts(lanes: Sequence[Lane]) -> list[int]:
    """The first place of each lane; places are numbered over all of them."""
    found, at = [], 0
    for lane in lanes:
        found.append(at)
        at += lane.count
    return found


def _found(lanes: Sequence[Lane], place: int) -> tuple[Lane, int]:
    for lane in lanes:
        if place < lane.count:
            return lane, place
        place -= lane.count
    raise AssertionError("a place that no lane has")
