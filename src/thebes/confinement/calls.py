"""The confinement that only Linux has: it takes from a process its network by a namespace, its system calls by a
filter, and what outlives it.

Every function says whether the system granted it; elsewhere none is.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIGKILL = 9

# Numbers of the refused calls by machine, from the kernel's syscall tables: sockets; new processes and programs;
# signals, tracing and memory of others; namespaces, mounts, keys; loaders of kernel programs; changes to files; when
# and where others run; memory and messages that outlive a process.
_REFUSED = {
    "x86_64": (
        *(41, 42, 43, 44, 46, 49, 50, 53, 288, 299, 307),
        *(56, 57, 58, 59, 322, 435),
        *(62, 200, 234, 129, 297, 424, 101, 310, 311, 438),
        *(272, 308, 165, 166, 161, 155, 248, 249, 250),
        *(321, 298, 323, 425, 426, 427, 175, 313, 246, 169),
        *(
            76,
            77,
            82,
            83,
            84,
            85,
            86,
            87,
            88,
            90,
            91,
            92,
            93,
            94,
            132,
            133,
            188,
            189,
            190,
            197,
            198,
            199,
            235,
            258,
            259,
            260,
        ),
        *(261, 263, 264, 265, 266, 268, 280, 316, 437, 452),
        *(203, 141, 144, 142, 314, 251, 256, 279, 312, 440, 448),
        *(29, 30, 31, 64, 65, 66, 67, 68, 69, 70, 71, 220, 240, 241, 242, 243, 244, 245),
    ),
    "aarch64": (
        *(198, 199, 200, 201, 202, 203, 206, 211, 242, 243, 269),
        *(220, 221, 281, 435),
        *(129, 130, 131, 138, 240, 424, 117, 270, 271, 438),
        *(97, 268, 40, 39, 51, 41, 217, 218, 219),
        *(280, 241, 282, 425, 426, 427, 105, 273, 104, 142),
        *(45, 46, 33, 34, 35, 36, 37, 38, 52, 53, 54, 55, 5, 6, 7, 14, 15, 16, 88, 276, 437, 452),
        *(122, 140, 119, 118, 274, 30, 238, 239, 272, 440, 448),
        *(180, 181, 182, 183, 184, 185, 186, 187, 188, 189, 190, 191, 192, 193, 194, 195, 196, 197),
    ),
}
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_OPEN = {"x86_64": ((2, 1), (257, 2)), "aarch64": ((56, 2),)}  # (call, place of its flags)
_LIMITS = {"x86_64": 302, "aarch64": 261}  # prlimit64: of this process only, whose number is given as 0
_WRITING_FLAGS = 0x1 | 0x2 | 0x40 | 0x200 | 0x400  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND


def die_with_parent() -> None:
    """A killed parent leaves no child behind (Linux; elsewhere the child ends when its pipe closes).

    To the kernel the parent is the thread that started the child, which must therefore outlive it.
    """
    _prctl(_PR_SET_PDEATHSIG, _SIGKILL)


def hide_memory() -> bool:
    """Other processes of the same user can no longer read this one's memory (Linux)."""
    return _prctl(_PR_SET_DUMPABLE, 0)


def no_new_privileges() -> bool:
    """Nothing this process runs gains rights that it has not (Linux); what gives rights up for ever asks for it."""
    return _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _prctl(option: int, value: int, pointer: int | None = None) -> bool:
    libc = _libc()
    if libc is None:
        return False
    words = [ctypes.c_ulong(value), ctypes.c_ulong(pointer or 0), ctypes.c_ulong(0), ctypes.c_ulong(0)]
    return bool(libc.prctl(ctypes.c_int(option), *words) == 0)


def leave_network() -> bool:
    """A network namespace of its own has not even a loopback that is up. Needs user namespaces or privilege."""
    libc = _libc()
    return libc is not None and bool(libc.unshare(ctypes.c_int(_CLONE_NEWUSER | _CLONE_NEWNET)) == 0)


def filter_calls() -> bool:
    """A seccomp filter: refused calls fail with EPERM, everything else goes on."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _REFUSED or struct.calcsize("P") != 8:
        return False
    program = _program(machine)
    code = ctypes.create_string_buffer(program, len(program))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code)))
    return no_new_privileges() and _prctl(_PR_SET_SECCOMP, 2, ctypes.addressof(head))


def _program(machine: str) -> bytes:
    """Classic BPF over `struct seccomp_data` (call number at 0, architecture at 4, arguments from 16)."""
    load, equal, at_least, any_bit, answer = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, kill = 0x7FFF0000, 0x80000000
    refuse = 0x00050000 | errno.EPERM

    def step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("HBBI", code, if_true, if_false, value)

    steps = [step(load, 4), step(equal, _AUDIT_ARCH[machine], 1, 0), step(answer, kill), step(load, 0)]
    if machine == "x86_64":  # the x32 numbering would walk around the list
        steps += [step(at_least, 0x40000000, 0, 1), step(answer, refuse)]
    for call in _REFUSED[machine]:
        steps += [step(equal, call, 0, 1), step(answer, refuse)]
    steps += [step(equal, _LIMITS[machine], 0, 3), step(load, 16), step(equal, 0, 1, 0), step(answer, refuse)]
    steps += [step(load, 0)]
    for call, place in _OPEN[machine]:
        steps += [
            step(equal, call, 0, 4),
            step(load, 16 + 8 * place),
            step(any_bit, _WRITING_FLAGS, 0, 1),
            step(answer, refuse),
            step(answer, allow),
        ]
    return b"".join([*steps, step(answer, allow)])
