"""Limits of what one input may do."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

SECONDS = 1.0  #: of the processor, for one input
TRIES = 5  #: the processor is now and then slow by itself, and first reads import; what is slow is so each time
BYTES = 256 * 2**20  #: beyond what a process holds that has read good inputs


class Broken(Exception):
    """An input took too long. Whatever else a reader raises is told as it is."""


def judged(one: Callable[[bytes], None], data: bytes, *, memory: bool = False) -> bool:
    """Return whether the input was taken (True) or refused as it may be; any other error passes through. With `memory`
    it gets no more than it may, so that a reader which wants more meets a MemoryError."""
    spent: list[float] = []
    while not spent or (spent[-1] > SECONDS and len(spent) < TRIES):
        begun = time.process_time()
        taken = _taken(one, data, memory)
        spent.append(time.process_time() - begun)
    if spent[-1] > SECONDS:
        raise Broken(f"took {min(spent):.1f} seconds or more of the processor {TRIES} times for {len(data)} bytes")
    return taken


def _taken(one: Callable[[bytes], None], data: bytes, memory: bool) -> bool:
    from thebes.privacy.faults import Mistake, Refusal

    try:
        with _held() if memory else nullcontext():
            one(data)
    except (Mistake, Refusal):
        return False
    return True


@contextmanager
def _held() -> Iterator[None]:
    """This process gets so much more and no more, as long as the block lasts."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))
