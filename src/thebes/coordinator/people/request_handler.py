"""The handling of what a task asks of people now, and of what they send: from a stranger's contribution to their
receipt.

What must stay true: a contribution is examined before it is taken and is taken before it is acknowledged; whose it is
is proven before anything else of it is looked at; nothing is heard that the task does not ask now.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from typing import TypeVar, cast

from thebes.coordinator.clock import Clock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.people.contribution_check import Arrival, Phase, Sent
from thebes.coordinator.people.contribution_record import most_bytes
from thebes.coordinator.people.contributor_identity import Admission, TokenContribution
from thebes.coordinator.storage.store import CoordinatorStore, past_part
from thebes.coordinator.storage.task_standing import TaskStanding
from thebes.coordinator.storage.write_queue import Intake
from thebes.coordinator.tasks.acceptance import Acceptance
from thebes.coordinator.tasks.phase_end import setting
from thebes.coordinator.tasks.states import Status
from thebes.coordinator.tasks.task_feed import Notices
from thebes.coordinator.tasks.task_keys import TaskKey, keys_said, place_of_snapshot
from thebes.coordinator.training.endless_task import CLOSED, TaskInMemory, Trainee
from thebes.coordinator.training.registry import Trainings
from thebes.privacy.faults import Mistake
from thebes.tasks import registry
from thebes.tasks.aggregation.packets import parts_of, phase_of
from thebes.tasks.document import PeopleDocument
from thebes.tasks.protocols import Aggregator, Ask, Closed, Endless, TaskClosed, Wait
from thebes.wire.refusals import Conflict

T = TypeVar("T")
_KEPT_PHASES = 256  #: tasks whose aggregators are kept ready
_WAIT_SECONDS = 1.0  #: to the next phase


class ContributionHandler:
    """One coordinator process's. `look` tells the worker that a phase may be full."""

    def __init__(
        self,
        home: CoordinatorHome,
        store: CoordinatorStore,
        clock: Clock,
        *,
        notices: Notices,
        acceptance: Acceptance,
        intake: Intake,
        readers: Executor,
        look: Callable[[], None],
    ) -> None:
        self._home, self._store, self._clock = home, store, clock
        self._notices, self._acceptance = notices, acceptance
        self._intake, self._readers, self._look = intake, readers, look
        self._admission = Admission()
        self._phases: OrderedDict[str, Phase] = OrderedDict()
        self.trainings = Trainings(store.database, clock, readers=readers, writer=intake.writer)

    # --- contributions ----------------------------------------------------------------------------------

    async def ask(self, task_id: str, slot: str, packet: int = 0) -> Ask | Wait:
        """Return what the task wants from this slot now; TaskClosed where nothing any more."""
        training = self.trainings.of(task_id)
        if training is None:
            phase = await self._look_at(task_id)
            training = await self._begun(phase)
        if training is not None:
            drawn = await training.ask(slot, packet)
            if isinstance(drawn, Closed):
                raise TaskClosed(CLOSED)
            return drawn
        counts, full = phase.standing.counts, phase.standing.wanted
        if phase.aggregator is not None and phase.hears(phase.standing.parts[0], self._clock.now()):
            if packet < len(counts) and counts[packet] >= full:
                return Wait(_WAIT_SECONDS)  # other packets of this phase are still missing
            wanted = phase.aggregator.ask(slot, packet)
            if not isinstance(wanted, Closed):
                return wanted
        standing = phase.standing
        if standing.status is Status.OPEN and phase.aggregator is None and phase.key is not None:
            return Wait(_WAIT_SECONDS)  # its helper has not said its keys yet
        if standing.status is Status.RUNNING and standing.phase + 1 < self._notices.of(task_id).people.phases:
            return Wait(_WAIT_SECONDS)
        raise TaskClosed(CLOSED)

    async def largest_submission(self, task_id: str) -> int:
        """No contribution to this task is longer, in bytes. Busy, before any of it is read, where too many wait."""
        self._intake.check_room()
        phase = self._phases.get(task_id)
        if phase is None:
            phase = await self._look_at(task_id)
        return phase.longest

    async def submit(self, task_id: str, received: Sent) -> str:
        """Take a contribution; its receipt. A token is verified before anything else is looked at."""
        phase = self._phases.get(task_id)
        if phase is None or not phase.hears(received.part, self._clock.now()):
            phase = await self._look_at(task_id)
        training = self.trainings.of(task_id) or await self._begun(phase)
        if training is not None:
            receipt = await training.take(received.by(await self._contributor(task_id, phase, received)))
            if training.ended:
                self._look()
            return receipt
        if phase.key is None:  # the task is over and its contributions are destroyed
            raise TaskClosed(CLOSED)
        sent = received.by(await self._contributor(task_id, phase, received))
        heard = phase.hears(sent.part, self._clock.now())
        try:
            taken = await self._intake.take(Arrival(phase, phase.key, sent, heard))
        except TaskClosed:
            self._phases.pop(task_id, None)
            if not heard and phase.standing.status is Status.OPEN and sent.part not in phase.standing.parts:
                await self._in_reader(lambda: self._refuse_unknown_part(task_id, sent.part))
            raise
        if taken.closed:
            self._phases.pop(task_id, None)
            self._look()
        return taken.receipt

    async def _contributor(self, task_id: str, phase: Phase, sent: Sent) -> str:
        """The pseudonym under which a contribution counts: proven by its token, or chosen by whoever sends it."""
        notice = self._notices.kept(task_id)
        if notice is None:
            notice = await self._in_reader(lambda: self._notices.of(task_id))
        document = notice.people
        if document.anonymity != "token":
            if sent.token is not None:
                raise Mistake("token", "must be left out: this task takes no tokens")
            if sent.contributor is None:
                raise Mistake("contributor", "is missing")
            return sent.contributor
        if not _has(document, sent.part):  # before a curve is touched: its tokens' context would be made first
            raise Mistake("part", "is not a part of this task")
        if sent.token is None:
            raise Mistake("token", f"is missing: only members of the group {document.group} answer this task")
        record = await self._in_reader(lambda: self._acceptance.record(document))
        digest = phase.standing.digest  # of the very document that has the epoch
        pseudonym = await self._admission.pseudonym(TokenContribution(record.parameters, task_id, digest, sent))
        if sent.contributor not in (None, pseudonym):
            raise Mistake("contributor", "must be left out, or be the pseudonym that the token shows")
        return pseudonym

    def _refuse_unknown_part(self, task_id: str, part: str) -> None:
        if not past_part(self._store.database, task_id, part):
            raise Mistake("part", "is not a part of this task")

    async def withdraw(self, task_id: str, receipt: str) -> None:
        """Take a contribution back before its phase closes."""
        if (await self._in_reader(lambda: self._notices.of(task_id))).people.endless:
            raise Conflict("what was sent to this task was mixed in at once and cannot be taken back; its charge stays")
        await self._intake.change(lambda: self._store.withdraw(task_id, receipt))

    # --- what is kept ready -----------------------------------------------------------------------------

    async def training(self, task_id: str) -> TaskInMemory | None:
        """The training of a task, begun if it has not been; None where the task takes nothing more."""
        known = self.trainings.of(task_id)
        return known or await self._begun(await self._look_at(task_id))

    def forget(self, task_id: str) -> None:
        """The task was ended: it takes nothing more."""
        self._phases.pop(task_id, None)
        self.trainings.forget([task_id])

    async def forget_ended(self) -> None:
        """Drop aggregators and keys of tasks that ended without a word to this process."""
        trained = self.trainings.all()  # before it is read what is active: one that begins now stays
        active = await self._in_reader(lambda: {s.id for s in self._store.active() if s.status is Status.OPEN})
        for task_id in [kept for kept in self._phases if kept not in active]:
            self._phases.pop(task_id, None)
        self.trainings.forget([kept for kept in trained if kept not in active])

    async def settle(self) -> None:
        """Whatever was acknowledged is on the disk when this returns."""
        await self.trainings.settle()

    def close(self) -> None:
        """No token is verified any more."""
        self._admission.close()

    def finish(self) -> None:
        """The same as `settle` where nothing moves any more."""
        self.trainings.finish()

    async def _in_reader(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def _look_at(self, task_id: str) -> Phase:
        """The task as it stands now: on the event loop where its phase is known and a row of a file says the rest. To
        wake a thread for that takes longer than all else that an ask does."""
        known = self._phases.get(task_id)
        if known is not None and self._store.database.alone:
            standing = self._store.standing(task_id)
            if standing.status is Status.OPEN and standing.phase == known.standing.phase:
                return self._kept(task_id, known, standing)
        return await self._in_reader(lambda: self._looked_at(task_id))

    def _kept(self, task_id: str, known: Phase, standing: TaskStanding) -> Phase:
        phase = known if standing == known.standing else replace(known, standing=standing)
        self._phases.pop(task_id, None)  # then it is the newest
        self._phases[task_id] = phase
        while len(self._phases) > _KEPT_PHASES:
            self._phases.popitem(last=False)
        return phase

    def _looked_at(self, task_id: str) -> Phase:
        """The task as it stands now; an aggregator is made only for a new phase that is open."""
        document, largest = self._notices.of(task_id).people, self._home.settings.largest_body
        while True:
            standing = self._store.standing(task_id)
            key = self._home.keys.of(task_id)
            if standing.status is not Status.OPEN or key is None:
                self._phases.pop(task_id, None)
                return Phase(standing, document.deadline, None, largest, key)
            helper = self._store.helped(task_id) if document.server == "split" else None
            if document.server == "split" and helper is None:
                return Phase(standing, document.deadline, None, largest, key)
            known = self._phases.get(task_id)
            if known is not None and known.standing.phase == standing.phase:
                return self._kept(task_id, known, standing)
            aggregator = self._aggregator(document, standing, key, helper)
            if aggregator.part != standing.part:
                continue  # the phase ended while it was looked at
            places = itertools.product(standing.parts, range(aggregator.partitions))
            longest = max(most_bytes(aggregator.layout(*place)) for place in places)
            made = Phase(standing, document.deadline, aggregator, min(longest, largest), key)
            return self._kept(task_id, made, standing)

    def _aggregator(
        self, document: PeopleDocument, standing: TaskStanding, key: TaskKey, helper: bytes | None
    ) -> Aggregator:
        said = None if helper is None else keys_said(key, standing.id, helper)
        aggregator = registry.aggregator(document, setting(self._acceptance.members(document), said))
        snapshot = self._store.snapshot(standing.id, standing.phase)
        if snapshot is not None:
            if standing.trusted:
                snapshot = key.open(snapshot, place_of_snapshot(standing.id, standing.phase))
            aggregator.restore(snapshot)
        return aggregator

    async def _begun(self, phase: Phase) -> TaskInMemory | None:
        aggregator, task_id = phase.aggregator, phase.standing.id
        if aggregator is None or not aggregator.endless or phase.key is None:
            return None
        most = (await self._in_reader(lambda: self._notices.of(task_id))).people.max_count
        return await self.trainings.begun(Trainee(task_id, cast(Endless, aggregator), phase.key, phase.deadline, most))


def _has(document: PeopleDocument, part: str) -> bool:
    """Return whether a task has, had or will have this part."""
    phase = phase_of(part).removeprefix("phase-")
    if not phase.isdecimal() or not phase.isascii() or len(phase) > 9 or int(phase) >= document.phases:
        return False
    return part in parts_of(f"phase-{int(phase)}", document.packets(int(phase)) * document.turns(int(phase)))
