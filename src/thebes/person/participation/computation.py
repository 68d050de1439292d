"""The contribution that a person's machine makes of its rows when it is asked: paid for, as the bytes to send.

What must stay true: nothing that happens to the data after consent shows outside; rows that cannot be used count as
none.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from thebes.data.rows import FAILURES, Rows
from thebes.person.budget.budget import PacketClaim, PersonBudget
from thebes.person.participation.message_length import filled
from thebes.person.participation.packets import Packets
from thebes.person.participation.participation import Participation, Sending
from thebes.privacy.faults import Fault, Refusal, ThebesError
from thebes.privacy.randomness import system
from thebes.tasks import registry
from thebes.tasks.contributions import Contributions
from thebes.tasks.document import PeopleDocument
from thebes.tasks.protocols import Ask
from thebes.wire import frames

_WORTH_FRAMING = 53_336  #: base64 characters of 10,000 float32 weights


class RowsOf(Protocol):
    """The part of a store that is needed: one person's rows, with every failure filled in."""

    def featurize(self, sql: str, *, most_rows: int = 1000) -> Rows: ...


class Computation:
    """Computes contributions from the rows of one home, each with its own share of what was set aside."""

    def __init__(self, *, budget: PersonBudget, packets: Packets, store: RowsOf) -> None:
        self._budget, self._packets, self._store = budget, packets, store

    def of(self, participation: Participation, ask: Ask) -> tuple[Sending, float]:
        """The bytes to send, and for how many seconds more than reading takes their making may be the data's doing."""
        document = participation.document
        owner = registry.owner(document)
        if not self._packets.has(document, ask, participation):
            raise Refusal("the server asks for a part that this task does not have")
        made, paid = self._contribution(participation, ask)
        layout = owner.layout(document, ask)
        payload = next(iter(made.payloads(layout)))
        whose = self._packets.whose(participation, ask, payload)
        message = {"ask_id": ask.ask_id, "part": ask.part, **whose, "payload": payload}
        many = any(isinstance(value, list) and len(value) >= frames.WORTH_FRAMING for value in payload.values())
        body, media_type = frames.encode(message, worth=frames.WORTH_FRAMING if many else _WORTH_FRAMING)
        if media_type == frames.JSON:
            body = filled(body, message, layout)
        made_of = (participation.id, ask.part, ask.ask_id, body, media_type, paid.epsilon, paid.delta, None)
        return Sending(*made_of), paid.held

    def _contribution(self, participation: Participation, ask: Ask) -> tuple[Contributions, PacketClaim]:
        document = participation.document
        claim = self._budget.claim(participation.claim_key)
        if claim is None:
            raise Refusal("nothing is set aside for this task any more")
        attempts = [self._rows, nothing]
        for rows_of in attempts:
            paid = PacketClaim(claim)
            try:
                rows = rows_of(document)
                made = registry.owner(document).contribute(document, ask, rows, paid, randomness=system())
            except Exception as error:
                if rows_of is attempts[-1]:
                    if isinstance(error, ThebesError):
                        raise
                    raise Fault("an owner's half failed without any data") from None
                continue
            if not paid.epsilon and not paid.delta:
                raise Fault("an owner's half made a contribution without paying for it")
            return made, paid
        raise AssertionError("the last attempt returns or raises")

    def _rows(self, document: PeopleDocument) -> Rows:
        return self._store.featurize(document.featurizer, most_rows=document.most_rows)


def nothing(document: PeopleDocument) -> Rows:
    """A person without a single row, whose featurizer failed: what stands in for rows when nothing else works."""
    columns = {name: np.empty(0, dtype=object) for name in document.gives}
    return Rows(columns, np.empty(0, dtype=np.int64), 1, np.full(1, 1 + FAILURES.index("other"), dtype=np.uint8))
