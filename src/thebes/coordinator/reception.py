"""The coordinator's use-cases: everything that can be asked of it, without HTTP.

What must stay true: what a stranger sends is examined before it is taken and is taken before it is acknowledged;
no error holds anything of it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from argon2 import PasswordHasher

from thebes.coordinator.acceptance import Acceptance, Accepted, price_of
from thebes.coordinator.accounts import Accounts, Role, Somebody
from thebes.coordinator.admission import Admission, Shown
from thebes.coordinator.clock import Clock
from thebes.coordinator.closing import setting
from thebes.coordinator.database import Database
from thebes.coordinator.examining import Arrival, Phase, Sent
from thebes.coordinator.groups import Groups
from thebes.coordinator.home import Home
from thebes.coordinator.inquiries import Convocation, Inquiries
from thebes.coordinator.intake import Intake
from thebes.coordinator.keys import TaskKey, place_of_snapshot
from thebes.coordinator.lately import Together
from thebes.coordinator.lobby import Lobby
from thebes.coordinator.membership import Membership
from thebes.coordinator.own_models import Models, NoModels
from thebes.coordinator.records import most_bytes
from thebes.coordinator.states import Status
from thebes.coordinator.store import CoordinatorStore, NewTask, Standing, check_under_way, past_part
from thebes.coordinator.training import CLOSED, Trainee, Training
from thebes.coordinator.trainings import Trainings
from thebes.privacy.faults import Fault, Mistake
from thebes.tasks import registry
from thebes.tasks.document import PeopleDocument
from thebes.tasks.packets import parts_of, phase_of
from thebes.tasks.shape import Aggregator, Ask, Closed, TaskClosed, Trained, Wait
from thebes.tasks.sites import SiteDocument
from thebes.wire import log
from thebes.wire.refusals import Conflict, NotAllowed, NotFound

T = TypeVar("T")
_KEPT_PHASES = 256  #: tasks whose aggregators are kept ready
_KEPT_TASKS = 10_000  #: tasks whose documents are
_WAIT_SECONDS = 1.0  #: to the next phase


@dataclass(frozen=True, slots=True)
class Public:
    """What everybody is shown of a task and what never changes."""

    document: PeopleDocument | SiteDocument
    as_json: Mapping[str, Any]
    explanation: str
    price: Mapping[str, Any]
    asked: tuple[str, ...] = ()  #: sites

    @property
    def people(self) -> PeopleDocument:
        """The document of a task that people answer; TaskClosed to whoever would answer one of institutions."""
        if isinstance(self.document, SiteDocument):
            raise TaskClosed("institutions answer this task, each over its own link; nothing was taken")
        return self.document

    @property
    def endless(self) -> bool:
        return isinstance(self.document, PeopleDocument) and self.document.endless


class Reception:
    """One coordinator process's front."""

    def __init__(
        self,
        home: Home,
        database: Database,
        clock: Clock,
        *,
        look: Callable[[], None],
        models: Callable[[Path], Models] | None = None,
        hasher: PasswordHasher | None = None,
    ) -> None:
        self._home = home
        self._database = database
        self._clock = clock
        self._look = look  #: tells the worker that a phase may be full
        self._models_of = models  #: a home's models, made when somebody first asks for one
        self.store = CoordinatorStore(database)
        self.accounts = Accounts(
            database,
            admin_token=lambda: home.admin_token,
            session_key=lambda: home.session_key,
            clock=clock,
            hasher=hasher,
        )
        self.register = Groups(database, home, clock)
        self.inquiries = Inquiries(home, database, clock, self.accounts.capabilities)
        self.acceptance = Acceptance(home, self.register, self.inquiries, clock)
        self._intake = Intake(self.store)
        self._admission = Admission()
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="thebes-reader")
        self.groups = Membership(self.register, readers=self._readers, intake=self._intake)
        self.lobby = Lobby(self.accounts, readers=self._readers, most_waiting=home.settings.waiting_logins)
        self._public: OrderedDict[str, Public] = OrderedDict()
        self._phases: OrderedDict[str, Phase] = OrderedDict()
        self._trainings = Trainings(database, clock, readers=self._readers, writer=self._intake.writer)
        self._listing = Together(self._list)

    async def settle(self) -> None:
        """Whatever was acknowledged is on the disk when this returns."""
        await self._trainings.settle()

    def close(self) -> None:
        self._admission.close()
        self.lobby.close()
        self._intake.close()
        self._trainings.finish()
        self._readers.shutdown()

    # --- documents and tasks ----------------------------------------------------------------------------

    async def post(self, document: Mapping[str, Any], requestor: Somebody) -> tuple[str, str]:
        """Put a task up: (task_id, digest)."""
        if requestor.role not in (Role.REQUESTOR, Role.OPERATOR):
            raise NotAllowed("only requestors and operators put tasks up")
        await self._in_reader(lambda: self._refuse_too_many(requestor))  # before anything is computed
        accepted = await self._quoted(await self._in_reader(lambda: self.acceptance.accepted(document)), requestor)
        # In a thread: first models take a while to draw.
        new = await self._in_reader(lambda: self.acceptance.task(accepted, requestor.name))
        await self._intake.change(lambda: self._post(new, requestor))
        if new.sites is not None:
            self.inquiries.look()
        return new.id, new.digest

    def _post(self, new: NewTask, requestor: Somebody) -> None:
        if new.sites is None or new.trusted:  # else nothing is ever sealed
            self._home.keys.make(new.id)
        try:
            self.store.add(new, most=self._most_of(requestor))
        except NotAllowed:
            self._home.keys.destroy(new.id)
            raise

    def _refuse_too_many(self, requestor: Somebody) -> None:
        most = self._most_of(requestor)
        if most is not None:
            check_under_way(self.store.under_way(requestor.name), most)

    def _most_of(self, requestor: Somebody) -> int | None:
        """How many tasks somebody may have under way."""
        return None if requestor.role is Role.OPERATOR else self._home.settings.tasks_under_way

    async def quote(self, document: Mapping[str, Any], asking: Somebody | None = None) -> dict[str, Any]:
        """What one contributor would pay; nothing is put up. Sites that may have answered the same before are asked
        what it would cost there, for who is signed in: it is they who say who may know."""
        accepted = await self._in_reader(lambda: self.acceptance.accepted(document))
        if asking is not None and asking.role in (Role.REQUESTOR, Role.OPERATOR):
            accepted = await self._quoted(accepted, asking, always=True)
        return await self._in_reader(lambda: self.acceptance.quote(accepted))

    async def _quoted(self, accepted: Accepted, asking: Somebody, *, always: bool = False) -> Accepted:
        """What sites say beforehand, where the price depends on it, or always where they may have something to say."""
        if not isinstance(accepted, Convocation):
            return accepted
        await self._in_reader(lambda: self.inquiries.check_allowed(accepted, asking.name))
        if not accepted.document.recallable or not (always or accepted.document.by_accuracy):
            return accepted
        return await self.inquiries.quoted(accepted, asking.name)

    async def examined(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """What is wrong with a document, field by field; or, where nothing is, what people would be told of it."""
        return await self._in_reader(lambda: self.acceptance.examined(document))

    async def tasks(self) -> list[dict[str, Any]]:
        """Every task that is open or running."""
        return await self._in_reader(lambda: self._summaries(self.store.active()))

    async def listed(self) -> bytes:
        """The same as JSON: what everybody asks for who comes, read and written once for all who ask meanwhile."""
        return await self._listing.get()

    async def _list(self) -> bytes:
        def work() -> bytes:
            tasks = self._summaries(self.store.active())
            return json.dumps(tasks, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()

        return await self._in_reader(work)

    async def ended(self, *, skip: int = 0, most: int = 50) -> list[dict[str, Any]]:
        """Tasks that are over, the one put up last first."""
        return await self._in_reader(lambda: self._summaries(self.store.ended(skip=skip, most=most)))

    def _summaries(self, standings: Sequence[Standing]) -> list[dict[str, Any]]:
        going = self.inquiries.going(standings)
        return [self._summary(standing, going.get(standing.id)) for standing in standings]

    def _summary(self, standing: Standing, going: Mapping[str, Any] | None) -> dict[str, Any]:
        """`going` is how a task goes that sites answer and that is not over."""
        public = self._shown(standing.id)
        return {
            "task_id": standing.id,
            "type": public.document.type,
            "status": str(standing.status),
            "digest": standing.digest,
            "requestor": standing.requestor,
            "document": public.as_json,
            "explanation": public.explanation,
            "price": public.price,
            "created": datetime.fromtimestamp(standing.created, UTC).isoformat(timespec="seconds"),
            **self._counted(standing, public, going),
        }

    def _counted(self, standing: Standing, public: Public, going: Mapping[str, Any] | None) -> dict[str, Any]:
        """Who has contributed so far, and how many are needed."""
        document = public.document
        if isinstance(document, SiteDocument):
            return self.inquiries.summary(standing, document, public.asked, going)
        training = self._trainings.of(standing.id)
        return {
            "contributions": standing.accepted if training is None else sum(training.aggregator.counts),
            "min_count": document.min_count,
            "phase": standing.phase,
            "phases": document.phases,
        }

    async def task(self, task_id: str) -> tuple[dict[str, Any], str | None]:
        """A task, and its latest release as the JSON text that was stored; of what is being trained, as it stands."""

        def read() -> tuple[dict[str, Any], str | None]:
            standing = self.store.standing(task_id)
            return self._summaries([standing])[0], self.store.release(task_id)

        summary, release = await self._in_reader(read)
        if release is None and self._shown(task_id).endless:
            training = await self._training(task_id)
            release = None if training is None else await training.release()
        return summary, release

    async def progress(self, task_id: str, asking: Somebody | None = None) -> dict[str, Any]:
        """How the training of a task goes, for a live view; of one that is over, how it went. Its models are single
        contributions, so only its requestor and operators are shown them. Of a task that institutions answer: who has
        answered, who will not and why, and where the time went."""
        public = await self._in_reader(lambda: self._shown_of(task_id))
        if isinstance(public.document, SiteDocument):
            return await self._in_reader(lambda: self.inquiries.progress(self.store.standing(task_id)))
        if not public.endless:
            raise NotFound("this task is not one that is trained without end")
        training = await self._training(task_id)
        if training is not None:
            standing = await self._in_reader(lambda: self.store.standing(task_id))
            return await training.progress(models=asking is not None and _may_end(standing, asking))
        facts = (await self._in_reader(lambda: self._trainings.shelf.read(task_id))).facts
        lanes = facts["lanes"]
        return {"contributions": sum(lane["updates"] + lane["quarantined"] for lane in lanes), "lanes": lanes}

    async def end(self, task_id: str, asking: Somebody) -> None:
        """End a task that is trained without end and keep its last release; nothing to do where that was done."""
        standing = await self._in_reader(lambda: self.store.standing(task_id))
        if not _may_end(standing, asking):
            raise NotAllowed("only the task's requestor or an operator closes it")
        if not (await self._in_reader(lambda: self._shown(task_id))).endless:
            raise Conflict("this task ends by itself; cancel it if it is to end without an answer")
        training = await self._training(task_id)
        if training is None:
            if standing.status not in (Status.OPEN, Status.RUNNING, Status.DONE):
                raise Conflict("the task has ended already, without an answer")
            return
        await training.end()
        self._look()

    async def cancel(self, task_id: str, asking: Somebody) -> None:
        """End a task; its trusted contributions are gone when this returns."""

        def work() -> None:
            standing = self.store.standing(task_id)
            if not _may_end(standing, asking):
                raise NotAllowed("only the task's requestor or an operator cancels it")
            self.store.cancel(task_id)
            self._phases.pop(task_id, None)
            self._trainings.forget([task_id])
            if standing.trusted:
                self._home.keys.destroy(task_id)

        await self._intake.change(work)
        self._look()
        self.inquiries.look()

    # --- contributions ----------------------------------------------------------------------------------

    async def ask(self, task_id: str, slot: str, packet: int = 0) -> Ask | Wait:
        """What the task wants from this slot now; TaskClosed where nothing any more."""
        training = self._trainings.of(task_id)
        if training is None:
            phase = await self._in_reader(lambda: self._looked_at(task_id))
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
        if phase.standing.status is Status.RUNNING and phase.standing.phase + 1 < self._shown(task_id).people.phases:
            return Wait(_WAIT_SECONDS)
        raise TaskClosed(CLOSED)

    async def largest_submission(self, task_id: str) -> int:
        """No contribution to this task is longer, in bytes."""
        phase = self._phases.get(task_id)
        if phase is None:
            phase = await self._in_reader(lambda: self._looked_at(task_id))
        return phase.longest

    async def submit(self, task_id: str, received: Sent) -> str:
        """Take a contribution; its receipt. A token is verified before anything else is looked at."""
        phase = self._phases.get(task_id)
        if phase is None or not phase.hears(received.part, self._clock.now()):
            phase = await self._in_reader(lambda: self._looked_at(task_id))
        training = self._trainings.of(task_id) or await self._begun(phase)
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
        public = self._public.get(task_id)
        if public is None:
            public = await self._in_reader(lambda: self._shown(task_id))
        document = public.people
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
        record = await self._in_reader(lambda: self.acceptance.record(document))
        digest = phase.standing.digest  # of the very document that has the epoch
        pseudonym = await self._admission.pseudonym(Shown(record.parameters, task_id, digest, sent))
        if sent.contributor not in (None, pseudonym):
            raise Mistake("contributor", "must be left out, or be the pseudonym that the token shows")
        return pseudonym

    async def withdraw(self, task_id: str, receipt: str) -> None:
        """Take a contribution back before its phase closes."""
        if (await self._in_reader(lambda: self._shown_of(task_id))).people.endless:
            raise Conflict("what was sent to this task was mixed in at once and cannot be taken back; its charge stays")
        await self._intake.change(lambda: self.store.withdraw(task_id, receipt))

    def _refuse_unknown_part(self, task_id: str, part: str) -> None:
        if not past_part(self._database, task_id, part):
            raise Mistake("part", "is not a part of this task")

    async def sites(self) -> list[dict[str, Any]]:
        """Every institution that may take part or ever did, and its state."""
        return await self._in_reader(self.inquiries.sites)

    # --- models of this machine's own institution -------------------------------------------------------

    async def models(self) -> list[dict[str, Any]]:
        """The newest version of every model in the store of this home, without the model itself."""
        return await self._in_reader(lambda: self._models.told())

    async def model(self, name: str, version: int | None) -> dict[str, Any]:
        """One of them whole."""
        return _there(await self._in_reader(lambda: self._models.whole(name, version)))

    async def predict(self, name: str, rows: list[dict[str, Any]], version: int | None) -> dict[str, Any]:
        """What one of them says of rows."""
        return _there(await self._in_reader(lambda: self._models.predict(name, rows, version)))

    @cached_property
    def _models(self) -> Models:
        return NoModels() if self._models_of is None else self._models_of(self._home.folder)

    # --- what else there is -----------------------------------------------------------------------------

    async def log(self, after: int) -> dict[str, Any]:
        """The signed task list."""

        def work() -> dict[str, Any]:
            key = self._home.log_key  # before the entries: a key signs whatever list it finds, not one it is not in
            entries, successions = self.store.entries(), self._home.successions
            return log.published(key, entries, after=after, successions=successions)

        return await self._in_reader(work)

    async def schemas(self) -> dict[str, Any]:
        """What collectors publish."""
        return await self._in_reader(self.store.schemas)

    async def publish(self, app: str, tables: Mapping[str, Any], asking: Somebody) -> int:
        """Publish what a collector fills."""
        if asking.role is not Role.OPERATOR:
            raise NotAllowed("only operators publish schemas")
        return await self._intake.change(lambda: self.store.publish(app, tables))

    async def forget_ended(self) -> None:
        """Drop aggregators and keys of tasks that ended without a word to this process."""
        trained = self._trainings.all()  # before it is read what is active: one that begins now stays
        active = await self._in_reader(lambda: {s.id for s in self.store.active() if s.status is Status.OPEN})
        for task_id in [kept for kept in self._phases if kept not in active]:
            self._phases.pop(task_id, None)
        for task_id in [kept for kept in trained if kept not in active]:
            self._trainings.forget([task_id])

    async def counts(self) -> dict[str, int]:
        """How many tasks there are of each status."""
        return await self._in_reader(self.store.counts)

    # --- what is kept ready -----------------------------------------------------------------------------

    async def _in_reader(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    def _shown(self, task_id: str) -> Public:
        known = self._public.get(task_id)
        if known is None:
            document = registry.check(self.store.document(task_id))
            if isinstance(document, SiteDocument):
                price = self.inquiries.price(task_id, document)
            elif isinstance(document, PeopleDocument):
                price = price_of(document)
            else:
                raise Fault("a stored task is one that nobody answers")
            asked = self.inquiries.asked(task_id) if isinstance(document, SiteDocument) else ()
            known = Public(document, document.as_json(), registry.kind(document.type).explain(document), price, asked)
            _keep(self._public, task_id, known, _KEPT_TASKS)
        return known

    def _looked_at(self, task_id: str) -> Phase:
        """The task as it stands now; an aggregator is made only for a new phase that is open."""
        document, largest = self._shown_of(task_id).people, self._home.settings.largest_body
        while True:
            standing = self.store.standing(task_id)
            key = self._home.keys.of(task_id)
            if standing.status is not Status.OPEN or key is None:
                self._phases.pop(task_id, None)
                return Phase(standing, document.deadline, None, largest, key)
            known = self._phases.get(task_id)
            if known is not None and known.standing.phase == standing.phase:
                phase = replace(known, standing=standing)
            else:
                aggregator = self._aggregator(document, standing, key)
                if aggregator.part != standing.part:
                    continue  # the phase ended while it was looked at
                places = itertools.product(standing.parts, range(aggregator.partitions))
                longest = max(most_bytes(aggregator.layout(*place)) for place in places)
                phase = Phase(standing, document.deadline, aggregator, min(longest, largest), key)
            _keep(self._phases, task_id, phase, _KEPT_PHASES)
            return phase

    async def _training(self, task_id: str) -> Training | None:
        """The training of a task, begun if it has not been; None where the task takes nothing more."""
        known = self._trainings.of(task_id)
        return known or await self._begun(await self._in_reader(lambda: self._looked_at(task_id)))

    async def _begun(self, phase: Phase) -> Training | None:
        aggregator, task_id = phase.aggregator, phase.standing.id
        if aggregator is None or not aggregator.endless or phase.key is None:
            return None
        most = (await self._in_reader(lambda: self._shown(task_id))).people.max_count
        return await self._trainings.begun(Trainee(task_id, cast(Trained, aggregator), phase.key, phase.deadline, most))

    def _aggregator(self, document: PeopleDocument, standing: Standing, key: TaskKey) -> Aggregator:
        aggregator = registry.aggregator(document, setting(self.acceptance.members(document)))
        snapshot = self.store.snapshot(standing.id, standing.phase)
        if snapshot is not None:
            if standing.trusted:
                snapshot = key.open(snapshot, place_of_snapshot(standing.id, standing.phase))
            aggregator.restore(snapshot)
        return aggregator

    def _shown_of(self, task_id: str) -> Public:
        return self._public.get(task_id) or self._shown(self.store.standing(task_id).id)


def _may_end(standing: Standing, asking: Somebody) -> bool:
    """Whether this is the task's requestor or an operator."""
    return asking.role is Role.OPERATOR or asking.name == standing.requestor


def _has(document: PeopleDocument, part: str) -> bool:
    """Whether a task has, had or will have this part."""
    phase = phase_of(part).removeprefix("phase-")
    if not phase.isdecimal() or not phase.isascii() or len(phase) > 9 or int(phase) >= document.phases:
        return False
    return part in parts_of(f"phase-{int(phase)}", document.packets(int(phase)) * document.turns(int(phase)))


def _keep(kept: OrderedDict[str, T], name: str, value: T, most: int) -> None:
    kept[name] = value
    kept.move_to_end(name)
    while len(kept) > most:
        kept.popitem(last=False)


def _there(model: dict[str, Any] | None) -> dict[str, Any]:
    if model is None:
        raise NotFound("there is no model of that name, or no such version of it")
    return model
