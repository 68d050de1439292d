"""Takes from the current process what strangers' work does not need: network, processes, files to write, memory, time.

Each step is tried and only what was achieved is reported. Meant for a child that still has one thread. Linux gives all
of it; elsewhere only the resource limits.
"""

from __future__ import annotations

from thebes import machine
from thebes.confinement import calls

MEASURES = ("network", "system-calls", "memory", "cpu", "files", "processes", "writing")
"""`network`: no way out, by an empty network namespace or by refused socket calls. `system-calls`: a filter refuses
sockets, new processes, signals to others and changed files. `memory`, `cpu`, `files` (open at once), `processes` and
`writing` (bytes into files: none): resource limits; `processes` does not bind a privileged user."""

_LIMITS = {
    "memory": "AS",
    "cpu": "CPU",
    "files": "NOFILE",
    "processes": "NPROC",
    "writing": "FSIZE",
    "core": "CORE",
}


def confine(*, memory_bytes: int, cpu_seconds: int) -> tuple[str, ...]:
    """Gives up everything in `MEASURES` for ever; returns those achieved, in that order.

    `memory_bytes` is what may be allocated beyond what the process already maps; `cpu_seconds` is its whole life.
    """
    achieved = cut_off()
    achieved |= limit(memory=mapped() + memory_bytes, cpu=cpu_seconds, files=64, processes=0, writing=0, core=0)
    return tuple(measure for measure in MEASURES if measure in achieved)


def cut_off() -> set[str]:
    """Gives up the network and the calls that reach beyond the process, for ever; returns those achieved."""
    achieved = {"network"} if calls.leave_network() else set()  # first: the filter refuses it
    if calls.filter_calls():
        achieved |= {"system-calls", "network"}
    return achieved


def limit(**values: int) -> set[str]:
    """Lowers resource limits for ever (`memory`: bytes mapped in all); returns those that hold now."""
    achieved = set()
    for measure, value in values.items():
        try:
            _, most = machine.limits(_LIMITS[measure])
            least = value if most is None else min(value, most)
            machine.set_limits(_LIMITS[measure], least, least)
            achieved.add(measure)
        except (ValueError, OSError):
            continue
    return achieved


def mapped() -> int:
    """Bytes of address space in use; 1 GiB where the system does not say."""
    try:
        with open("/proc/self/statm") as status:
            return int(status.read().split()[0]) * machine.PAGE_BYTES
    except (OSError, ValueError):
        return 2**30
