"""The leader of tasks of people that have a helper: it has the helper open them, verifies with it what was sent once
enough was, and asks for its noised sum. The worker then opens the answer with a noise of its own.

What must stay true: a share of the leader's never leaves, nor its sum; what the helper is told is written down before,
so that whichever process goes on says the same; a helper that is gone is waited for until a while after the deadline,
and then everything is destroyed; one that refuses or cannot be read ends the task, saying why.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np

from thebes.coordinator.clock import Clock
from thebes.coordinator.people.contribution_record import unpack
from thebes.coordinator.sites.helped_store import HelpedStore, LedTask, VerifyJob
from thebes.coordinator.sites.helper_steps import HelperRefused, NotNow, taken
from thebes.coordinator.sites.links import Links
from thebes.coordinator.sites.session import Conversation
from thebes.coordinator.storage.database import StoreUnavailable
from thebes.coordinator.tasks.phase_end import setting
from thebes.coordinator.tasks.states import Status
from thebes.coordinator.tasks.task_keys import Keys, TaskKey, keys_said, place_of, sealed_keys
from thebes.tasks import registry
from thebes.tasks.contributions import Contributions
from thebes.tasks.document import PeopleDocument
from thebes.tasks.protocols import Leading
from thebes.wire import helping

T = TypeVar("T")
PATIENCE_SECONDS = 3600.0  #: after the deadline for which a helper that is gone is waited for
log = logging.getLogger("thebes.coordinator")


class LedTasks:
    """Tasks of one coordinator that have a helper, in the process that speaks with sites. `beside` runs what takes a
    while."""

    def __init__(
        self,
        store: HelpedStore,
        links: Links,
        keys: Keys,
        clock: Clock,
        beside: Callable[[Callable[[], Any]], Awaitable[Any]],
    ) -> None:
        self._store, self._links, self._keys, self._clock, self._beside = store, links, keys, clock, beside
        self._going: dict[str, asyncio.Task[None]] = {}

    async def look(self) -> None:
        """Begin whatever is to be done; each task goes on by itself."""
        await self._beside(self._store.say_farewells)
        for task in await self._beside(self._store.due):
            if task.id not in self._going:
                self._going[task.id] = asyncio.create_task(self._carried(task))

    async def leave(self) -> None:
        """Go on with nothing: another process does."""
        going = [*self._going.values()]
        self._going.clear()
        for each in going:
            each.cancel()
        await asyncio.gather(*going, return_exceptions=True)

    async def _carried(self, task: LedTask) -> None:
        try:
            await self._carry(task)
        except NotNow:
            pass
        except HelperRefused as refused:
            log.warning("task %s: its helper %s", task.id, refused, extra={"event": "helper.refused", "task": task.id})
            await self._ended(task, Status.FAILED)
        except StoreUnavailable as error:
            log.error("%s; trying again", error, extra={"event": "store.away"})
        except Exception as error:  # told without its words, which might repeat what somebody sent
            told = ("task %s: cannot be led: %s", task.id, type(error).__name__)
            log.error(*told, extra={"event": "helped.failed", "task": task.id})
            await self._ended(task, Status.FAILED)
        finally:
            self._going.pop(task.id, None)

    async def _ended(self, task: LedTask, status: Status) -> None:
        with suppress(StoreUnavailable):  # the next look finds the task as it was
            await self._beside(lambda: self._store.end(task.id, status))

    async def _carry(self, task: LedTask) -> None:
        if self._late(task, PATIENCE_SECONDS):
            log.warning("task %s: its helper did not come back in time", task.id, extra={"event": "helper.late"})
            await self._ended(task, Status.EXPIRED)
            return
        conversation = self._links.of(task.helper)
        if conversation is None:
            raise NotNow
        key = await self._beside(lambda: self._keys.of(task.id))
        if key is None:
            return  # it was cancelled just now
        if task.opened is None:
            await self._open(task, conversation, key)
        else:
            await self._close(task, conversation, key)

    async def _open(self, task: LedTask, helper: Conversation, key: TaskKey) -> None:
        asked = {"requestor": task.requestor, "document": dict(task.document)}
        said = helping.opened(await taken(helper, task.id, helping.OPEN, asked))
        sealed = sealed_keys(key, task.id, said)
        await self._beside(lambda: self._store.open(task.id, sealed))

    async def _close(self, task: LedTask, helper: Conversation, key: TaskKey) -> None:
        leader = await self._beside(lambda: self._leader(task, key))
        await self._beside(lambda: self._assign(task, leader, key))
        for job in await self._beside(lambda: self._store.jobs(task.id)):
            if job.counted is None:
                await self._judged(task, leader, job, helper, key)
        accepted = await self._beside(lambda: self._store.accepted(task.id))
        if accepted < task.wanted and not self._late(task):
            await self._beside(lambda: self._store.reopen(task))
            return
        if accepted < task.least:
            await self._ended(task, Status.EXPIRED)
            return
        both, dropped = await self._beside(lambda: self._store.counted(task))
        digest = helping.nonces_digest(bytes.fromhex(nonce) for nonce in both)
        asked = {"dropped": sorted(dropped), "count": len(both), "nonces": digest}
        total = helping.noised_sum(await taken(helper, task.id, helping.CLOSE, asked))
        leader.check_sum(total)
        await self._beside(lambda: self._store.conclude(task, total))

    async def _judged(self, task: LedTask, leader: Leading, job: VerifyJob, helper: Conversation, key: TaskKey) -> None:
        """Verify a job with the helper; what either does not count is taken off."""
        records = await self._beside(lambda: self._store.records(task, job))
        if records is None:
            raise NotNow
        contributions = await self._beside(lambda: self._read(task, leader, records, job, key))
        reports, prepared = await self._beside(lambda: leader.verified(contributions))
        sealed = np.stack([np.frombuffer(each, dtype=np.uint8) for each in reports.sealed])
        rows = np.concatenate([reports.nonces, reports.public, sealed, prepared.verifier], axis=1)
        asked = {"number": job.number, "reports": helping.packed(rows)}
        answer = await taken(helper, task.id, helping.VERIFY, asked)
        counted, seeds = helping.verdicts(answer, len(job.reports), prepared.seed.shape[1])
        agreed = leader.confirmed(prepared, counted, seeds)
        said = "".join("1" if each else "0" for each in counted)
        await self._beside(lambda: self._store.judge(task, job, said, [bool(each) for each in agreed]))
        if not agreed.all():
            away = int((~agreed).sum())
            told = ("task %s: %d of %d reports do not prove what they say and are not counted", task.id, away)
            log.warning(*told, len(job.reports), extra={"event": "reports.refused", "task": task.id})

    def _assign(self, task: LedTask, leader: Leading, key: TaskKey) -> None:
        """Put jobs together of what is in none yet; of two reports with one nonce only the first can be counted."""
        seen = {nonce for job in self._store.jobs(task.id) for _, nonce in job.reports}
        while found := self._store.unassigned(task, helping.MOST_REPORTS):
            number = len(self._store.jobs(task.id))
            reports, twice = list[tuple[str, str]](), list[str]()
            job = VerifyJob(number, [(who, "") for who, _ in found])
            contributions = self._read(task, leader, [record for _, record in found], job, key)
            for (who, _), nonce in zip(found, helping.hexed(leader.nonces(contributions)), strict=True):
                if nonce in seen:
                    twice.append(who)
                else:
                    reports.append((who, nonce))
                    seen.add(nonce)
            if not self._store.assign(task, VerifyJob(number, reports), twice):
                return

    def _leader(self, task: LedTask, key: TaskKey) -> Leading:
        assert task.opened is not None  # noqa: S101
        document = registry.accepted_earlier(task.document)
        assert isinstance(document, PeopleDocument)  # noqa: S101
        said = keys_said(key, task.id, task.opened)
        made = registry.aggregator(document, setting(None, said))
        assert isinstance(made, Leading)  # noqa: S101
        return made

    def _read(
        self, task: LedTask, leader: Leading, records: list[bytes], job: VerifyJob, key: TaskKey
    ) -> Contributions:
        names = [who for who, _ in job.reports]
        plain = [key.open(r, place_of(task.id, task.part, who)) for r, who in zip(records, names, strict=True)]
        return unpack(leader.layout(task.part), task.part, plain)

    def _late(self, task: LedTask, seconds: float = 0.0) -> bool:
        return self._clock.now().timestamp() >= task.expires + seconds
