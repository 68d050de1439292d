"""Ports for tests that must name one before anybody listens there, or have a server come back where it was.

What the system gives to whoever asks for any port may be given away between the choice and its use, or while a killed
server starts again.
"""

from __future__ import annotations

import os
import random
import socket
from contextlib import suppress
from pathlib import Path

_FROM, _BELOW, _WORKERS = 11_000, 32_000, 16
_told: set[int] = set()


def free_port() -> int:
    """One of `free_ports`."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Free ones below those that the system gives to anybody, none of them twice in one process; tests that run beside
    each other (workers of pytest-xdist) choose from ranges of their own."""
    found: list[int] = []
    choice = [port for port in _range() if port not in _told]
    random.SystemRandom().shuffle(choice)
    for port in choice:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            _told.update(found)
            return found
    raise RuntimeError("too few free ports")


def _range() -> range:
    """Return the ports that this process may choose from."""
    below = _BELOW
    with suppress(OSError, ValueError):
        given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
        below = min(below, given) if given >= _FROM + 100 * _WORKERS else below
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if not worker.isdecimal():
        return range(_FROM, below)
    size = (below - _FROM) // _WORKERS
    start = _FROM + size * (int(worker) % _WORKERS)
    return range(start, start + size)
