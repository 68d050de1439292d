"""Limits of what one input may do."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

SECONDS = 1.0  #: of the processor, for one input
BYTES = 256 * 2**20  #: beyond what a process holds that has read good inputs


class Broken(Exception):
    """An input took too long. Whatever else a reader raises is told as it is."""


def judged(one: Callable[[bytes], None], data: bytes, *, memory: bool = False) -> bool:
    """Return whether the input was taken (True) or refused as it may be; any other error passes through. With `memory`
    it gets no more than it may, so that a reader which wants more meets a MemoryError."""
    from thebes.privacy.faults import Mistake, Refusal

    begun, taken = time.process_time(), True
    try:
        with _held() if memory else nullcontext():
            one(data)
    except (Mistake, Refusal):
        taken = False
    spent = time.process_time() - begun
    if spent > SECONDS:
        raise Broken(f"took {spent:.1f} seconds for {len(data)} bytes")
    return taken


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
