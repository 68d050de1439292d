"""The one door to what only some operating systems have: locks between processes, owners of files, limits of a process,
signals.

Linux has all of it. macOS has it too, but for the walls that `thebes.confinement` takes from Linux alone. Windows has
none of it, so nothing keeps a home there: whoever tries hears one sentence. What needs no home (a ledger by itself, a
requestor with a token) goes through no call of this module.

What must stay true: where something is missing nobody goes on without it in silence.
"""

from __future__ import annotations

import os
import platform
import signal
import struct
import sys

from thebes.privacy.faults import Refusal

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_WAY_OUT = (
    "Thebes keeps homes on Linux and macOS, and not yet on Windows itself: install it inside of WSL 2, where this works"
)
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class NotOnThisSystem(Refusal):
    """Something needs what this operating system does not have; the sentence says what, and which systems have it."""


def missing() -> str | None:
    """Return the sentence of what this system lacks for keeping a home, or None where it lacks nothing."""
    there = {
        "locks between processes": fcntl is not None,
        "limits on a process": resource is not None,
        "owners of files": hasattr(os, "geteuid"),
        "groups of processes": hasattr(os, "killpg"),
    }
    lacks = [what for what, is_there in there.items() if not is_there]
    if not lacks:
        return None
    return f"this system ({platform.system() or sys.platform}) lacks {', '.join(lacks)}; {_WAY_OUT}"


def require() -> None:
    """Go on only where nothing is missing."""
    if (sentence := missing()) is not None:
        raise NotOnThisSystem(sentence)


def fork(*, session: bool = False) -> int:
    """Make a copy of this process, which hears 0 where this hears its number; with `session` in one of its own. Only
    where one thread runs."""
    require()
    child = os.fork()
    if session and not child:
        os.setsid()
    return child


def hold(descriptor: int, *, shared: bool = False, wait: bool = True) -> None:
    """Lock an open file or folder until it is closed. Without `wait` a `BlockingIOError` where another has it."""
    require()
    fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))


def hold_place(descriptor: int, place: int) -> None:
    """Lock one of 2^62 places of an open file until it is closed: who asks for another place does not wait. Where the
    system has no such locks, the whole file."""
    require()
    if not hasattr(fcntl, "F_OFD_SETLKW") or not sys.platform.startswith("linux"):
        hold(descriptor)
        return
    # struct flock: of an open file, not of a process, so that threads wait for each other as well
    asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, place % 2**62, 1, 0)
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLKW, asked)


def let_go(descriptor: int) -> None:
    """Unlock what stays open."""
    require()
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def user() -> int:
    """Return the number of the user whom this process acts for, as files name their owners."""
    require()
    return os.geteuid()


def limits(name: str) -> tuple[int | None, int | None]:
    """Return a limit of this process (`AS`, `CPU`, `NOFILE`, ...) and how far it may be raised; None: without end. An
    OSError where this system has no such limit."""
    number = _limit(name)
    soft, hard = resource.getrlimit(number)
    endless = resource.RLIM_INFINITY
    return None if soft == endless else soft, None if hard == endless else hard


def set_limits(name: str, soft: int | None, hard: int | None) -> None:
    """Set both, in the words of `limits`; an OSError or ValueError where this system does not grant it."""
    number = _limit(name)
    endless = resource.RLIM_INFINITY
    resource.setrlimit(number, (endless if soft is None else soft, endless if hard is None else hard))


def _limit(name: str) -> int:
    number = getattr(resource, f"RLIMIT_{name}", None)
    if number is None:
        raise OSError(f"this system has no limit of that kind: {name}")
    return int(number)


def signals(*names: str) -> tuple[signal.Signals, ...]:
    """Return those of some signals that this system has."""
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


def end_group(leader: int) -> None:
    """Kill a process that leads a group of its own, with all that it started."""
    require()
    os.killpg(leader, signal.SIGKILL)
