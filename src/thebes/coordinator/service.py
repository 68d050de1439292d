"""The coordinator's use-cases: everything that can be asked of it, without HTTP. `contributions` hears owners.

What must stay true: only who may put tasks up or end them does; a task has its key before anybody sees it, and a
trusted one that is cancelled has none when that is acknowledged; no error holds anything of what a stranger sent.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast

from argon2 import PasswordHasher

from thebes.coordinator.api.single_flight import Lately
from thebes.coordinator.auth.access import Authenticator
from thebes.coordinator.auth.accounts import Accounts, Role, Somebody
from thebes.coordinator.auth.identity_provider import provider_of
from thebes.coordinator.clock import Clock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.institution_models import Models, NoModels
from thebes.coordinator.people.group_service import GroupService
from thebes.coordinator.people.groups import ContributorGroups
from thebes.coordinator.people.request_handler import ContributionHandler
from thebes.coordinator.process.metrics import CoordinatorMetrics
from thebes.coordinator.process.operation import CoordinatorOperation
from thebes.coordinator.sites.join_service import JoinService
from thebes.coordinator.sites.site_tasks import Convocation, Inquiries
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.store import CoordinatorStore, NewTask, check_under_way
from thebes.coordinator.storage.task_list import published
from thebes.coordinator.storage.task_standing import TaskStanding
from thebes.coordinator.storage.write_queue import Intake
from thebes.coordinator.tasks.acceptance import Acceptance, Accepted
from thebes.coordinator.tasks.phase_end import setting
from thebes.coordinator.tasks.states import Status
from thebes.coordinator.tasks.task_feed import Notices
from thebes.coordinator.tasks.task_summaries import TaskSummaries
from thebes.tasks import registry
from thebes.tasks.protocols import Endless
from thebes.tasks.site_document import SiteDocument
from thebes.wire import task_log
from thebes.wire.refusals import Conflict, NotAllowed, NotFound
from thebes.wire.release_record import ReleaseRecord

T = TypeVar("T")
_MOST_RECEIPTS = 32 * 2**20  #: bytes of lists of receipts that are kept ready


class CoordinatorService:
    """One coordinator process's front."""

    def __init__(
        self,
        home: CoordinatorHome,
        database: Database,
        clock: Clock,
        *,
        look: Callable[[], None],
        models: Callable[[Path], Models] | None = None,
        hasher: PasswordHasher | None = None,
    ) -> None:
        self._home = home
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
        self.register = ContributorGroups(database, home, clock)
        self.inquiries = Inquiries(home, database, clock, self.accounts.capabilities)
        self.acceptance = Acceptance(home, self.register, self.inquiries, clock)
        self._intake = Intake(self.store)
        self._readers = ThreadPoolExecutor(4, thread_name_prefix="thebes-reader")
        self.operation = CoordinatorOperation(database, self.inquiries, CoordinatorMetrics(), self._readers)
        self.groups = GroupService(self.register, readers=self._readers, intake=self._intake)
        self.joining = JoinService(home, clock, readers=self._readers)
        self.auth = Authenticator(
            self.accounts,
            readers=self._readers,
            most_waiting=home.settings.waiting_logins,
            provider=provider_of(home.settings.oidc, home.folder, clock),
        )
        self._notices = Notices(self.store, self.inquiries)
        self.contributions = ContributionHandler(
            home,
            self.store,
            clock,
            notices=self._notices,
            acceptance=self.acceptance,
            intake=self._intake,
            readers=self._readers,
            look=look,
        )
        self._summaries = TaskSummaries(self.store, self._notices, self.inquiries, self.contributions, self._in_reader)
        self.watch = self._summaries.watch
        self._writable = Lately(lambda: self._intake.change(database.check_writable), clock)
        self._receipts: dict[str, bytes] = {}  #: lists of receipts that were asked for, oldest first

    def close(self) -> None:
        self.auth.close()
        self.contributions.close()
        self._intake.close()
        self.contributions.finish()
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
        """Return how many tasks somebody may have under way."""
        return None if requestor.role is Role.OPERATOR else self._home.settings.tasks_under_way

    async def quote(self, document: Mapping[str, Any], asking: Somebody | None = None) -> dict[str, Any]:
        """Return what one contributor would pay; nothing is put up. For who is signed in sites are asked whether they
        would answer and what it would cost there: it is they who say who may know."""
        accepted = await self._in_reader(lambda: self.acceptance.accepted(document))
        if asking is not None and asking.role in (Role.REQUESTOR, Role.OPERATOR):
            accepted = await self._quoted(accepted, asking, always=True)
            if isinstance(accepted, Convocation) and accepted.document.by_accuracy:
                accepted = await self.inquiries.judged(accepted, asking.name)
        return await self._in_reader(lambda: self.acceptance.quote(accepted))

    async def _quoted(self, accepted: Accepted, asking: Somebody, *, always: bool = False) -> Accepted:
        """Ask what sites say beforehand, where the price depends on it, or always; and whether a site would help."""
        if not isinstance(accepted, Convocation):
            return await self.inquiries.helped(accepted, asking.name)
        named: Convocation = accepted
        await self._in_reader(lambda: self.inquiries.check_allowed(named, asking.name))
        if accepted.document.server == "split":
            named = replace(accepted, document=await self.inquiries.helped(accepted.document, asking.name))
        return await self.inquiries.quoted(named, asking.name) if always or named.document.by_accuracy else named

    async def examined(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Tell what is wrong with a document, field by field; or, where nothing is, what people would be told of it."""
        return await self._in_reader(lambda: self.acceptance.examined(document))

    async def tasks(self) -> list[dict[str, Any]]:
        """Every task that is open or running."""
        return await self._summaries.active()

    async def listed(self) -> bytes:
        """The same as JSON."""
        return await self._summaries.listed()

    async def ended(self, *, skip: int = 0, most: int = 50) -> list[dict[str, Any]]:
        """Tasks that are over, the one put up last first."""
        return await self._summaries.ended(skip=skip, most=most)

    async def task(self, task_id: str, *, wait: float = 0.0) -> tuple[dict[str, Any], str | None]:
        """A task, and its latest release as the JSON text that was stored; of what is being trained, as it stands.
        With `wait`, one that goes on is told of once its status has changed, or after so many seconds."""
        return await self._summaries.task(task_id, wait=wait)

    async def receipts(self, task_id: str) -> bytes:
        """Return the list of receipts that a task's latest release commits to. It never changes, so it is kept for
        the next who asks: everybody who took part does, at about the same time."""
        known = self._receipts.get(task_id)
        if known is None:
            known = await self._in_reader(lambda: self.store.receipts(task_id))
            if (await self._in_reader(lambda: self.store.standing(task_id))).status is Status.DONE:
                self._receipts[task_id] = known
                while sum(map(len, self._receipts.values())) > _MOST_RECEIPTS and len(self._receipts) > 1:
                    del self._receipts[next(iter(self._receipts))]
        return known

    async def record(self, task_id: str) -> ReleaseRecord:
        """Return the latest release that was published of a task, with the part of the signed list that says so."""

        def work() -> ReleaseRecord:
            key, successions = self._home.log_key, self._home.successions  # the key first, as for the whole list
            after = min((each.length - 1 for each in successions), default=None)
            told = self.store.database.read(lambda connection: published(connection, task_id, after=after))
            listed = task_log.published(key, told.entries, successions=successions)
            return ReleaseRecord.made(task_id, told.phase, told.document, told.release, listed)

        return await self._in_reader(work)

    async def progress(self, task_id: str, asking: Somebody | None = None) -> dict[str, Any]:
        """Tell how the training of a task goes, for a live view; of one that is over, how it went. Its models are
        single contributions, so only its requestor and operators are shown them. Of a task that institutions answer:
        who has answered, who will not and why, and where the time went."""
        notice = await self._in_reader(lambda: self._notices.of(task_id))
        if isinstance(notice.document, SiteDocument):
            return await self._in_reader(lambda: self.inquiries.progress(self.store.standing(task_id)))
        if not notice.endless:
            raise NotFound("this task is not one that is trained without end")
        training = await self.contributions.training(task_id)
        if training is not None:
            standing = await self._in_reader(lambda: self.store.standing(task_id))
            return await training.progress(pieces=asking is not None and _may_end(standing, asking))
        facts = (await self._in_reader(lambda: self.contributions.trainings.shelf.read(task_id))).facts
        return cast(Endless, registry.aggregator(notice.document, setting())).progress(facts)

    async def end(self, task_id: str, asking: Somebody) -> None:
        """End a task that is trained without end and keep its last release; nothing to do where that was done."""
        standing = await self._in_reader(lambda: self.store.standing(task_id))
        if not _may_end(standing, asking):
            raise NotAllowed("only the task's requestor or an operator closes it")
        if not (await self._in_reader(lambda: self._notices.of(task_id))).endless:
            raise Conflict("this task ends by itself; cancel it if it is to end without an answer")
        training = await self.contributions.training(task_id)
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
            self.contributions.forget(task_id)
            if standing.trusted:
                self._home.keys.destroy(task_id)

        await self._intake.change(work)
        self._look()
        self.watch.look()
        self.inquiries.look()

    def about(self) -> dict[str, Any]:
        """Tell who runs this coordinator and what it holds requestors to, as its operator set it."""
        settings = self._home.settings
        told = ("operator", "contact", "require_purpose", "min_count_floor")
        return {name: getattr(settings, name) for name in told}

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
        """Return what one of them says of rows."""
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
            return task_log.published(key, entries, after=after, successions=successions)

        return await self._in_reader(work)

    async def schemas(self) -> dict[str, Any]:
        """Return what collectors publish."""
        return await self._in_reader(self.store.schemas)

    async def publish(self, app: str, tables: Mapping[str, Any], asking: Somebody) -> int:
        """Publish what a collector fills."""
        if asking.role is not Role.OPERATOR:
            raise NotAllowed("only operators publish schemas")
        return await self._intake.change(lambda: self.store.publish(app, tables))

    def reads_figures(self, token: str) -> bool:
        """Return whether this is the token for figures alone."""
        return hmac.compare_digest(token.encode(), self._home.figures_token.encode())

    async def ready(self) -> None:
        """Raise StoreUnavailable where nothing could be written a second ago."""
        await self._writable.get(1.0)

    async def _in_reader(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)


def _may_end(standing: TaskStanding, asking: Somebody) -> bool:
    """Return whether this is the task's requestor or an operator."""
    return asking.role is Role.OPERATOR or asking.name == standing.requestor


def _there(model: dict[str, Any] | None) -> dict[str, Any]:
    if model is None:
        raise NotFound("there is no model of that name, or no such version of it")
    return model
