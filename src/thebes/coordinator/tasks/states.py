"""The states in which a task stands."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """The public state of a task; the members say what may follow.

    `open` -> `running` when a phase has all it wants, or enough of it at the deadline; -> `expired` at the deadline
    with less; -> `cancelled`. `running` -> `open` with the next phase, or `done`, `failed`, `cancelled`.
    The other four are final.
    """

    OPEN = "open"  #: contributions are taken
    RUNNING = "running"  #: a phase has closed and its answer is being computed; nothing is taken
    DONE = "done"  #: the last release is stored, trusted contributions are destroyed
    FAILED = "failed"  #: the computation could not end; nothing more is released
    CANCELLED = "cancelled"  #: by its requestor or an operator
    EXPIRED = "expired"  #: too few contributions when its time was over; nothing is released

    @property
    def final(self) -> bool:
        return self not in (Status.OPEN, Status.RUNNING)
