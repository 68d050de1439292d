"""Tasks without end in the only process on their database: the state lives in memory and is written behind what happens
to it.

What must stay true: a receipt is written together with the pieces its contribution changed, `WRITE_SECONDS` after it
was given at the latest, and never are more than `MOST_AT_RISK` given and not written. That is what a crash can lose:
updates, never a charge, and none is counted twice, because whoever was forgotten has no receipt in the database. Where
there are no pieces every contribution counts: its receipt is given once it is written with the facts, and nothing is
lost.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from typing import Any

from thebes.coordinator.people.bloom_filter import BloomFilter
from thebes.coordinator.people.contribution_check import Submission
from thebes.coordinator.training.endless_task import CLOSED, TaskInMemory, again
from thebes.coordinator.training.model_store import Identity, MixedContributions, TakenContribution
from thebes.privacy.faults import Fault, ThebesError
from thebes.tasks.protocols import TaskClosed
from thebes.wire.refusals import Busy

WRITE_SECONDS = 0.5
WRITE_UPDATES = 1000  #: so many are written at once, without waiting for their time
MOST_AT_RISK = 2 * WRITE_UPDATES
_BUSY_SECONDS = 0.1
log = logging.getLogger("thebes.coordinator")


class Alone(TaskInMemory):
    """Acknowledges what is in memory, and writes it down soon."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._pending: dict[Identity, TakenContribution] = {}  # taken, and not known to be written
        self._looked_up: set[Identity] = set()
        self._sieve = BloomFilter()
        for names in self._shelf.names(self.task):
            for name in names:
                self._sieve.add(_name(name))
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[ThebesError | None] | None = None
        self._reached = False
        self._unwritten: set[Identity] = set()  # taken when the task was over already

    async def take(self, sent: Submission) -> str:
        identity, fingerprint = (sent.part, sent.contributor), self.key.fingerprint(sent.body())
        if len(self._pending) >= MOST_AT_RISK:
            await self.settle()
        noted = self._pending.get(identity) or await self._written_before(identity)
        if noted is not None:
            receipt = again(noted, fingerprint)
            await self._surely(identity)
            return receipt
        self._mix(sent)  # from here on nothing waits, so that whoever comes next finds it noted
        receipt = secrets.token_hex(16)
        self._pending[identity] = TakenContribution(fingerprint, receipt)
        self._sieve.add(_name(identity))
        self._reached = self._full()
        if self._reached or len(self._pending) >= WRITE_UPDATES:
            self._write()
        elif self._timer is None and self._writing is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._write)
        await self._surely(identity)
        return receipt

    async def _surely(self, identity: Identity) -> None:
        """Return at once where a crash may lose an update; else when this contribution is in the database."""
        while not self.aggregator.pieces and identity in self._pending:
            self._write()
            assert self._writing is not None  # noqa: S101
            error = await asyncio.shield(self._writing)
            if error is not None:
                raise error
        if identity in self._unwritten:
            raise TaskClosed(CLOSED)

    async def settle(self) -> None:
        while self._pending or self._replaced:
            self._write()
            assert self._writing is not None  # noqa: S101
            error = await asyncio.shield(self._writing)
            if error is not None:
                raise error

    def finish(self) -> None:
        if self._pending or self._replaced:
            self._shelf.write(self._new())

    async def _written_before(self, identity: Identity) -> TakenContribution | None:
        """Return what is known of a contribution from before; most are new, and for those nobody waits."""
        if not self._sieve.may_have(_name(identity)):
            return None
        if identity in self._looked_up:
            raise Busy("this contribution is being taken just now", _BUSY_SECONDS)
        self._looked_up.add(identity)
        try:
            found = await self._in(self._reader, lambda: self._shelf.known(self.task, [identity]))
        finally:
            self._looked_up.discard(identity)
        return self._pending.get(identity) or found.get(identity)

    # --- writing ----------------------------------------------------------------------------------------

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_down())

    async def _write_down(self) -> ThebesError | None:
        failed: ThebesError | None = None
        new = self._new()
        try:
            times = await self._in(self._writer, lambda: self._shelf.write(new))
        except BaseException as error:
            self._replaced = {**dict.fromkeys(new.models, 0), **self._replaced}
            failed = error if isinstance(error, ThebesError) else Fault("what was mixed in could not be written")
            told = str(error) if isinstance(error, ThebesError) else type(error).__name__
            log.error(
                "task %s: %s; what was mixed in waits to be written",
                self.task,
                told,
                extra={"event": "training.waits", "task": self.task},
            )
            if not isinstance(error, Exception):
                raise
        else:
            for identity in new.receipts:
                del self._pending[identity]
            if times is None:
                self._unwritten.update(new.receipts)
            if times is None or new.full:
                self.ended = True
        finally:
            self._writing = None
            if self._pending or self._replaced:
                soon = failed is None and len(self._pending) >= WRITE_UPDATES
                self._timer = asyncio.get_running_loop().call_later(0 if soon else WRITE_SECONDS, self._write)
        return failed

    def _new(self) -> MixedContributions:
        models = self._pieces()
        for place, (times, model) in models.items():
            self._times[place] += times
            models[place] = (self._times[place], model)
        return MixedContributions(
            task=self.task,
            receipts=dict(self._pending),
            models=models,
            full=self._reached,
            counts=tuple(self.aggregator.counts),
            facts=self.aggregator.facts(),
            alone=True,
        )


def _name(identity: Identity) -> bytes:
    return "\0".join(identity).encode()
