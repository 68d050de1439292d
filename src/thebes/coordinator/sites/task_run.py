"""One task of sites from its first ask to its end.

What must stay true: a phase ends when every site has answered or was excused, and no site is waited for beyond the
document's patience; what a site sends is heard only if it answers what this site is asked now; a run can end at any
point and another one goes on from the last phase, to which the sites give the same answers again; what a phase gave is
told nobody before it is stored, because noise that is added here would be drawn anew.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from thebes.coordinator.clock import Clock
from thebes.coordinator.process.metrics import CoordinatorMetrics
from thebes.coordinator.sites.farewell import farewell
from thebes.coordinator.sites.helper_steps import HelperRefused
from thebes.coordinator.sites.links import Links
from thebes.coordinator.sites.session import Conversation, LinkLost
from thebes.coordinator.sites.shared_run import RunHelper
from thebes.coordinator.sites.site_answers import Absence, UnfitAnswer, cost_of, longest, refusal
from thebes.coordinator.sites.site_store import ConvenedTask, Ended, FederationStore, NoLongerOurs, Noted
from thebes.coordinator.sites.stopwatch import Stopwatch
from thebes.coordinator.storage.database import StoreUnavailable
from thebes.coordinator.tasks.states import Status
from thebes.coordinator.tasks.task_keys import Keys, TaskKey, place_of_snapshot
from thebes.privacy import randomness
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.figures import figure
from thebes.privacy.promise import Unit
from thebes.tasks import registry
from thebes.tasks.contributions import Layout, read_payloads
from thebes.tasks.protocols import Ask, Setting, State, TaskClosed
from thebes.tasks.site_document import SiteDocument, declared, schemas_of
from thebes.tasks.site_protocols import Convened as Aggregator
from thebes.tasks.site_protocols import HelpedSites
from thebes.wire.link import Code, Word
from thebes.wire.refusals import Malformed, TooLarge
from thebes.wire.refused_sites import GONE, LATE

T = TypeVar("T")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 2.0  #: before a site that is busy or down is asked again
_FOLLOWING = {State.DONE: Status.DONE, State.EXPIRED: Status.EXPIRED, State.OPEN: Status.OPEN}
log = logging.getLogger("thebes.coordinator")


@dataclass(frozen=True, slots=True)
class Workplace:
    """The place where runs work."""

    links: Links
    store: FederationStore
    keys: Keys
    clock: Clock
    metrics: CoordinatorMetrics


class TaskRun:
    """Used from the event loop only. What touches the aggregator or the disk happens beside it, one step at a time."""

    def __init__(self, task: ConvenedTask, place: Workplace) -> None:
        self.id = task.id
        self._task = task
        self._place = place
        self._document: SiteDocument
        self._aggregator: Aggregator
        self._helper: RunHelper | None = None
        self._declared: dict[str, str]
        self._bench = ThreadPoolExecutor(1, thread_name_prefix="thebes-run")
        self._watch = Stopwatch((task.progress or {}).get("seconds"))
        self._answers: dict[str, dict[str, Any]] = dict((task.progress or {}).get("answers", {}))
        #: of a site that is missing, in a word: its own code, or "gone" or "late"
        self._reasons: dict[str, str] = dict((task.progress or {}).get("reasons", {}))
        #: whether a site was charged anything for the task, where that is known
        self._charged: dict[str, bool] = dict((task.progress or {}).get("charged", {}))
        self._released = task.release
        self._progress: dict[str, Any] = dict(task.progress or {})

    @property
    def progress(self) -> dict[str, Any]:
        """The progress of the run, in public figures."""
        return self._progress

    async def work(self) -> None:
        """Until the task is over. Errors are told without their words, which might repeat a value."""
        try:
            if self._task.following is not None:  # somebody concluded and died before the key was gone
                await self._show_end(self._task.phase, self._task.following)
                return
            self._document = self._read()
            if self._document.server == "split":
                self._helper = RunHelper(self.id, str(self._task.document["helper"]), self._place.links, self._patience)
            said: Mapping[str, Any] = {}
            if self._helper is not None and self._task.snapshot is None:  # in one stands what it said
                said = await self._helper.opened(self._task.requestor, self._task.document)
            await self._beside(lambda: self._begin(said))
            while self._aggregator.state is State.OPEN:
                await self._phase()
        except (StoreUnavailable, NoLongerOurs):
            raise
        except HelperRefused as refused:
            log.warning("task %s: its helper %s", self.id, refused, extra={"event": "helper.refused", "task": self.id})
            await self._beside(lambda: self._place.store.fail(self._task))
        except Exception as error:
            where = error.__traceback__
            while where is not None and where.tb_next is not None:
                where = where.tb_next
            at = "" if where is None else f" at {where.tb_frame.f_code.co_filename}:{where.tb_lineno}"
            log.error(
                "task %s: cannot go on: %s%s",
                self.id,
                type(error).__name__,
                at,
                extra={"event": "task.failed", "task": self.id},
            )
            await self._beside(lambda: self._place.store.fail(self._task))
        finally:
            self._bench.shutdown(wait=False)

    # --- phases -----------------------------------------------------------------------------------------

    def _read(self) -> SiteDocument:
        document = registry.accepted_earlier(self._task.document)
        if not isinstance(document, SiteDocument):
            raise Fault("a task of sites is not one that sites answer")
        return document

    def _begin(self, helper: Mapping[str, Any]) -> None:
        document = self._document
        # What a unit is every site's own schema says; the setting's is not used where institutions answer.
        setting = Setting(
            unit=Unit.EVENT,
            randomness=randomness.system(),
            sites=schemas_of(self._task.schemas),
            quotes=self._task.quotes,
            helper=helper,
        )
        made = registry.aggregator(document, setting)
        if self._task.snapshot is not None:
            made.restore(self._opened(self._task.snapshot))
        self._aggregator = made
        if self._task.snapshot is None:
            self._charged = dict.fromkeys(made.missing, False)  # they declare a column differently, and are never asked
        self._declared = {site: declared(schema, document.reads) for site, schema in setting.sites.items()}
        self._tell()

    async def _phase(self) -> None:
        """Ask everybody, hear everybody, conclude, store."""
        began, phase = time.perf_counter(), self._phase_number()
        attending = [asyncio.create_task(self._attend(site)) for site in self._aggregator.awaited]
        try:
            await asyncio.gather(*attending)
        finally:
            for each in attending:
                each.cancel()
        if self._helper is not None and len(self._aggregator.awaited) == 0:
            await self._helped(self._helper, phase)
        answering = time.perf_counter() - began
        ended = await self._beside(lambda: self._concluded(phase, answering))
        if ended.waits:
            await self._show_end(phase, ended.status)

    async def _helped(self, helper: RunHelper, phase: int) -> None:
        """Have the helper add up what enough sites have answered; who they are is stored first. Where it will not, a
        task of several phases ends with what those before it gave."""
        made = self._aggregator
        assert isinstance(made, HelpedSites)  # noqa: S101  # its document has a helper
        if len(self._answered()) < made.least:
            return
        answered = {*self._answered()}
        snapshot = await self._beside(lambda: self._sealed(made.snapshot(), phase))
        await self._beside(lambda: self._place.store.keep(self._task, phase, snapshot))
        try:
            said = await helper.summed(phase, await self._beside(made.to_helper))
        except HelperRefused as refused:
            if not phase:
                raise
            log.warning("task %s: its helper %s", self.id, refused, extra={"event": "helper.refused", "task": self.id})
            why = f"was not added up: the helper {refused}"
            await self._beside(lambda: made.without_helper(why))
        else:
            await self._beside(lambda: made.from_helper(said))
        self._reasons.update(dict.fromkeys(answered - {*self._answered()}, str(Code.FAILED)))

    def _concluded(self, phase: int, answering: float) -> Ended:
        began = time.perf_counter()
        aggregator = self._aggregator
        answered = len(self._answered())
        aggregator.advance(self._place.clock.now())
        if aggregator.state is State.OPEN and self._phase_number() == phase:
            raise Fault("a phase in which nobody is waited for did not end")
        release = aggregator.release()
        body = None if release is None else json.dumps(release.as_json(), allow_nan=False)
        status = _FOLLOWING[aggregator.state]
        snapshot = self._sealed(aggregator.snapshot(), phase + 1) if status is Status.OPEN else None
        self._watch.worked(time.perf_counter() - began)
        self._watch.phase(phase, answering)
        self._place.metrics.phase_took(answering)
        standing, new = self._standing(), body if body != self._released else None
        waits = status is Status.EXPIRED or (self._task.trusted and status.final)
        ended = Ended(status, new, snapshot, aggregator.part, answered, standing, waits)
        self._place.store.conclude(self._task, phase, ended)
        self._progress, self._released = standing, body
        return ended

    async def _show_end(self, phase: int, status: Status) -> None:
        """Show that the task is over: of a trusted one once its key is gone; of one without an answer once the sites
        that refused it, as far as they are linked, know that it is over and may have said that it cost them nothing."""
        if self._task.trusted:
            await self._beside(lambda: self._place.keys.destroy(self.id))
        noted = await self._farewells() if status is Status.EXPIRED else []
        await self._beside(lambda: self._place.store.finish(self._task, phase, status, noted))

    async def _farewells(self) -> list[Noted]:
        reasons = self._progress.get("reasons", {})
        refused = [site for site, reason in reasons.items() if reason not in (GONE, LATE) and site not in self._charged]
        linked = [conversation for site in refused if (conversation := self._place.links.of(site)) is not None]
        said = await asyncio.gather(*(farewell(conversation, self.id) for conversation in linked))
        return [each for each in said if each is not None]

    # --- sites ------------------------------------------------------------------------------------------

    async def _attend(self, site: str) -> None:
        """Hear a site's answer to this phase, or excuse it."""
        said, patience = [Absence("is not linked", GONE)], self._patience()
        try:
            async with asyncio.timeout(patience):
                await self._hear(site, said)
        except TimeoutError:
            late = patience < self._document.patience
            why = "when the task's time was over" if late else f"within {figure(self._document.patience)} seconds"
            await self._excuse(site, replace(said[-1], words=f"{said[-1].words} {why}"))
        except UnfitAnswer as unfit:
            await self._excuse(site, unfit.absence)
        except (Malformed, TooLarge) as refused:
            await self._excuse(site, Absence(f"sent what cannot be read: {refused}"))

    async def _hear(self, site: str, said: list[Absence]) -> None:
        """The last of `said` is what is known of a site that takes too long."""
        pause, patience = _FIRST_PAUSE, self._document.patience
        while True:
            conversation = await self._place.links.back(site, patience)
            if conversation is None:
                raise UnfitAnswer(said[-1])
            said.append(Absence("had not answered", LATE))
            try:
                refused = await self._asked(site, conversation)
            except LinkLost:
                said.append(Absence("was cut off and did not come back", GONE))
                continue
            if refused is None:
                return
            if refused.reason not in (Code.BUSY, Code.DOWN):
                raise UnfitAnswer(refused)
            said.append(replace(refused, words=f"{refused.words}, and had not answered"))
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _asked(self, site: str, conversation: Conversation) -> Absence | None:
        """Ask once: what a refusal says, or None once the answer was taken in."""
        ask = await self._beside(lambda: self._aggregator.ask(site))
        if not isinstance(ask, Ask):
            return None
        layout = self._aggregator.layout(ask.part, ask.partition)
        asked = {"ask_id": ask.ask_id, "part": ask.part, "phase": ask.phase, "partition": ask.partition}
        message = {
            "task": self.id,
            "requestor": self._task.requestor,
            "document": self._task.document,
            "declared": self._declared[site],
            "ask": asked,
            "payload": ask.payload,
        }
        answer = await conversation.ask(Word.ASK, message, most=longest(layout))
        if answer.get("task") != self.id or answer.get("part") != ask.part:
            raise UnfitAnswer("answered something else than what was asked")
        if answer["kind"] == Word.REFUSAL:
            return refusal(answer)
        if answer["kind"] != Word.CONTRIBUTION or answer.get("ask_id") != ask.ask_id:
            raise UnfitAnswer("answered something else than what was asked")
        seconds = answer.get("seconds")
        self._watch.computed(seconds.get("compute") if isinstance(seconds, Mapping) else None)
        await self._beside(lambda: self._take_in(site, ask, layout, answer))
        return None

    def _take_in(self, site: str, ask: Ask, layout: Layout, answer: Mapping[str, Any]) -> None:
        began = time.perf_counter()
        if not self._aggregator.asked(ask.ask_id, site):
            raise UnfitAnswer("answered when it was no longer asked")
        try:
            self._aggregator.accept(read_payloads(layout, ask.part, [answer.get("payload")], ask.partition))
        except Mistake as mistake:
            raise UnfitAnswer(f"sent an answer that does not fit: {mistake.argument} {mistake.message}") from None
        except TaskClosed:
            raise UnfitAnswer("answered when the phase was over") from None
        self._aggregator.covers(site, answer.get("covers"))
        cost, source = cost_of(answer.get("cost")), answer.get("source")
        self._aggregator.paid(site, cost, source)
        self._answers[site] = {
            "cost": cost,
            "source": source if isinstance(source, str) and source.isprintable() and len(source) <= 40 else None,
        }
        self._watch.worked(time.perf_counter() - began)
        self._tell()

    async def _excuse(self, site: str, absence: Absence) -> None:
        def work() -> None:
            if site in self._aggregator.awaited:
                log.info(
                    "task %s: the site %s %s",
                    self.id,
                    site,
                    absence.words,
                    extra={"event": "site.excused", "task": self.id, "site": site},
                )
                self._aggregator.excuse(site, absence.words)
                self._reasons[site] = str(absence.reason)
                self._place.metrics.site_refused(str(absence.reason))
                self._tell()

        await self._beside(work)

    def _patience(self) -> float:
        deadline, patience = self._document.deadline, self._document.patience
        if deadline is None:
            return patience
        return max(0.0, min(patience, (deadline - self._place.clock.now()).total_seconds()))

    # --- what is told and kept --------------------------------------------------------------------------

    def _tell(self) -> None:
        self._progress = self._standing()

    def _standing(self) -> dict[str, Any]:
        """Tell how it stands. Of a task that is over: whom its last phase covered."""
        facts = self._aggregator.progress()
        return {
            **facts,
            "phase": int(facts.get("phase", 0)),
            "phases": self._document.phases,
            "needed": self._aggregator.least,
            "asked": sorted(self._task.schemas),
            "left_out": dict(self._task.left_out),
            "answered": self._answered(),
            "missing": dict(self._aggregator.missing),
            # who is missing without having been asked declares a column differently
            "reasons": {site: self._reasons.get(site, str(Code.SCHEMA)) for site in self._aggregator.missing},
            "charged": dict(self._charged),
            "answers": dict(self._answers),
            "seconds": self._watch.told(),
        }

    def _answered(self) -> list[str]:
        silent = {*self._aggregator.awaited, *self._aggregator.missing}
        return sorted(site for site in self._task.schemas if site not in silent)

    def _phase_number(self) -> int:
        return int(self._aggregator.part.removeprefix("phase-"))

    def _sealed(self, snapshot: bytes, phase: int) -> bytes:
        if not self._task.trusted:
            return snapshot
        return self._key().seal(snapshot, place_of_snapshot(self.id, phase))

    def _opened(self, snapshot: bytes) -> bytes:
        if not self._task.trusted:
            return snapshot
        return self._key().open(snapshot, place_of_snapshot(self.id, self._task.phase))

    def _key(self) -> TaskKey:
        key = self._place.keys.of(self.id)
        if key is None:
            raise Fault("the key of a task is gone before its answer was computed")
        return key

    async def _beside(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._bench, work)
