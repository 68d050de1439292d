"""The packets of a participation: which comes next, under which slot, and whose it is told to be.

What must stay true: no message shows a pseudonym of another part, nor the one that all slots of a participation
follow from.
"""

from __future__ import annotations

import secrets
from typing import Any, TypeGuard

from thebes.person.participation.group_tokens import Memberships
from thebes.person.participation.participation import Participation
from thebes.person.tasks.task_store import TaskStore
from thebes.privacy.faults import Fault
from thebes.tasks.aggregation.packets import packet_of, part_of, phase_of, slot_of
from thebes.tasks.document import Document, PeopleDocument
from thebes.tasks.protocols import Ask, Closed, Wait


def takes_tokens(document: Document) -> TypeGuard[PeopleDocument]:
    return isinstance(document, PeopleDocument) and document.anonymity == "token"


class Packets:
    """Reads from the task store how many packets of a participation have receipts, and from there knows the next. Where
    a phase takes several turns of one person, the packets of a turn follow those of the turns before."""

    def __init__(self, task_store: TaskStore, memberships: Memberships | None) -> None:
        self._task_store, self._memberships = task_store, memberships

    def number(self, participation: Participation) -> int:
        """Of the packet that is to be sent now."""
        document = participation.document
        if not isinstance(document, PeopleDocument) or document.turns(0) == 1:
            return len(self._task_store.receipts(participation))
        return self._task_store.turn(participation) * document.packets(0) + len(
            self._task_store.receipts(participation)
        )

    def slot(self, participation: Participation) -> str:
        """Under which it is asked for. Of a task with tokens it is the pseudonym of the packet's part; where the phase
        is not known yet, nobody's."""
        number, document = self.number(participation), participation.document
        if not takes_tokens(document):
            return _slot(participation, number)
        if document.phases > 1 or number >= _packets(document, 0):
            return secrets.token_hex(16)
        return self.pseudonym(participation, document, part_of(0, number, _packets(document, 0)))

    def pseudonym(self, participation: Participation, document: PeopleDocument, part: str) -> str:
        """Under which a token answers to a part."""
        return self._own(document).pseudonym(participation.task_id, document, part)

    def whose(self, participation: Participation, ask: Ask, payload: dict[str, Any]) -> dict[str, str]:
        """Return whose a message is: a pseudonym's, or with a token some member's."""
        document = participation.document
        if not takes_tokens(document):
            return {"contributor": self.slot(participation)}
        return {"token": self._own(document).token(participation.task_id, document, ask.part, ask.ask_id, payload)}

    def contributor(self, participation: Participation, part: str) -> str:
        """Return under which pseudonym a part was answered."""
        document = participation.document
        if takes_tokens(document):
            return self.pseudonym(participation, document, part)
        return _slot(participation, packet_of(part))

    def has(self, document: PeopleDocument, ask: Ask, participation: Participation) -> bool:
        """Return whether the task has the part that is asked for, as this packet."""
        number = self.number(participation)
        if not 0 <= ask.phase < document.phases or number >= _packets(document, ask.phase):
            return False
        return ask.part == part_of(ask.phase, number, _packets(document, ask.phase))

    def passed(self, participation: Participation, asked: Ask | Wait | Closed) -> bool:
        """Return whether the phase that has earlier packets of this participation ended before this one left."""
        sent = [sending.part for sending in self._task_store.sendings(participation) if sending.receipt is not None]
        if not sent or isinstance(asked, Wait):
            return False
        return isinstance(asked, Closed) or phase_of(asked.part) != phase_of(sent[0])

    def further(self, participation: Participation) -> bool:
        """Return whether all packets of a participation so far have receipts, and the phase takes another."""
        sendings, document = self._task_store.sendings(participation), participation.document
        if not isinstance(document, PeopleDocument) or any(sending.receipt is None for sending in sendings):
            return False
        return len(sendings) < document.packets(int(phase_of(sendings[0].part).removeprefix("phase-")))

    def _own(self, document: PeopleDocument) -> Memberships:
        if self._memberships is None:
            raise Fault("a task with tokens was agreed to by a home that has no groups")
        return self._memberships


def _slot(participation: Participation, number: int) -> str:
    """The slot of a packet. Where there may be several none is the pseudonym itself, from which all others follow."""
    document = participation.document
    several = isinstance(document, PeopleDocument) and any(_packets(document, p) > 1 for p in range(document.phases))
    return slot_of(participation.slot, number + 1) if several else participation.slot


def _packets(document: PeopleDocument, phase: int) -> int:
    """Count the packets that a phase takes of one person, over every turn."""
    return document.packets(phase) * document.turns(phase)
