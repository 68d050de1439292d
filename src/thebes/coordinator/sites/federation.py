"""Everything between a coordinator and its sites, in the one process that speaks with them.

What must stay true: of several processes on one store exactly one speaks with the sites; each open task is run there,
whoever put it up; what another process changed is seen within a moment.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.clock import Clock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.process.metrics import CoordinatorMetrics
from thebes.coordinator.sites.description import described
from thebes.coordinator.sites.farewell import farewell
from thebes.coordinator.sites.helped_store import HelpedStore
from thebes.coordinator.sites.helped_tasks import LedTasks
from thebes.coordinator.sites.intervals import Pace
from thebes.coordinator.sites.links import Links
from thebes.coordinator.sites.local_site import LocalSite, Start
from thebes.coordinator.sites.quote_queue import Questions
from thebes.coordinator.sites.quotes import Quoted, quoted, unheard
from thebes.coordinator.sites.session import Conversation, LinkLost
from thebes.coordinator.sites.site_store import FederationStore, NoLongerOurs
from thebes.coordinator.sites.task_run import TaskRun, Workplace
from thebes.coordinator.storage.database import Database, StoreUnavailable
from thebes.privacy.faults import Mistake, ThebesError
from thebes.privacy.figures import figure
from thebes.wire.link import Code, Word
from thebes.wire.refused_sites import GONE, LATE

if TYPE_CHECKING:
    from thebes.coordinator.sites.link_server import Hub

T = TypeVar("T")
_MOST_RUNS = 256  #: tasks that are run at the same time; the others wait for their turn
_MOST_DESCRIBED = 2**24  #: bytes of what a site says it has
_ANSWER_SECONDS = 30.0  #: in which a site says what it has
_QUOTE_SECONDS = 5.0  #: in which a site says what an answer would cost
_RETRY_SECONDS = 1.0
_AWAY = {"event": "store.away"}
log = logging.getLogger("thebes.coordinator")


class Federation:
    """`start` tells how the process of the coordinator's own site is started; without it there is none."""

    def __init__(
        self,
        home: CoordinatorHome,
        database: Database,
        clock: Clock,
        *,
        pace: Pace | None = None,
        start: Callable[[int], Start] | None = None,
        known_as: Sequence[str] = (),
        metrics: CoordinatorMetrics | None = None,
    ) -> None:
        self._pace = pace or Pace()
        self._clock = clock
        self._known_as = known_as
        self._alone = database.alone
        self.store = FederationStore(database, secrets.token_hex(8))
        self.links = Links()
        self._questions = Questions(database, self._beside, self._ask_all, look_seconds=self._pace.look)
        self._place = Workplace(self.links, self.store, home.keys, clock, metrics or CoordinatorMetrics())
        self._helped = LedTasks(HelpedStore(database), self.links, home.keys, clock, self._beside)
        self._authority = CertificateAuthority(home.folder, clock)
        self._hub: Hub | None = None
        self._local = None if start is None else LocalSite(home.folder, self.links, start)
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="thebes-sites")
        self._runs: dict[str, tuple[TaskRun, asyncio.Task[None]]] = {}
        self._attending: dict[Conversation, asyncio.Task[None]] = {}
        self._wake, self._over = asyncio.Event(), asyncio.Event()
        self._keeping: list[asyncio.Task[None]] = []
        self._open = False
        self._seated = False
        self._came_or_went = True
        self.links.changed = self._changed
        self.over: Callable[[], None] = lambda: None  #: is told when a run has come to its end

    async def start(self, host: str = "127.0.0.1", port: int | None = None) -> int | None:
        """Begin; the port for sites, where there is one."""
        self._open = port is not None
        taken = None if port is None else await self._listen(host, port)
        if self._alone:
            await self._sit_down()
        works = [self._keep_runs, self._keep_helped, self._keep_notes, self._keep_farewells]
        among = () if self._alone else (self._keep_seat, self._keep_questions)
        self._keeping = [asyncio.create_task(work()) for work in (*works, *among)]
        return taken

    async def _listen(self, host: str, port: int) -> int:
        os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")  # nothing here goes on after a fork
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what fails is raised here too, and told once
        from thebes.coordinator.sites.link_server import Hub  # heavy, and needed only with a port

        self._hub = Hub(self._authority, self.links, self._pace)
        return await self._hub.start(host, port, known_as=self._known_as)

    async def stop(self) -> None:
        """Let go of everything; what was under way is taken up by whoever comes next."""
        for task in self._keeping:
            task.cancel()
        await asyncio.gather(*self._keeping, return_exceptions=True)
        # First, so that who is linked now is written down as linked: after a restart they are waited for.
        with suppress(StoreUnavailable):
            if self._seated:
                await self._write_notes()
        self.links.changed = lambda _: None
        await self._leave()
        if self._hub is not None:
            await self._hub.stop()
        with suppress(StoreUnavailable):
            if self._seated and not self._alone:
                await self._beside(self.store.leave_seat)
        self._pool.shutdown()

    async def drop(self) -> None:
        """End as a killed process does: nothing more is written, nobody is told."""
        self.links.changed = lambda _: None
        works = [*self._keeping, *self._attending.values(), *(task for _, task in self._runs.values())]
        for task in works:
            task.cancel()
        leaving = (self._questions.leave(), self._helped.leave())
        await asyncio.gather(*works, *leaving, return_exceptions=True)
        if self._hub is not None:
            await self._hub.stop()
        self._pool.shutdown()

    @property
    def seated(self) -> bool:
        """Return whether this is the process that speaks with the sites."""
        return self._seated

    def look(self) -> None:
        """A task was put up or cancelled here: do not wait for the next round."""
        self._wake.set()

    def progress(self, task_id: str) -> dict[str, Any] | None:
        """Tell how a task goes that is run here."""
        found = self._runs.get(task_id)
        return None if found is None or not found[0].progress else found[0].progress

    async def quotes(self, sites: Sequence[str], question: Mapping[str, Any]) -> dict[str, Quoted]:
        """Return what each of these says of an answer now, or in one sentence why it does not: all are asked at once,
        by the process that speaks with them, and none is waited for beyond a few seconds."""
        if self._seated or self._alone:
            return await self._ask_all(sites, question)
        return await self._questions.put(sites, question, self._now())

    async def _ask_all(self, sites: Sequence[str], body: Mapping[str, Any]) -> dict[str, Quoted]:
        answers = await asyncio.gather(*(self._quoted(site, body) for site in sites))
        return dict(zip(sites, answers, strict=True))

    async def _quoted(self, site: str, question: Mapping[str, Any]) -> Quoted:
        conversation = self.links.of(site)
        if conversation is None:
            return unheard("is not linked", GONE)
        try:
            async with asyncio.timeout(_QUOTE_SECONDS):
                return quoted(await conversation.ask(Word.QUOTE, question))
        except LinkLost:
            return unheard("was cut off", GONE)
        except TimeoutError:
            return unheard(f"did not say within {figure(_QUOTE_SECONDS)} seconds", LATE)
        except ThebesError:
            return unheard("answered what cannot be read", Code.FAILED)

    # --- the seat ---------------------------------------------------------------------------------------

    async def _keep_seat(self) -> None:
        """Be the one that speaks with the sites, or wait until that is needed."""
        said = False
        while True:
            seated = self._seated
            try:
                seated = await self._beside(lambda: self.store.take_seat(self._pace.seat, open_=self._open))
            except StoreUnavailable as error:
                log.error("%s; trying again", error, extra=_AWAY)  # nothing can be stored meanwhile, by nobody
            if seated and not self._seated:
                await self._sit_down()
            elif self._seated and not seated:
                log.warning(
                    "another process of this coordinator speaks with the sites now", extra={"event": "seat.lost"}
                )
                await self._leave()
                self._seated = False
            elif not seated and self._open and not said:
                log.warning(
                    "another process of this coordinator speaks with the sites; this one waits for its place",
                    extra={"event": "seat.waits"},
                )
                said = True
            await asyncio.sleep(self._pace.seat / 4)

    async def _sit_down(self) -> None:
        with suppress(StoreUnavailable):
            known, now = await self._beside(self.store.sites), self._now()
            # Of several processes that died one after the other only the first had them linked.
            self.links.expect({site.name: 0.0 if site.linked else now - site.seen for site in known})
        self._seated = True
        if self._hub is not None:
            self._hub.open = True
        if self._local is not None:
            self._local.start()
        self._wake.set()

    async def _leave(self) -> None:
        """Speak with nobody and run nothing."""
        await self._questions.leave()
        await self._helped.leave()
        if self._hub is not None:
            self._hub.open = False
        runs = [task for _, task in self._runs.values()]
        for task in [*runs, *self._attending.values()]:
            task.cancel()
        await asyncio.gather(*runs, *self._attending.values(), return_exceptions=True)
        self._runs.clear()
        if self._hub is not None:
            self._hub.close_all()
        if self._local is not None:
            await self._local.stop()

    # --- runs -------------------------------------------------------------------------------------------

    async def _keep_runs(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pace.look):
                    await self._wake.wait()
            self._wake.clear()
            if not self._seated:
                continue
            try:
                going = await self._beside(self.store.open)
            except StoreUnavailable as error:
                log.error("%s; trying again", error, extra=_AWAY)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            for task_id in [known for known in self._runs if known not in going]:
                self._runs[task_id][1].cancel()  # cancelled, or just now over: then it has nothing left to do
            for task_id in going:
                if task_id not in self._runs and len(self._runs) < _MOST_RUNS:
                    await self._begin(task_id)

    async def _keep_helped(self) -> None:
        """Lead what people answer to two servers, of which the other is a site."""
        await self._keep(self._helped.look)

    async def _keep_questions(self) -> None:
        """Ask sites what other processes of this coordinator would know of them."""
        await self._keep(self._questions.answer)

    async def _keep(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do it at every look, where this process speaks with sites."""
        while True:
            await asyncio.sleep(self._pace.look)
            try:
                if self._seated:
                    await work()
            except StoreUnavailable as error:
                log.error("%s; trying again", error, extra=_AWAY)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _begin(self, task_id: str) -> None:
        try:
            held = await self._beside(lambda: self.store.hold(task_id))
        except StoreUnavailable as error:
            log.error("%s; trying again", error, extra=_AWAY)
            return
        if held is not None:
            run = TaskRun(held, self._place)
            self._runs[task_id] = (run, asyncio.create_task(self._run(run)))

    async def _run(self, run: TaskRun) -> None:
        try:
            await run.work()
        except NoLongerOurs:
            log.info(
                "task %s: cancelled or taken over; what was computed is thrown away",
                run.id,
                extra={"event": "task.taken-over", "task": run.id},
            )
        except StoreUnavailable as error:
            log.error("task %s: %s; trying again", run.id, error, extra={"event": "store.away", "task": run.id})
            await asyncio.sleep(_RETRY_SECONDS)
        finally:
            self._runs.pop(run.id, None)
            self._wake.set()
            self._over.set()
            self.over()

    # --- who is linked ----------------------------------------------------------------------------------

    def _changed(self, site: str) -> None:
        self._came_or_went = True
        conversation = self.links.of(site)
        for known in [each for each in self._attending if each is not conversation and each.site == site]:
            self._attending.pop(known).cancel()
        if conversation is not None and conversation not in self._attending:
            self._attending[conversation] = asyncio.create_task(self._attend(conversation))

    async def _attend(self, conversation: Conversation) -> None:
        """Exchange with a linked site what is said besides its tasks: what it has, and which tasks are over."""
        site, complained = conversation.site, ""
        told: dict[str, Any] | None = None
        while True:
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    answer = await conversation.ask(Word.DESCRIBE, {}, most=_MOST_DESCRIBED)
                if _down(answer):
                    raise Mistake("describe", "is not answered: its process with the data is down")
                datasets = described(site, answer)
                if datasets != told:
                    await self._beside(lambda d=datasets: self.store.describe(site, d, self._now()))  # type: ignore[misc]
                    told = datasets
            except LinkLost:
                return
            except TimeoutError:
                log.warning("site %s: does not say what it has", site, extra={"event": "site.silent", "site": site})
            except StoreUnavailable as error:
                log.error("%s; trying again", error, extra=_AWAY)
            except ThebesError as refused:
                if str(refused) != complained:
                    log.warning(
                        "site %s: what it says cannot be read: %s",
                        site,
                        refused,
                        extra={"event": "site.unreadable", "site": site},
                    )
                complained = str(refused)
            await asyncio.sleep(self._pace.describe)

    # --- what is told and noted -------------------------------------------------------------------------

    async def _keep_farewells(self) -> None:
        """Tell sites which tasks are over, so that they give back what is left of the claims; who has not noted it is
        told again later."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pace.describe):
                    await self._over.wait()
            self._over.clear()
            linked = {conversation.site: conversation for conversation in self.links.all()}
            if not self._seated or not linked:
                continue
            try:
                due = await self._beside(lambda sites=list(linked): self.store.farewells(sites))  # type: ignore[misc]
                said = await asyncio.gather(*(farewell(linked[site], task) for site, task in due))
                noted = [each for each in said if each is not None]
                if noted:
                    await self._beside(lambda n=noted: self.store.noted(n))  # type: ignore[misc]
            except StoreUnavailable as error:
                log.error("%s; trying again", error, extra=_AWAY)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _keep_notes(self) -> None:
        """Write down who is linked, at once where that has changed."""
        waited = 0.0
        while True:
            await asyncio.sleep(self._pace.look)
            waited += self._pace.look
            if not self._seated or not (self._came_or_went or waited >= self._pace.note):
                continue
            self._came_or_went, waited = False, 0.0
            try:
                await self._write_notes()
                for run, _ in list(self._runs.values()):
                    if run.progress:
                        await self._beside(lambda r=run: self.store.tell(r.id, r.progress))  # type: ignore[misc]
            except StoreUnavailable as error:
                log.error("%s; trying again", error, extra=_AWAY)
                self._came_or_went = True

    async def _write_notes(self) -> None:
        linked = [conversation.site for conversation in self.links.all()]
        await self._beside(lambda: self.store.note(self._now(), linked))

    def _now(self) -> float:
        return self._clock.now().timestamp()

    async def _beside(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)


def _down(answer: Mapping[str, Any]) -> bool:
    return answer["kind"] == Word.REFUSAL and answer.get("code") == Code.DOWN
