"""The reason for which a ledger is frozen, as its journal says."""

from __future__ import annotations

from thebes.ledger import journal
from thebes.ledger.store import Transaction

MOVED = "moved to another device"  #: why the ledger of a home is frozen whose copy lives instead


def why_frozen(t: Transaction) -> str | None:
    """Return what a ledger was last frozen for; None where it may spend."""
    standing = t.peek()
    if standing is None or not standing.frozen:
        return None
    return next(str(e.facts["why"]) for e in reversed(list(journal.read(t.entries(0)))) if e.event == "freeze")
