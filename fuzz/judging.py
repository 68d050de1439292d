"""What one input may do at most."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path

SECONDS = 1.0  #: of the processor, for one input
BYTES = 256 * 2**20  #: beyond what a process holds that has read good input


class Broken(Exception):
    """An input took too long. Whatever else a reader raises is told as it is."""


def judged(one: Callable[[bytes], None], data: bytes) -> bool:
    """Whether the input was taken (True) or refused as it may be; any other error passes through."""
    from thebes.privacy.faults import Mistake, Refusal

    begun, taken = time.process_time(), True
    try:
        one(data)
    except (Mistake, Refusal):
        taken = False
    spent = time.process_time() - begun
    if spent > SECONDS:
        raise Broken(f"took {spent:.1f} seconds for {len(data)} bytes")
    return taken


def hold_memory() -> None:
    """From now on this process gets so much more and no more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
