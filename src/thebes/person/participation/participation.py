"""One person's part in one task, from first sight to the end, as a state machine.

What must stay true: bytes that may have left are never computed again, and their share is consumed before they leave.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

from thebes.privacy import exact
from thebes.privacy.faults import Refusal
from thebes.privacy.figures import figure
from thebes.tasks.document import PeopleDocument
from thebes.wire.refusals import NotFound


class ParticipationState(StrEnum):
    """The state of a participation. `AFTER` lists what may follow; docs/person.md draws it."""

    SEEN = "seen"  #: shown to the person; nothing decided, nothing set aside. -> RESERVED, DECLINED
    RESERVED = "reserved"  #: agreed to, the price set aside. -> ASKED, SENT (no further packet wanted), CLOSED, ...
    ASKED = "asked"  #: the server said what it wants. -> COMPUTED, SENT, CLOSED, WITHDRAWN, FAILED
    COMPUTED = "computed"  #: the bytes are stored; none has left. -> SENDING, RESERVED (its phase passed), SENT, ...
    SENDING = "sending"  #: the share is consumed, bytes may have left; the same go again. -> SENT, CLOSED, REFUSED
    SENT = "sent"  #: the server gave a receipt. -> RESERVED (a further packet), DONE, CLOSED, WITHDRAWN
    DONE = "done"  #: the task has its answer, kept here to be shown. Final
    DECLINED = "declined"  #: the person said no. -> RESERVED (changed their mind)
    REFUSED = "refused"  #: the server refused what was sent; its share stays consumed. Final
    CLOSED = "closed"  #: the task ended first; what had not begun to leave went back. Final
    WITHDRAWN = "withdrawn"  #: taken back by the person; what had been sent stays charged. Final
    FAILED = "failed"  #: this machine could not go on; what had not begun to leave went back. Final

    @property
    def unfinished(self) -> bool:
        """True where something is still on its way to the server."""
        return self in (
            ParticipationState.RESERVED,
            ParticipationState.ASKED,
            ParticipationState.COMPUTED,
            ParticipationState.SENDING,
        )

    @property
    def final(self) -> bool:
        return not AFTER[self]


UNFINISHED = tuple(state for state in ParticipationState if state.unfinished)

AFTER: dict[ParticipationState, frozenset[ParticipationState]] = {
    ParticipationState.SEEN: frozenset({ParticipationState.RESERVED, ParticipationState.DECLINED}),
    ParticipationState.RESERVED: frozenset(
        {
            ParticipationState.ASKED,
            ParticipationState.SENT,
            ParticipationState.CLOSED,
            ParticipationState.WITHDRAWN,
            ParticipationState.FAILED,
        }
    ),
    ParticipationState.ASKED: frozenset(
        {
            ParticipationState.COMPUTED,
            ParticipationState.SENT,
            ParticipationState.CLOSED,
            ParticipationState.WITHDRAWN,
            ParticipationState.FAILED,
        }
    ),
    ParticipationState.COMPUTED: frozenset(
        {
            ParticipationState.SENDING,
            ParticipationState.RESERVED,
            ParticipationState.SENT,
            ParticipationState.CLOSED,
            ParticipationState.WITHDRAWN,
            ParticipationState.FAILED,
        }
    ),
    ParticipationState.SENDING: frozenset(
        {ParticipationState.SENT, ParticipationState.CLOSED, ParticipationState.REFUSED, ParticipationState.FAILED}
    ),
    ParticipationState.SENT: frozenset(
        {ParticipationState.RESERVED, ParticipationState.DONE, ParticipationState.CLOSED, ParticipationState.WITHDRAWN}
    ),
    ParticipationState.DECLINED: frozenset({ParticipationState.RESERVED}),
    **{
        final: frozenset()
        for final in (
            ParticipationState.DONE,
            ParticipationState.REFUSED,
            ParticipationState.CLOSED,
            ParticipationState.WITHDRAWN,
            ParticipationState.FAILED,
        )
    },
}


@dataclass(frozen=True, slots=True)
class Participation:
    """A row of the task store. `number` counts the participations in one task from 0; `slot` is the pseudonym used
    there."""

    id: int
    task_id: str
    number: int
    digest: str
    document: PeopleDocument
    requestor: str
    slot: str
    state: ParticipationState
    consent: str  #: the owner's seal over task, digest, number and price; empty before consent
    rule: int | None  #: the standing rule that agreed, None for the person
    accepted_at: float | None  #: seconds since 1970
    due_at: float | None  #: not sent before
    result: dict[str, Any] | None
    note: str  #: what the person is told about the state

    @property
    def claim_key(self) -> str:
        """Under which its claim is found in the ledger."""
        return f"task {self.task_id} participation {self.number}"

    @property
    def trusted(self) -> bool:
        """True where somebody else holds values, or shares of them, and promises to use them once."""
        return is_trusted(self.document)

    @property
    def returnable(self) -> bool:
        """True where what was sent can be taken back for as long as the server has not used it."""
        return not self.document.endless

    @property
    def times(self) -> int:
        """The number of times that one person may take part in its task."""
        return self.document.participations

    def as_json(self) -> dict[str, Any]:
        epsilon, delta = share(self.document)
        return {
            "task_id": self.task_id,
            "number": self.number,
            "type": self.document.type,
            "name": self.document.name,
            "digest": self.digest,
            "requestor": self.requestor,
            "state": str(self.state),
            "price": {"epsilon": float(epsilon), "delta": float(delta), "unit": _unit(self.document)},
            "trust": trust_of(self.document),
            "rule": self.rule,
            "accepted_at": self.accepted_at,
            "due_at": self.due_at,
            "result": self.result,
            "note": self.note,
            "returnable": self.returnable,
            "times": self.times,
        }


@dataclass(frozen=True, slots=True)
class Sending:
    """One part of a participation: what was asked, and the exact bytes that answer it until a receipt is there."""

    participation: int
    part: str
    ask_id: str
    body: bytes  #: empty once the receipt is there
    media_type: str
    epsilon: Decimal
    delta: Decimal
    receipt: str | None


def come_to(mine: Sequence[Mapping[str, Any]], state: str) -> bool:
    """Return whether the latest of somebody's participations in a task, as JSON, has reached `state` or an end."""
    if not mine:
        raise NotFound("you take no part in this task")
    return ParticipationState(mine[-1]["state"]) == state or ParticipationState(mine[-1]["state"]).final


def still(mine: Sequence[Mapping[str, Any]], seconds: float) -> Refusal:
    """Make the refusal that says that a participation has not come to its state in time."""
    why = f": {mine[-1]['note']}" if mine[-1]["note"] else ""
    return Refusal(f"after {figure(seconds)} seconds your part in this task is still {mine[-1]['state']}{why}")


def _unit(document: PeopleDocument) -> str:
    return str(document.unit)


def is_trusted(document: PeopleDocument) -> bool:
    """Return whether somebody else has to keep their word: one server, or at least one of two. Should all break it,
    they know the value."""
    return document.server != "untrusted"


def budget_of(document: PeopleDocument) -> str:
    """Name the budget that a task draws on."""
    return "local" if document.server == "untrusted" else document.server


def trust_of(document: PeopleDocument) -> str:
    """Name whom one has to trust, as it stands on the certificate."""
    return {"trusted": "server", "split": "split"}.get(document.server, "none")


def share(document: PeopleDocument) -> tuple[Decimal, Decimal]:
    """Return the price of one participation: the document's price over the participations it may take, rounded down, so
    that all of them together stay within the price."""
    times = document.participations
    epsilon, delta = exact.epsilon(document.epsilon), exact.delta(document.delta)
    if times == 1:
        return epsilon, delta
    from decimal import ROUND_FLOOR

    return (
        (epsilon / times).quantize(exact.EPSILON_STEP, ROUND_FLOOR),
        (delta / times).quantize(exact.DELTA_STEP, ROUND_FLOOR),
    )


def canonical(document: PeopleDocument) -> str:
    return json.dumps(document.as_json(), ensure_ascii=False, sort_keys=True)
