"""The walls around strangers' work that not every system grants: which of them stand on this machine, and what is
different where one does not.

Each is tried, not guessed from the name of the system: a child puts up what it can, and says what it achieved.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from thebes import machine
from thebes.confinement import landlock
from thebes.data.sandbox.process import Sandbox
from thebes.privacy.faults import Fault, Refusal


@dataclass(frozen=True, slots=True)
class Wall:
    """One wall: `what` it does, whether it `stands` here, and what is so `without` it."""

    name: str
    what: str
    stands: bool
    without: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def walls() -> tuple[Wall, ...]:
    """Try every wall of this machine. The one that always stands, SQLite's authorizer, is not among them."""
    try:
        granted = _granted()
        own = Wall("process", "strangers' work runs in a process of its own, with limits", True, "")
    except (Refusal, Fault) as why:
        granted = frozenset()
        own = Wall("process", "strangers' work runs in a process of its own, with limits", False, f"none runs: {why}")
    alone = "strangers' SQL runs behind the other walls alone" if own.stands else own.without
    return (
        own,
        Wall("system-calls", "system calls of strangers' work are filtered", "system-calls" in granted, alone),
        Wall(
            "network",
            "strangers' work has no network",
            "network" in granted,
            f"{alone}, gradient tasks are refused" if own.stands else alone,
        ),
        Wall(
            "files",
            "the process of a site that talks cannot open the site's files",
            landlock.version() > 0,
            "a site's two processes are kept apart by what they are told alone",
        ),
    )


def _granted() -> frozenset[str]:
    machine.require()
    sandbox = Sandbox()
    try:
        sandbox.open({}, key=b"")
        return frozenset(sandbox.confinement)
    finally:
        sandbox.close()
