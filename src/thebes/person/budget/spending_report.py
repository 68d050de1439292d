"""The person's ledger as they read it: what was spent, on which task, for whom, and what is left."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from thebes.ledger import Budget, Ledger, LedgerClaim, Tampered
from thebes.ledger.journal import JournalEntry
from thebes.person.budget.blocks import CARRIED, claimed_kinds, consumed, loss_as_budget
from thebes.person.budget.budget import PersonBudget
from thebes.person.settings import TRUSTS
from thebes.person.tasks.task_store import TaskStore
from thebes.privacy.promise import Adjacency, Unit


def ledger(budget: PersonBudget, task_store: TaskStore) -> dict[str, Any]:
    """Balances by trust, caps, and one entry for every claim. What is spent by trust is never added up: one is a fact
    about what left this machine, the others rest on promises of servers."""
    by_key = {p.claim_key: p for p in task_store.participations()}
    entries = []
    for claim in budget.ledger.claims():
        if claim.purpose == CARRIED:
            continue
        participation = by_key.get(claim.key or "")
        spent = consumed(claim)
        entries.append(
            {
                "task_id": None if participation is None else participation.task_id,
                "number": None if participation is None else participation.number,
                "name": None if participation is None else participation.document.name,
                "type": None if participation is None else participation.document.type,
                "state": None if participation is None else str(participation.state),
                "requestor": claim.spender,
                "purpose": claim.purpose,
                "trust": _budgets(claim.blocks)[0],
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
        **balance(budget),
        "caps": [
            {"requestor": cap.spender, "block": cap.block, "epsilon": float(cap.epsilon)}
            for cap in budget.ledger.caps()
        ],
        "entries": entries,
        "history": history(budget, task_store),
    }


def balance(budget: PersonBudget) -> dict[str, Any]:
    """Tell what is left, by trust: all of the ledger that can be told without reading its claims and its journal."""
    told = {
        "frozen": budget.ledger.frozen,
        "moved": budget.ledger.moved,
        "notices_older_copies": budget.ledger.notices_older_copies,
    }
    return {**told, **budget.view()}


def history(budget: PersonBudget, task_store: TaskStore) -> list[dict[str, Any]]:
    """List when what was spent, oldest first, as the journal says it."""
    claims = {claim.id: claim for claim in budget.ledger.claims() if claim.purpose != CARRIED}
    by_key = {p.claim_key: (p.task_id, p.number) for p in task_store.participations()}
    told = []
    for entry in budget.ledger.journal():
        for piece in _charges(entry):
            claim = claims.get(piece["claim"])
            if claim is None:
                continue
            for charged in piece["charges"]:
                if not (counted := _budgets(charged["blocks"])):
                    continue
                steps = {place: int(amount) for place, amount in charged["amounts"].items()}
                task_id, number = by_key.get(claim.key or "", (None, None))
                told.append(
                    {
                        "at": entry.at,
                        "trust": counted[0],
                        "counts_in": counted,
                        "task_id": task_id,
                        "number": number,
                        "requestor": claim.spender,
                        **Budget.of_steps(steps.get("epsilon", 0), steps.get("delta", 0)).as_json(),
                    }
                )
    return told


class LastCharged:
    """The moments when each claim was last charged. The journal only grows, so no entry of it is read twice."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._read, self._at = 0, dict[int, str]()
        self._lock = threading.Lock()

    def of(self, claim: LedgerClaim) -> str | None:
        """The moment as the journal has it; None where nothing was charged yet."""
        with self._lock:
            for entry in self._ledger.journal(after=self._read):
                self._at |= {piece["claim"]: entry.at for piece in _charges(entry) if piece["charges"]}
                self._read = entry.number
            return self._at.get(claim.id)


def verified(ledger: Ledger) -> dict[str, Any]:
    """Tell whether the journal is whole and every balance is what it says; else what differs."""
    findings: list[str] = []
    try:
        ledger.verify()
    except Tampered as tampered:
        findings = [str(finding) for finding in tampered.findings]
    return {"whole": not findings, "findings": findings, "entries": ledger.head().length}


def _charges(entry: JournalEntry) -> list[dict[str, Any]]:
    """List what an entry of the journal charged: one claim, or at a thaw all that were open."""
    settled: list[dict[str, Any]] = entry.facts["settled"] if entry.event == "thaw" else []
    return [entry.facts] if entry.event == "consume" else settled


def _budgets(blocks: Sequence[str]) -> list[str]:
    """Name the budgets of which these are blocks, a task's own first: only two servers draw on another besides."""
    kinds = claimed_kinds(blocks)
    return [trust for trust in reversed(TRUSTS) if trust in kinds]
