"""Carrying agreed participations through: ask, compute once, store, wait, consume, send, and again after any crash.

What must stay true: the share is consumed before the first byte leaves, a retry sends the stored bytes, and nothing
that happens to the data after consent shows outside.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from thebes.ledger import BudgetExceeded, ClaimEnded, Frozen, LedgerUnavailable
from thebes.person.budget.budget import PersonBudget
from thebes.person.participation.computation import Computation, RowsOf
from thebes.person.participation.group_tokens import Memberships
from thebes.person.participation.known_helpers import stranger
from thebes.person.participation.lineage import Lineage
from thebes.person.participation.packets import Packets, takes_tokens
from thebes.person.participation.participation import (
    UNFINISHED,
    Participation,
    ParticipationState,
    Sending,
    budget_of,
    share,
)
from thebes.person.participation.schedule import Pacing, Packet, left_of_mixed, limits_of
from thebes.person.participation.seal import Seal
from thebes.person.tasks.task_store import TaskStore
from thebes.privacy.faults import Fault, Mistake, Refusal, ThebesError
from thebes.tasks.document import PeopleDocument
from thebes.tasks.protocols import Ask, Closed, TaskClosed, Wait
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import Busy, Conflict, NotFound, Unreachable

_LONGEST_PAUSE = 60.0
#: from reading the rows to the first byte, at least: longer than reading them can take, whatever they are
COMPUTING_SECONDS = 5.0
_LATER = (Unreachable, Busy, Frozen, LedgerUnavailable)
#: what is said where the coordinator knows nothing of a task that was answered: it forgot it once it was over, or was
#: brought back from a copy. No end of a participation: it may know again.
FORGOTTEN = "the coordinator no longer knows this task, so no answer comes; what it cost stays spent"

log = logging.getLogger(__name__)


class Work:
    """Moves one home's participations on. `turn` is called again and again by one thread. `pacing` holds back what
    must not be known by the company it keeps: answers with tokens, which also go over connections of their own, and,
    where `hidden`, since a proxy hides whose they are, all others too. `steady` holds back every contribution for as
    long as making it can take, so that how long it did take shows nowhere."""

    def __init__(
        self,
        *,
        task_store: TaskStore,
        budget: PersonBudget,
        seal: Seal,
        client: CoordinatorClient,
        store: RowsOf,
        listed: Callable[[str], str | None],
        helpers: Callable[[], Mapping[str, str]],
        counted: Callable[[str, object], None] = lambda task_id, contributions: None,
        memberships: Memberships | None = None,
        clock: Callable[[], float] = time.time,
        pacing: Pacing,
        hidden: bool = False,
        steady: bool = True,
    ) -> None:
        self._task_store, self._budget, self._seal, self._client = task_store, budget, seal, client
        self._counted, self._helpers = counted, helpers
        self._clock, self._steady, self._packets = clock, steady, Packets(task_store, memberships)
        self._pacing, self._hidden, self._apart = pacing, hidden, client.apart()
        self._computation = Computation(budget=budget, packets=self._packets, store=store)
        self._not_before: dict[int, float] = {}
        self._tries: dict[int, int] = {}
        self.lineage = Lineage(
            task_store=task_store, packets=self._packets, listed=listed, through=self._through, clock=clock
        )
        self._turning, self._stopping = threading.Lock(), threading.Event()

    def stop(self) -> None:
        """Hold nothing back any longer, and send nothing that is still held back: the process ends."""
        self._stopping.set()

    def recover(self) -> None:
        """After a restart: what was agreed to and not yet set aside is set aside now, or forgotten if it cannot be."""
        for participation in self._task_store.participations(
            states=[ParticipationState.SEEN, ParticipationState.DECLINED]
        ):
            if not participation.consent:
                continue
            try:
                self.reserve(participation)
                self._task_store.move(participation, ParticipationState.RESERVED)
            except BudgetExceeded:
                self._task_store.disagree(participation)
        for participation in self._task_store.participations():
            if participation.state is ParticipationState.SENT:
                self._further(participation)
            elif participation.state.final:
                self._budget.release(participation.claim_key)

    def reserve(self, participation: Participation) -> None:
        """Set the price of one participation aside; again changes nothing."""
        epsilon, delta = share(participation.document)
        self._budget.reserve(
            participation.claim_key,
            trust=budget_of(participation.document),
            epsilon=epsilon,
            delta=delta,
            requestor=participation.requestor,
            purpose=f"{participation.document.type} task {participation.task_id}",
        )

    def consent(self, participation: Participation) -> str:
        """The mark that consent to exactly this participation bears."""
        epsilon, delta = share(participation.document)
        return self._seal.consent(
            task_id=participation.task_id,
            digest=participation.document.digest,
            number=participation.number,
            price={"epsilon": str(epsilon), "delta": str(delta)},
        )

    def turn(self) -> float:
        """Do what can be done now; how many seconds until there may be more."""
        with self._turning:
            for participation in self._task_store.participations(states=UNFINISHED):
                if self._not_before.get(participation.id, 0.0) <= self._clock():
                    self._advance(participation)
            waiting = [p.id for p in self._task_store.participations(states=UNFINISHED)]
            self._not_before = {i: t for i, t in self._not_before.items() if i in waiting}
            self._pacing.forget(set(waiting))
            now = self._clock()
            return min((max(0.0, self._not_before.get(i, 0.0) - now) for i in waiting), default=_LONGEST_PAUSE)

    def watch(self) -> None:
        """Look whether tasks that were answered have ended, and keep their results."""
        for participation in self._task_store.participations(states=[ParticipationState.SENT]):
            if self._paced(participation) and not self._pacing.looks(participation.id):
                continue
            try:
                told = self._through(participation).task(participation.task_id)
            except _LATER:
                raise
            except NotFound:
                if participation.note != FORGOTTEN:
                    self._task_store.note(participation, FORGOTTEN)
                continue
            except (Mistake, Refusal):
                continue
            self._counted(participation.task_id, told.get("contributions"))
            status, result = told.get("status"), told.get("result")
            result = result if isinstance(result, dict) else None
            try:
                if status == "done":
                    self._task_store.move(participation, ParticipationState.DONE, result=result)
                elif status in ("failed", "cancelled", "expired"):
                    note = f"the task is {status}; there is no answer{left_of_mixed(participation.document)}"
                    self._task_store.move(participation, ParticipationState.CLOSED, note=note)
                elif result is not None or participation.note == FORGOTTEN:
                    self._task_store.note(participation, participation.note.replace(FORGOTTEN, ""), result)
            except Conflict:
                continue
        for participation in self.lineage.due():
            if not self._paced(participation) or self._pacing.looks(participation.id):
                self.lineage.look(participation)

    # --- one participation --------------------------------------------------------------------------------

    def _advance(self, participation: Participation) -> None:
        steps = {
            ParticipationState.RESERVED: self._asked,
            ParticipationState.ASKED: self._asked,
            ParticipationState.COMPUTED: self._ready,
            ParticipationState.SENDING: self._sent,
            ParticipationState.SENT: self._further,
        }
        current: Participation | None = participation
        fresh = False
        try:
            while current is not None and current.state in steps:
                if self._held_back(current):
                    return
                before = current.state
                current = (
                    self._sendable(current)
                    if before is ParticipationState.COMPUTED and fresh
                    else steps[before](current)
                )
                fresh = before in (ParticipationState.RESERVED, ParticipationState.ASKED)
                self._tries.pop(participation.id, None)
        except _LATER as error:
            self._later(participation, str(error))
        except Conflict:
            return  # the person withdrew meanwhile
        except Exception as error:  # whatever it is, other participations go on, and no data goes into the log
            log.error(
                "participation %s stopped at %s: %s",
                participation.id,
                participation.state,
                type(error).__name__,
                extra={"event": "participation.stopped"},
            )
            self._later(participation, f"something went wrong on this machine ({type(error).__name__}); it tries again")

    def _asked(self, participation: Participation) -> Participation | None:
        """Fetch what is wanted, compute it once, store it."""
        if participation.consent != self.consent(participation):
            return self._end(
                participation, ParticipationState.FAILED, "the task is not the one that was agreed to; nothing was sent"
            )
        early = 0.0 if participation.due_at is None else participation.due_at - self._clock()
        if early > 0 and participation.document.endless:
            self._pause(participation, early)
            return None
        ask = self._ask(participation, framed=True)
        if self._packets.passed(participation, ask):
            self._enough(participation)
            return None
        if isinstance(ask, Closed):
            return self._end(participation, ParticipationState.CLOSED, "the task closed first; nothing was sent")
        if isinstance(ask, Wait) or ask.part in self._task_store.parts_of(participation.task_id):
            self._pause(participation, min(max(ask.seconds, 0.2), _LONGEST_PAUSE) if isinstance(ask, Wait) else 1.0)
            return None
        if participation.state is ParticipationState.RESERVED:
            participation = self._task_store.move(participation, ParticipationState.ASKED)
        if (strange := stranger(participation.document, self._helpers())) is not None:
            return self._end(participation, ParticipationState.FAILED, f"{strange}; nothing was sent")
        began = time.monotonic()
        try:
            sending, longer = self._computation.of(participation, ask)
        except _LATER:
            raise
        except ThebesError as error:
            return self._end(participation, ParticipationState.FAILED, f"nothing was sent: {error}")
        kept = self._task_store.keep(participation, sending)
        # Here and not in `_pause`: other contributions, too, would leave later by what this one took.
        held = began + COMPUTING_SECONDS + longer - time.monotonic()
        if self._steady and self._stopping.wait(max(held, 0.0)):
            return None
        return kept

    def _ask(self, participation: Participation, *, framed: bool = False) -> Ask | Wait | Closed:
        """Ask what the server wants now; one that knows nothing of the task (any more) wants nothing."""
        try:
            slot, number = self._packets.slot(participation), self._packets.number(participation)
            document = participation.document
            asked = self._through(participation).ask(participation.task_id, slot, packet=number, framed=framed)
            if framed and isinstance(asked, Ask) and takes_tokens(document) and document.phases > 1:
                return self._as_its_slot(participation, document, asked, number)
            return asked
        except _LATER:
            raise
        except (Mistake, Refusal):
            return Closed()

    def _as_its_slot(
        self, participation: Participation, document: PeopleDocument, asked: Ask, packet: int
    ) -> Ask | Wait | Closed:
        """The same again under the pseudonym of the part that a stranger was asked for; no other part's is shown."""
        if not self._packets.has(document, asked, participation):
            return asked  # refused when it is to be answered
        slot = self._packets.pseudonym(participation, document, asked.part)
        again = self._through(participation).ask(participation.task_id, slot, packet=packet, framed=True)
        return Wait(1.0) if isinstance(again, Ask) and again.part != asked.part else again

    def _ready(self, participation: Participation) -> Participation | None:
        """Wait until it is due; what waited long is sent only if it is still wanted."""
        if participation.due_at is not None and participation.due_at > self._clock():
            self._pause(participation, participation.due_at - self._clock())
            return None
        if participation.document.endless:  # nothing has left: what is asked now is answered instead
            return self._task_store.drop(participation, ParticipationState.RESERVED)
        ask = self._ask(participation)
        if self._packets.passed(participation, ask):
            self._enough(participation)
            return None
        if isinstance(ask, Closed):
            return self._end(participation, ParticipationState.CLOSED, "the task closed first; nothing was sent")
        if isinstance(ask, Wait):
            self._pause(participation, min(max(ask.seconds, 0.2), _LONGEST_PAUSE))
            return None
        if ask.part != self._waiting(participation).part:
            return self._task_store.drop(participation, ParticipationState.RESERVED)
        return self._task_store.move(participation, ParticipationState.SENDING)

    def _sendable(self, participation: Participation) -> Participation | None:
        """The same straight after computing, when there is nothing to wait for."""
        if participation.due_at is not None and participation.due_at > self._clock():
            return self._ready(participation)
        return self._task_store.move(participation, ParticipationState.SENDING)

    def _sent(self, participation: Participation) -> Participation | None:
        """Consume, then send the stored bytes. Whatever comes back, what was consumed stays so."""
        if (strange := stranger(participation.document, self._helpers())) is not None:
            return self._end(participation, ParticipationState.FAILED, f"{strange}; nothing more was sent")
        sending = self._waiting(participation)
        claim = self._budget.claim(participation.claim_key)
        if claim is None:
            return self._end(
                participation, ParticipationState.FAILED, "its claim is not in the ledger; nothing was sent"
            )
        try:
            claim.consume(epsilon=sending.epsilon or None, delta=sending.delta, part=sending.part)
        except ClaimEnded as error:
            return self._end(participation, ParticipationState.FAILED, f"nothing was sent: {error}")
        try:
            client = self._through(participation)
            receipt = client.submit(participation.task_id, sending.body, media_type=sending.media_type)
        except _LATER:
            raise
        except TaskClosed:
            if self._task_store.receipts(participation):
                self._enough(participation)
                return None
            note = "the task closed while it was on its way; whether it was counted is not known, its cost stays spent"
            return self._end(participation, ParticipationState.CLOSED, note, result=self._result(participation))
        except (Mistake, Refusal) as error:
            return self._end(participation, ParticipationState.REFUSED, f"the server refused it: {error}")
        return self._task_store.received(participation, sending, receipt)

    def _further(self, participation: Participation) -> Participation | None:
        """After a receipt: a further packet if the phase has one, else give back what was not needed."""
        if self._packets.further(participation):
            return self._task_store.move(participation, ParticipationState.RESERVED)
        self._budget.release(participation.claim_key)
        return None

    def _enough(self, participation: Participation) -> None:
        """The phase closed before its last packet: those that were sent count, the share of the rest goes back
        unless it had begun to leave."""
        note = "the phase closed before every packet was sent; those that were sent count"
        self._task_store.drop(participation, ParticipationState.SENT, note=note)
        self._budget.release(participation.claim_key)

    def _result(self, participation: Participation) -> dict[str, Any] | None:
        result = self._through(participation).task(participation.task_id).get("result")
        return result if isinstance(result, dict) else None

    def _end(
        self, participation: Participation, state: ParticipationState, note: str, result: dict[str, Any] | None = None
    ) -> Participation:
        ended = self._task_store.drop(participation, state, note=note, **({} if result is None else {"result": result}))
        self._budget.release(participation.claim_key)
        return ended

    def _waiting(self, participation: Participation) -> Sending:
        for sending in self._task_store.sendings(participation):
            if sending.receipt is None:
                return sending
        raise Fault("the bytes that were to be sent are gone")

    def _pause(self, participation: Participation, seconds: float) -> None:
        self._not_before[participation.id] = self._clock() + seconds

    def _later(self, participation: Participation, note: str) -> None:
        tries = self._tries.get(participation.id, 0)
        self._tries[participation.id] = tries + 1
        seconds = min(0.25 * 2 ** min(tries, 10), _LONGEST_PAUSE)
        if self._paced(participation):
            seconds = self._pacing.again(self._numbered(participation), seconds, **limits_of(participation.document))
        self._pause(participation, seconds)
        self._task_store.note(participation, note)

    def withdraw(self, participation: Participation) -> int:
        """Take back what was sent of a participation; how many packets that were."""
        receipts = self._task_store.receipts(participation)
        for receipt in receipts:  # also where a further packet is still to go
            self._through(participation).withdraw(participation.task_id, receipt)
        return len(receipts)

    def _paced(self, participation: Participation) -> bool:
        return self._hidden or takes_tokens(participation.document)

    def _through(self, participation: Participation) -> CoordinatorClient:
        return self._apart if takes_tokens(participation.document) else self._client

    def _held_back(self, participation: Participation) -> bool:
        """Return whether a participation's next packet has a later moment of its own."""
        if not self._paced(participation) or not participation.state.unfinished:
            return False
        packet, planned = self._numbered(participation), participation.due_at
        seconds = self._pacing.wait(packet, planned=planned, **limits_of(participation.document))
        if seconds > 0:
            self._pause(participation, seconds)
        return seconds > 0

    def _numbered(self, participation: Participation) -> Packet:
        return participation.id, self._packets.number(participation)
