"""The files that a process can still reach: on Linux, by Landlock, those beneath the paths it names and no others.

What must stay true: what is given up is given up for ever, by this thread and every thread and process it starts from
then on. Files and sockets that are open already stay open.
"""

from __future__ import annotations

import ctypes
import os
import platform
import stat
import struct
import sys
from collections.abc import Iterable

from thebes.confinement.calls import no_new_privileges

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every machine named here
_MACHINES = ("x86_64", "aarch64")
_VERSION = 1  # flag of the first call: say how much of it this kernel knows
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_READING = _EXECUTE | _READ_FILE | _READ_DIR
#: every right over files that a version of Landlock knows, by the version that brought the last of them
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
_SIGNALS_FROM = 6  # the version from which signals to processes outside can be given up
_SCOPE = 1 << 0 | 1 << 1  # abstract Unix sockets and signals


def version() -> int:
    """Return the version of Landlock that this system has; 0 where it has none."""
    if sys.platform != "linux" or platform.machine() not in _MACHINES:
        return 0
    return max(0, _call(_CREATE_RULESET, None, 0, _VERSION))


def restrict(readable: Iterable[str | int], writable: Iterable[str | int] = ()) -> bool:
    """Leaves this process what lies beneath `readable` to be read and run, and `writable` to be written too: paths, or
    open descriptors of them. What is not there is left out. Whether the system granted it; if not, nothing changed."""
    known = version()
    if not known:
        return False
    handled = _RIGHTS[max(v for v in _RIGHTS if v <= known)]
    words = [handled, 0, _SCOPE] if known >= _SIGNALS_FROM else [handled]
    attributes = struct.pack(f"={len(words)}Q", *words)
    ruleset = _call(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        return False
    try:
        for place, rights in [*((p, _READING) for p in readable), *((p, _READING | _WRITE_FILE) for p in writable)]:
            if not _allow(ruleset, place, rights & handled):
                return False
        return no_new_privileges() and _call(_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _allow(ruleset: int, place: str | int, rights: int) -> bool:
    try:
        descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC) if isinstance(place, str) else os.dup(place)
    except OSError:
        return True  # what is not there needs no leave
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _OF_FILES
        return _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, descriptor), 0) == 0
    finally:
        os.close(descriptor)


def _call(number: int, *arguments: int | bytes | None) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    words = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_void_p(a) if a is None else ctypes.c_long(a)
             for a in arguments]  # fmt: skip
    return int(libc.syscall(ctypes.c_long(number), *words))
