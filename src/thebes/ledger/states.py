"""The two state machines of a ledger; docs/ledger.md draws them."""

from __future__ import annotations

from enum import StrEnum


class BlockState(StrEnum):
    """The state of a block: whether new claims may be made on it."""

    OPEN = "open"  #: accepts claims. -> RETIRED
    RETIRED = "retired"  #: accepts no new claim, those made before may finish. Final


class ClaimState(StrEnum):
    """The state of a claim: how far it has come. What was consumed never comes back."""

    RESERVED = "reserved"  #: set aside in every block, nothing begun. -> ACQUIRED, CLOSED (consumed whole), RELEASED
    ACQUIRED = "acquired"  #: work has begun, parts may be consumed. -> CLOSED (something consumed), RELEASED (nothing)
    CLOSED = "closed"  #: something was consumed, what was left has gone back. Final
    RELEASED = "released"  #: nothing was consumed, all has gone back. Final

    @property
    def open(self) -> bool:
        """Return whether something may still be consumed."""
        return self in (ClaimState.RESERVED, ClaimState.ACQUIRED)
