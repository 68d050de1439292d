"""Decisions of a person about a task: yes, no, or take it back; said now, or in advance by standing rules.

What must stay true: every way in passes the same `accept`; nothing is agreed to that was not verified and paid for.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable

from thebes.person.budget.budget import PersonBudget
from thebes.person.participation.group_tokens import Memberships
from thebes.person.participation.known_helpers import stranger
from thebes.person.participation.packets import takes_tokens
from thebes.person.participation.participation import Participation, ParticipationState, share
from thebes.person.participation.report import ParticipationReport
from thebes.person.participation.schedule import delay_of
from thebes.person.participation.worker import COMPUTING_SECONDS, Work
from thebes.person.settings import PersonSettings
from thebes.person.tasks.own_data import OwnData
from thebes.person.tasks.rules import AgreementRule, in_force
from thebes.person.tasks.task_feed import NotListed, OfferedTask, TaskFeed
from thebes.person.tasks.task_store import TaskStore
from thebes.privacy.faults import ThebesError
from thebes.tasks.document import PeopleDocument
from thebes.tasks.protocols import TaskClosed
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import Conflict, NotAllowed, NotFound

_OPEN = ("open", "running")
MEANWHILE = "it has left meanwhile, so what it cost is spent; nothing was taken back, look again where it stands"
_BEFORE_IT_LEFT = (ParticipationState.RESERVED, ParticipationState.ASKED, ParticipationState.COMPUTED)
_LEFT = (ParticipationState.SENDING, ParticipationState.SENT, ParticipationState.DONE, ParticipationState.REFUSED)
KEPT = "what you sent was mixed in at once and cannot be taken back; what it cost stays spent"

log = logging.getLogger(__name__)


class NothingToSend(Conflict):
    """This store lacks a value that the task cannot do without; nothing was agreed to and nothing is sent."""


class Decisions:
    """The one place where a participation begins or is taken back. Safe to share between threads."""

    def __init__(
        self,
        *,
        feed: TaskFeed,
        task_store: TaskStore,
        budget: PersonBudget,
        work: Work,
        own_data: OwnData,
        report: ParticipationReport,
        client: CoordinatorClient,
        memberships: Memberships,
        settings: Callable[[], PersonSettings],
        clock: Callable[[], float],
        delay: bool,
    ) -> None:
        self._feed, self._task_store, self._budget, self._work = feed, task_store, budget, work
        self._own_data, self._report, self._settings = own_data, report, settings
        self._memberships, self._clock, self._delay = memberships, clock, delay
        self._safe = client.private
        self._deciding = threading.RLock()

    def accept(self, task_id: str, *, rule: int | None = None) -> Participation:
        """Agree to one participation: sets the price aside, then asks, computes and sends in the background."""
        offer = self._feed.offer(task_id)
        if offer.status not in _OPEN:
            raise TaskClosed("this task is closed; nothing was agreed to")
        with self._deciding:
            undecided = self._may_take_part(offer)
            if rule is None and not self._own_data.able(offer.document):
                raise NothingToSend("your store has no value that fits what this task reads, so you cannot agree to it")
            made = undecided or self._task_store.begin(offer.task_id, offer.document, offer.requestor, _pseudonym)
            self._task_store.agree(made, self._work.consent(made), rule=rule, now=self._clock(), due=self._due(offer))
            try:
                self._work.reserve(made)
            except ThebesError:
                self._task_store.disagree(made)
                raise
            return self._task_store.move(self._task_store.participation(made.id), ParticipationState.RESERVED)

    def decline(self, task_id: str) -> Participation:
        """Say no; the task is not offered by rules again. One may still change one's mind."""
        offer = self._feed.offer(task_id)
        with self._deciding:
            undecided = self._undecided(offer.task_id)
            if undecided is None and self._task_store.participations(task_id=task_id):
                raise Conflict("you took part in this task already; withdraw takes a contribution back")
            if undecided is None:
                undecided = self._task_store.begin(
                    offer.task_id, offer.document, offer.requestor, _pseudonym, ParticipationState.DECLINED
                )
            elif undecided.state is ParticipationState.SEEN:
                undecided = self._task_store.move(undecided, ParticipationState.DECLINED)
            return undecided

    def withdraw(self, task_id: str, *, seen: str | None = None, packets_sent: int | None = None) -> Participation:
        """Take the latest contribution back before its phase closes. What was sent stays charged. Several packets go
        back at once, and the note says what that shows: spread over minutes the few of them would be known as well,
        and the phase could close in between. Where more has left than somebody saw who said how much, it is left as it
        is: they wanted back what cost nothing yet."""
        mine = self._task_store.participations(task_id=task_id)
        if not mine:
            raise NotFound("you take no part in this task")
        latest = mine[-1]
        unseen = packets_sent is not None and len(self._task_store.receipts(latest)) > packets_sent
        if unseen or (seen in _BEFORE_IT_LEFT and latest.state in _LEFT):
            raise Conflict(MEANWHILE)
        if latest.state is ParticipationState.SENDING:
            raise Conflict("it is being sent just now; try again when it has arrived")
        before_more = latest.state in _BEFORE_IT_LEFT
        if not before_more and latest.state is not ParticipationState.SENT:
            raise Conflict(f"there is nothing to take back: your part in this task is {latest.state}")
        if latest.state is ParticipationState.SENT and not latest.returnable:
            raise Conflict(KEPT)
        packets = self._work.withdraw(latest)
        note = "the server destroyed it; what it cost stays spent" if packets else "nothing had been sent"
        if packets > 1:
            note += f". That its {packets} packets went back at once showed the server that they belong together"
        if not before_more:
            return self._task_store.move(latest, ParticipationState.WITHDRAWN, note=note)
        gone = self._task_store.drop(latest, ParticipationState.WITHDRAWN, note=note)
        self._budget.release(latest.claim_key)
        return gone

    def apply_rules(self) -> None:
        """Agree to what the rules cover."""
        rules = list(in_force(self._task_store.rules()).items())
        if not rules:
            return
        mine = self._task_store.participations()
        # What was begun and not agreed to, because this process was killed or its disk was full, is begun again.
        mine = [p for p in mine if p.state is not ParticipationState.SEEN]
        known = {p.task_id for p in mine}
        for offer in self._feed.offers():
            if offer.task_id not in known and offer.status in _OPEN:
                self._apply(rules, offer, mine)

    def _apply(self, rules: list[tuple[int, AgreementRule]], offer: OfferedTask, mine: list[Participation]) -> None:
        for number, rule in rules:
            if (
                not rule.covers(offer)
                or not self._unasked(offer)
                or not self._task_store.tossed(number, offer.task_id, rule.toss)
            ):
                continue
            if rule.affords(offer, [p for p in mine if p.rule == number], self._clock()):
                try:
                    self.accept(offer.task_id, rule=number)
                except ThebesError as error:  # no budget, for example: the person may still decide
                    log.info(
                        "a standing rule could not agree to task %s: %s",
                        offer.task_id,
                        type(error).__name__,
                        extra={"event": "rule.not-agreed"},
                    )
                else:
                    mine.extend(self._task_store.participations(task_id=offer.task_id))
                return

    def _unasked(self, offer: OfferedTask) -> bool:
        """Return whether a task takes no more than what the person wants to be asked about twice; rules cannot ask."""
        allowed = self._settings().task
        return allowed is None or allowed.covers(*share(offer.document))

    # --- inside ---------------------------------------------------------------------------------

    def _may_take_part(self, offer: OfferedTask) -> Participation | None:
        """Refuse, or give the participation that is still undecided."""
        if offer.trusted and not self._safe:
            raise NotAllowed(
                "this task sends values as they are, and the coordinator is reached over plain http; "
                "use https, or its onion service"
            )
        if takes_tokens(offer.document):
            self._memberships.require(offer.document)
        self._know_helper(offer.document)
        mine = self._task_store.participations(task_id=offer.task_id)
        if any(p.digest != offer.digest for p in mine):
            raise NotListed("this task had another document before; nothing was agreed to")
        if any(p.state.unfinished for p in mine):
            raise Conflict("your earlier participation in this task is not finished")
        if self._report.turns_left(offer.document, mine) == 0:
            times = offer.document.participations
            raise Conflict(
                f"this task takes {times} participation{'s' if times > 1 else ''} of one person, and had yours"
            )
        return self._undecided(offer.task_id)

    def _know_helper(self, document: PeopleDocument) -> None:
        """Refuse a task whose helper this person did not confirm: its coordinator could have invented one."""
        strange = stranger(document, self._settings().helpers)
        if strange is not None:
            raise NotAllowed(f"{strange}; nothing was agreed to")

    def _undecided(self, task_id: str) -> Participation | None:
        found = self._task_store.participations(
            task_id=task_id, states=[ParticipationState.SEEN, ParticipationState.DECLINED]
        )
        return found[-1] if found else None

    def _due(self, offer: OfferedTask) -> float:
        """Choose when to send: decided at consent, before any data is touched, so that it tells nothing about them."""
        now = self._clock()
        if not self._delay:
            return now
        said = delay_of(offer.document)
        longest = self._settings().delay_seconds if said is None else said
        due = now + COMPUTING_SECONDS + secrets.randbelow(1_000_001) / 1_000_000 * longest
        deadline = offer.document.deadline
        return due if deadline is None else min(due, max(now, deadline.timestamp() - 30))


def _pseudonym() -> str:
    """128 random bits under which one task knows this person; never used for another task."""
    return secrets.token_hex(16)
