"""The two state machines of a ledger; docs/ledger.md draws them."""

from __future__ import annotations

from enum import StrEnum


class BlockState(StrEnum):
    """Whether new claims may be made on a block."""

    OPEN = "open"  #: accepts claims. -> RETIRED
    RETIRED = "retired"  #: accepts no new claim, those made before may finish. Final


class ClaimState(StrEnum):
    """How far a claim has come. What was consumed never comes back."""

    RESERVED = "reserved"  #: set aside in every block, nothing begun. -> ACQUIRED, CLOSED (consumed whole), RELEASED
    ACQUIRED = "acquired"  #: work has begun, parts may be consumed. -> CLOSED (something consumed), RELEASED (nothing)
    CLOSED = "closed"  #: something was consumed, what was left has gone back. Final
    RELEASED = "released"  #: nothing was consumed, all has gone back. Final

    @property
    def open(self) -> bool:
        """Whether something may still be consumed."""
        return self in (ClaimState.RESERVED, ClaimState.ACQUIRED)
