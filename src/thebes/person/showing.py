"""The person's ledger as they read it: what was spent, on which task, for whom, and what is left."""

from __future__ import annotations

from typing import Any

from thebes.person.book import Book
from thebes.person.purse import CARRIED, Purse, consumed, loss_as_budget
from thebes.privacy.promise import Adjacency, Unit


def ledger(purse: Purse, book: Book) -> dict[str, Any]:
    """Balances by trust, caps, and one entry for every claim. Local and trusted spending are never added up: one is
    a fact about what left this machine, the other rests on a server's promise."""
    by_key = {p.claim_key: p for p in book.participations()}
    entries = []
    for claim in purse.ledger.claims():
        if claim.purpose == CARRIED:
            continue
        participation = by_key.get(claim.key or "")
        spent = consumed(claim)
        entries.append(
            {
                "task_id": None if participation is None else participation.task_id,
                "name": None if participation is None else participation.document.name,
                "type": None if participation is None else participation.document.type,
                "state": None if participation is None else str(participation.state),
                "requestor": claim.spender,
                "purpose": claim.purpose,
                "trust": "trusted" if claim.blocks and claim.blocks[0].startswith("trusted") else "local",
                "claim": str(claim.state),
                "price": loss_as_budget(claim.loss).as_json(),
                "spent": spent.as_json(),
                "reserved": claim.remaining.as_json(),
                "blocks": list(claim.blocks),
            }
        )
    return {
        "unit": str(Unit.DEVICE),
        "adjacency": str(Adjacency.REPLACE_ONE),
        "frozen": purse.ledger.frozen,
        **purse.view(),
        "caps": [
            {"requestor": cap.spender, "block": cap.block, "epsilon": float(cap.epsilon)} for cap in purse.ledger.caps()
        ],
        "entries": entries,
    }
