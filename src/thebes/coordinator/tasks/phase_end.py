"""Ending phases: feed an aggregator what was taken, let it conclude, store the release, destroy what was used.

What must stay true, at whichever point the process dies: each phase has at most one release, stored before anybody
sees it; a trusted task is done only when its key is gone; nothing is left undone that the next worker does not find.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, cast

from thebes.coordinator.clock import Clock
from thebes.coordinator.people.contribution_record import at_once, unpack
from thebes.coordinator.storage.database import StoreUnavailable
from thebes.coordinator.tasks.phase_queue import Concluded, Held, NoLongerHeld, PhaseQueue
from thebes.coordinator.tasks.states import Status
from thebes.coordinator.tasks.task_keys import Keys, TaskKey, keys_said, place_of, place_of_snapshot
from thebes.privacy import randomness
from thebes.privacy.faults import Fault
from thebes.privacy.promise import Unit
from thebes.tasks import registry
from thebes.tasks.protocols import Aggregator, Endless, Setting, State
from thebes.tasks.release import Release
from thebes.wire import receipts

HOLD_SECONDS = 4.0  #: after so long without a word another worker takes a task over
_WORD_SECONDS = 1.0
_ORPHAN_SECONDS = 3600.0  #: a key without a task that is older was left by a process that died in between
log = logging.getLogger("thebes.coordinator")


def setting(members: int | None = None, helper: Mapping[str, Any] | None = None) -> Setting:
    """Make the setting in which every aggregator of this coordinator is run. Only the members of a group, of which
    there are so many, prove that they are one human each; nobody else proves here that a device is one. `helper` is
    what the second of two servers said."""
    unit = Unit.DEVICE if members is None else Unit.PERSON
    return Setting(unit=unit, randomness=randomness.system(), group_size=members, helper=helper or {})


class Closing:
    """The work that a worker does. `step` returns when there is nothing left to do just now."""

    def __init__(self, desk: PhaseQueue, keys: Keys, clock: Clock) -> None:
        self._desk = desk
        self._keys = keys
        self._clock = clock

    def step(self) -> None:
        """End what is to be ended, then clear away what is left over."""
        now = self._now()
        for task_id in self._desk.overdue(now):
            self._desk.end_at_deadline(task_id, now)
        for task_id in self._desk.waiting(now):
            held = self._desk.hold(task_id, now, now + HOLD_SECONDS)
            if held is not None:
                with self._holding(held):
                    self._end(held)
        for task_id, with_key in self._desk.with_leftovers():
            if with_key:
                self._keys.destroy(task_id)
            while self._desk.sweep(task_id):
                pass

    def forget_orphans(self) -> None:
        """Destroy keys whose tasks never came to be."""
        for task_id in list(self._keys.older_than(self._now() - _ORPHAN_SECONDS)):
            if self._desk.known(task_id) is None:
                self._keys.destroy(task_id)

    def _end(self, held: Held) -> None:
        try:
            following = held.following
            if following is None:  # else somebody concluded and died before the key was gone
                concluded = self._concluded(held)
                self._desk.conclude(held, concluded)
                following = concluded.following
            if held.trusted and following is not Status.OPEN:
                self._keys.destroy(held.id)
                self._desk.finish(held, following)
        except NoLongerHeld:
            log.info(
                "task %s: taken over or cancelled; this worker's result is thrown away",
                held.id,
                extra={"event": "task.taken-over", "task": held.id},
            )

    def _concluded(self, held: Held) -> Concluded:
        """The end of a phase, or of the task where no end can be computed. Errors are told without their words,
        which might repeat a value."""
        try:
            return self._computed(held)
        except StoreUnavailable:
            raise  # no fault of the task's: it is taken up again when the database is back
        except Exception as error:
            where = error.__traceback__
            while where is not None and where.tb_next is not None:
                where = where.tb_next
            at = "" if where is None else f" at {where.tb_frame.f_code.co_filename}:{where.tb_lineno}"
            log.error(
                "task %s: phase %d cannot be ended: %s%s",
                held.id,
                held.phase,
                type(error).__name__,
                at,
                extra={"event": "phase.failed", "task": held.id},
            )
            return Concluded(release=None, following=Status.FAILED)

    def _computed(self, held: Held) -> Concluded:
        document = registry.accepted_earlier(held.document)
        key = self._keys.of(held.id) if held.trusted else None
        if held.trusted and key is None:
            raise Fault("the key of a task is gone before its answer was computed")
        group, epoch = getattr(document, "group", None), getattr(document, "epoch", None)
        members = None if group is None or epoch is None else self._desk.members(group, epoch)
        aggregator = registry.aggregator(document, setting(members, self._helper(held, key)))
        if aggregator.endless:
            return self._closed(held, cast(Endless, aggregator))
        if held.snapshot is not None:
            aggregator.restore(_opened(held, key))
        heard = self._feed(held, aggregator, key)
        if heard != sum(held.counts):
            raise Fault("a task does not have the contributions that it counted")
        aggregator.advance(_moment(held, aggregator, self._clock.now()))
        release = aggregator.release()
        body = None if release is None else self._committed(held, release)
        if aggregator.state is State.DONE:
            return Concluded(body, Status.DONE)
        if aggregator.state is not State.OPEN or aggregator.part == held.part:
            raise Fault("a full phase did not end")
        snapshot = aggregator.snapshot()
        if key is not None:
            snapshot = key.seal(snapshot, place_of_snapshot(held.id, held.phase + 1))
        packets, part = len(aggregator.parts), aggregator.part
        counted = (aggregator.least, aggregator.wanted)
        return Concluded(body, Status.OPEN, snapshot, part, packets, *counted)

    def _helper(self, held: Held, key: TaskKey | None) -> dict[str, Any]:
        """Return all that the helper of a task said; nothing where it has none."""
        said = self._desk.helped(held)
        if said is None or key is None:
            return {}
        return {**keys_said(key, held.id, said[0]), "sum": said[1]}

    def _committed(self, held: Held, release: Release) -> str:
        """Commit a release to the contributions that it was made from: its body."""
        told = {**receipts.committed(self._desk.receipts(held)), "phase": held.phase}
        return json.dumps(release.beside(receipts=told).as_json(), allow_nan=False)

    def _closed(self, held: Held, aggregator: Endless) -> Concluded:
        """Make the last release of a task without end, or none where too little was taken."""
        kept = self._desk.trained(held)
        aggregator.take_over(kept.facts, kept.models, kept.times)
        aggregator.close()
        release, taken = aggregator.release(), min(sum(aggregator.counts), aggregator.wanted)
        if release is None:
            return Concluded(None, Status.EXPIRED, taken=taken)
        return Concluded(json.dumps(release.as_json(), allow_nan=False), Status.DONE, taken=taken)

    def _feed(self, held: Held, aggregator: Aggregator, key: TaskKey | None) -> int:
        heard = 0
        for part in held.parts:
            size = min(at_once(aggregator.layout(part, partition)) for partition in range(aggregator.partitions))
            for rows in self._desk.records(held, part, size):
                by_partition: dict[int, list[bytes]] = {}
                for who, record in rows:
                    opened = record if key is None else key.open(record, place_of(held.id, part, who))
                    by_partition.setdefault(aggregator.partition(who), []).append(opened)
                for partition, records in by_partition.items():
                    aggregator.accept(unpack(aggregator.layout(part, partition), part, records, partition))
                heard += len(rows)
        return heard

    @contextmanager
    def _holding(self, held: Held) -> Iterator[None]:
        """Say every now and then that the work goes on, however long it takes."""
        ended = threading.Event()

        def say() -> None:
            while not ended.wait(_WORD_SECONDS):
                with suppress(StoreUnavailable):  # a word later is early enough, or another worker has the task by then
                    self._desk.keep_holding(held.id, self._now() + HOLD_SECONDS)

        voice = threading.Thread(target=say, daemon=True)
        voice.start()
        try:
            yield
        finally:
            ended.set()
            voice.join()

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _opened(held: Held, key: TaskKey | None) -> bytes:
    assert held.snapshot is not None  # noqa: S101
    return held.snapshot if key is None else key.open(held.snapshot, place_of_snapshot(held.id, held.phase))


def _moment(held: Held, aggregator: Aggregator, now: datetime) -> datetime:
    """Now; or the deadline, where the phase was closed at it by a process whose clock is ahead of ours."""
    if held.accepted >= aggregator.wanted or held.expires is None:
        return now
    return max(now, datetime.fromtimestamp(held.expires, UTC))
