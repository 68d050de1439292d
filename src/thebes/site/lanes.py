"""Turns in the process with the rows: what waits in which lane, and who works on it.

What must stay true: of one task nothing is worked on beside something else of it in the same lane, and everything in
the order in which it came; so no part of a task is drawn twice for one charge.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

READERS = 2  #: asks about one data set that are worked on side by side
MOST_WAITING = 32  #: asks about one data set that wait for their turn
MOST_BYTES = 2**30  #: that all asks together hold while they wait
_MOST_TASKS = 1_000  #: of which a reader is remembered though nothing of them waits

log = logging.getLogger("thebes.site")


@dataclass(frozen=True, slots=True)
class WaitingWork:
    """One thing to be done: for a task, of so many bytes."""

    work: Callable[[], None]
    task: str
    size: int


@dataclass(slots=True)
class LaneReader:
    """One thread of a lane: what waits for it, and the tasks of which something waits or is worked on there."""

    waiting: queue.SimpleQueue[WaitingWork] = field(default_factory=queue.SimpleQueue)
    tasks: Counter[str] = field(default_factory=Counter)
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=_MOST_TASKS))

    @property
    def load(self) -> int:
        return self.tasks.total()


class Lanes:
    """Lanes side by side, and in each of them some readers. A task stays with the reader that had it first; a new one
    goes to whoever has least to do."""

    def __init__(self) -> None:
        self._lanes: dict[str, list[LaneReader]] = {}
        self._held = 0
        self._lock = threading.Lock()

    def put(
        self,
        lane: str,
        work: Callable[[], None],
        size: int,
        *,
        task: str = "",
        readers: int = 1,
        bounded: bool = True,
    ) -> bool:
        """Do it when its turn comes; False where too much waits already."""
        with self._lock:
            there = self._lanes.setdefault(lane, [])
            waits = sum(reader.waiting.qsize() for reader in there)
            if bounded and (waits >= MOST_WAITING or self._held + size > MOST_BYTES):
                return False
            reader = self._reader(lane, there, task, readers)
            reader.tasks[task] += 1
            self._held += size
            reader.waiting.put(WaitingWork(work, task, size))
        return True

    def _reader(self, lane: str, there: list[LaneReader], task: str, readers: int) -> LaneReader:
        had = [reader for reader in there if task in reader.tasks] or [r for r in there if task in r.recent]
        if had:
            return had[0]
        free = min(there, key=lambda reader: reader.load, default=None)
        if free is None or (free.load and len(there) < readers):
            free = LaneReader()
            there.append(free)
            threading.Thread(target=self._run, args=(free,), name=f"lane {lane}", daemon=True).start()
        return free

    def _run(self, reader: LaneReader) -> None:
        while True:
            one = reader.waiting.get()
            try:
                one.work()
            except Exception as error:
                log.error("a message was not answered: %s", type(error).__name__, extra={"event": "message.unanswered"})
            finally:
                with self._lock:
                    self._held -= one.size
                    reader.tasks[one.task] -= 1
                    if not reader.tasks[one.task]:
                        del reader.tasks[one.task]
                        if one.task not in reader.recent:
                            reader.recent.append(one.task)
                del one
