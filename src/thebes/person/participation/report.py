"""A person's participations as their pages, their machine's interface and Python tell them."""

from __future__ import annotations

from typing import Any

from thebes.person.budget.blocks import added, consumed
from thebes.person.budget.budget import PersonBudget
from thebes.person.budget.spending_report import LastCharged
from thebes.person.participation.participation import Participation, ParticipationState
from thebes.person.tasks.task_store import TaskStore
from thebes.tasks.document import PeopleDocument


class ParticipationReport:
    """Tells of the participations in one home's store what they cost, by its ledger."""

    def __init__(self, task_store: TaskStore, budget: PersonBudget, charged: LastCharged) -> None:
        self._task_store, self._budget, self._charged = task_store, budget, charged

    def turns_left(self, document: PeopleDocument, mine: list[Participation]) -> int:
        """Return how often one may still agree to a task."""
        return max(0, document.participations - sum(self._paid(p) for p in mine))

    def _paid(self, participation: Participation) -> bool:
        claim = self._budget.claim(participation.claim_key)
        spent = None if claim is None else consumed(claim)
        return spent is not None and bool(spent.epsilon or spent.delta)

    def standing(self, document: PeopleDocument, mine: list[Participation]) -> dict[str, Any]:
        """Tell where this person stands with a task: the latest participation, whether it can be taken back, how often
        one may still agree, and what all of them together cost so far."""
        latest = mine[-1] if mine else None
        claims = [claim for p in mine if (claim := self._budget.claim(p.claim_key)) is not None]
        return {
            "paid": added(consumed(claim) for claim in claims).as_json(),
            "set_aside": added(claim.remaining for claim in claims if claim.state.open).as_json(),
            "state": str(ParticipationState.SEEN if latest is None else latest.state),
            "note": "" if latest is None else latest.note,
            "due_at": None if latest is None else latest.due_at,
            "packets_sent": 0 if latest is None else len(self._task_store.receipts(latest)),
            "returnable": latest is None or latest.returnable,
            "turns_left": self.turns_left(document, mine),
        }

    def told(self, participation: Participation) -> dict[str, Any]:
        """Tell a participation with its receipts, what it has cost so far (`spent`) and since when (`sent`)."""
        claim = self._budget.claim(participation.claim_key)
        return {
            **participation.as_json(),
            "receipts": self._task_store.receipts(participation),
            "spent": None if claim is None else consumed(claim).as_json(),
            "sent": None if claim is None else self._charged.of(claim),
        }
