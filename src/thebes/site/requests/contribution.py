"""The making of the answer to an ask that a rule allows: what it costs, then the rows, then the noise.

What must stay true: nothing is read for an ask that no rule allows; what an answer costs is set aside before its rows
are looked at and charged before noise is drawn; rows are looked at for one question in each part of a task, and an
answer that was released before is given for nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from thebes.curator.cache.answer import Answered
from thebes.curator.cache.planner import Planner
from thebes.curator.cache.requirement import Wanted
from thebes.curator.pipelines.outcome import NotRun
from thebes.curator.questions.plans import QuestionPlan
from thebes.curator.streams.stream import Stream
from thebes.data.table import Table
from thebes.ledger import BudgetExceeded, ClaimEnded
from thebes.privacy.faults import Fault, Refusal, ThebesError
from thebes.privacy.randomness import Randomness, system
from thebes.sharing import StrangeHelper
from thebes.site.budget.budget import SiteBudget
from thebes.site.dataset import DataSet
from thebes.site.requests.gate import as_declared, without_noise
from thebes.site.requests.messages import Declined, declined
from thebes.site.requests.planned_question import Planning, TaskAccount
from thebes.site.requests.request import Allowed, Charge
from thebes.site.requests.response_store import ResponseStore, SiteRequest
from thebes.site.streams import covered
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.site_protocols import Attempting, Planned
from thebes.wire import frames
from thebes.wire.link import Code, Word
from thebes.wire.refused_sites import BEYOND

_SOURCE = "mechanism"  #: an answer that rows were read for
_UNREACHABLE = "the site cannot reach the rows of this data set just now; its steward finds more in its log"

log = logging.getLogger("thebes.site")


@dataclass(frozen=True, slots=True)
class Released:
    """The answer that a planner gives to an ask that is allowed."""

    allowed: Allowed
    answered: Answered
    planning: Planning[TaskAccount]


class Contributing:
    """One site's. `tables` opens the rows of a data set for a task, `grown` those of some blocks of a growing one, of
    which `streams` knows the blocks; `attempting` gives the right to make attempts over a stream for a task; `caches`
    has the planner of a data set whose released answers are used again."""

    def __init__(
        self,
        *,
        outbox: ResponseStore,
        budget: SiteBudget,
        tables: Callable[[DataSet, str], Table],
        streams: Callable[[DataSet], Stream],
        grown: Callable[[DataSet, str, Sequence[str]], Table],
        attempting: Callable[[Stream, SiteRequest], Attempting],
        caches: Callable[[DataSet], Planner | None],
        randomness: Callable[[], Randomness] = system,
    ) -> None:
        self._outbox, self._budget, self._randomness = outbox, budget, randomness
        self._tables, self._streams, self._grown = tables, streams, grown
        self._attempting, self._caches = attempting, caches

    def released(self, allowed: Allowed) -> Released | None:
        """Return what was released before to this, and costs nothing; no row is read. None where there is nothing."""
        as_declared(allowed.question, allowed.document, allowed.dataset)
        found = self._planner(allowed)
        if found is None:
            return None
        planner, (plan, wanted, told) = found
        assert wanted is not None  # noqa: S101  # an ask says it
        planning = self._planning(allowed, planner)
        answered = planning.again(plan, wanted, question=told)
        return None if answered is None else Released(allowed, answered, planning)

    def made(self, allowed: Allowed, released: Released | None = None) -> tuple[dict[str, Any], Charge]:
        """The answer, and what was paid for it."""
        if released is not None:
            return self._told(allowed, released)
        as_declared(allowed.question, allowed.document, allowed.dataset)
        if allowed.document.in_attempts:
            return self._attempted(allowed)
        found = self._planner(allowed)
        if found is not None:
            return self._planned(allowed, *found)
        return self._computed(allowed)

    # --- from rows ------------------------------------------------------------------------------------------

    def _computed(self, allowed: Allowed) -> tuple[dict[str, Any], Charge]:
        """The owner's half over the rows, with a claim that it consumes before it draws noise."""
        document, ask, dataset, owner = allowed.document, allowed.ask, allowed.dataset, allowed.owner
        blocks: list[str] = []
        if dataset.blocks is None:
            table = self._reached(allowed)  # rows that cannot be reached cost nothing
            charge = self._set_aside(allowed)
        else:
            charge, blocks = self._set_aside_blocks(allowed)
            table = self._reached(allowed, blocks)
        self._look(allowed)
        layout = owner.layout(document, ask, dataset.schema)
        try:
            made = owner.contribute(document, ask, table, charge, randomness=self._randomness())
        except (BudgetExceeded, ClaimEnded) as refused:
            raise declined(Code.BUDGET, refused) from None
        except StrangeHelper as refused:
            raise Declined(Code.DOCUMENT, str(refused)) from None
        if charge.claim is not None and not charge.paid:
            raise Fault("an owner's half answered without paying")
        message = _contribution(allowed, carried(layout, made), charge)
        if dataset.blocks is not None:
            message["covers"] = covered(self._streams(dataset), blocks)
        return message, charge

    def _set_aside(self, allowed: Allowed) -> Charge:
        """The claim on the block of a data set; of two that are joined one claim on both, made or refused as one."""
        document, dataset, part = allowed.document, allowed.dataset, allowed.ask.part
        if without_noise(document):
            return Charge(None, None, part)
        try:
            for each in dataset.paying:
                self._budget.block(each)
        except Refusal as refused:
            raise declined(Code.DATASET, refused) from None
        try:
            price = allowed.matter.price(dataset, dataset.budget.filter)
            return Charge(self._budget.reserve(allowed.request, document, dataset, price, allowed.rules), price, part)
        except Refusal as refused:
            raise declined(Code.BUDGET, refused) from None

    def _set_aside_blocks(self, allowed: Allowed) -> tuple[Charge, list[str]]:
        """The claim on every block of a growing data set that can pay, and those blocks: in all phases the same."""
        document, dataset, part = allowed.document, allowed.dataset, allowed.ask.part
        stream = self._stream(dataset)
        try:
            context = allowed.context(stream)
            if without_noise(document):
                there = stream.blocks(context=context)
                return Charge(None, None, part), [block.name for block in there if block.state != "dropped"]
            price = allowed.matter.price(dataset, dataset.budget.filter)
            claim, blocks = self._budget.reserve_blocks(allowed.request, document, stream, price, allowed.rule)
        except Refusal as refused:
            raise declined(Code.BUDGET, refused) from None
        return Charge(claim, price, part), blocks

    def _stream(self, dataset: DataSet) -> Stream:
        try:
            return self._streams(dataset)
        except Refusal as refused:
            raise declined(Code.DATASET, refused) from None

    def _reached(self, allowed: Allowed, blocks: Sequence[str] = ()) -> Table:
        """The rows; of a growing data set those of these blocks."""
        dataset, task = allowed.dataset, allowed.request.task
        try:
            return self._tables(dataset, task) if dataset.blocks is None else self._grown(dataset, task, blocks)
        except ThebesError as error:
            log.error("the rows of %s cannot be reached: %s", dataset.name, error, extra={"event": "rows.away"})
            raise Declined(Code.DATASET, _UNREACHABLE) from None

    def _look(self, allowed: Allowed) -> None:
        """Rows are about to be read for this question, and for no other in this part of the task."""
        asked = allowed.question.digest
        if self._outbox.first(allowed.request.task, allowed.ask.part, asked) != asked:
            raise Declined(Code.DOCUMENT, "this part of the task was asked before, with another question")

    # --- by a data set's planner ----------------------------------------------------------------------------

    def _planner(self, allowed: Allowed) -> tuple[Planner, tuple[QuestionPlan, Wanted | None, str | None]] | None:
        """Return who has the released answers of the data set, and what is asked as they understand it; None where
        answers are not used again."""
        owner = allowed.owner
        if not isinstance(owner, Planned) or without_noise(allowed.document):
            return None
        planner = self._caches(allowed.dataset)
        planned = None if planner is None else owner.planned(allowed.document, allowed.ask, allowed.dataset.schema)
        return None if planner is None or planned is None else (planner, planned)

    def _planned(
        self, allowed: Allowed, planner: Planner, planned: tuple[QuestionPlan, Wanted | None, str | None]
    ) -> tuple[dict[str, Any], Charge]:
        """The answer as a data set's planner has it: released before, or bought now."""
        planning = self._planning(allowed, planner)
        plan, wanted, told = planned
        assert wanted is not None  # noqa: S101  # an ask says it
        payer = f"{allowed.request.task} {allowed.ask.part}"
        try:
            answered = planning.answer(plan, wanted, payer=payer, question=told, randomness=self._randomness())
        except Refusal as refused:
            raise declined(Code.BUDGET, refused) from None
        return self._told(allowed, Released(allowed, answered, planning))

    def _planning(self, allowed: Allowed, planner: Planner) -> Planning[TaskAccount]:
        request, dataset, stream = allowed.request, allowed.dataset, None
        try:
            if dataset.blocks is None:
                self._budget.block(dataset)
            else:
                stream = self._streams(dataset)
        except Refusal as refused:
            raise declined(Code.DATASET, refused) from None
        return Planning(
            planner,
            dataset,
            TaskAccount(self._budget, request, allowed.document, dataset, stream, allowed.rule),
            self._budget.ledger,
            stream,
            lambda blocks: self._reached(allowed, blocks),
            lambda: self._look(allowed),
            allowed.ask.part,
            context=None if stream is None else allowed.context(stream),
        )

    def _told(self, allowed: Allowed, released: Released) -> tuple[dict[str, Any], Charge]:
        """Return what a planner answered, as the contribution that leaves."""
        answered, planning, ask = released.answered, released.planning, allowed.ask
        owner = allowed.owner
        assert isinstance(owner, Planned)  # noqa: S101  # else no planner was asked
        paid = answered.cost if planning.afresh else planning.account.charged()
        charge = Charge(None, None, ask.part, epsilon=float(paid[0]), delta=float(paid[1]), paid=True)
        layout = owner.layout(allowed.document, ask, allowed.dataset.schema)
        payload = carried(layout, owner.told(allowed.document, ask, answered))
        message = _contribution(allowed, payload, charge, source=str(answered.source))
        if planning.stream is not None:
            message["covers"] = covered(planning.stream, planning.view)
        return message, charge

    # --- in attempts ----------------------------------------------------------------------------------------

    def _attempted(self, allowed: Allowed) -> tuple[dict[str, Any], Charge]:
        """Make attempts over a growing data set, each with a claim of its own; return what came of them, and what its
        blocks paid."""
        document, ask, dataset = allowed.document, allowed.ask, allowed.dataset
        if dataset.blocks is None:
            raise Declined(Code.SCHEMA, "dataset does not grow: a pipeline works on blocks of rows that keep coming in")
        stream, owner = self._stream(dataset), allowed.attempts
        allowed.context(stream)
        try:
            right = self._attempting(stream, allowed.request)
            made = owner.attempt(document, ask, right)
        except NotRun as refused:
            raise Declined(Code.FAILED, str(refused)) from None
        except Refusal as refused:  # it says what the last of several blocks said
            raise Declined(Code.BUDGET, BEYOND, noted=str(refused)) from None
        paid = owner.paid(made)
        charge = Charge(None, None, ask.part, epsilon=float(paid.epsilon), delta=float(paid.delta), paid=True)
        return _contribution(allowed, carried(owner.layout(document, ask, dataset.schema), made), charge), charge


def _contribution(
    allowed: Allowed, payload: dict[str, Any], charge: Charge, *, source: str = _SOURCE
) -> dict[str, Any]:
    return {
        "kind": Word.CONTRIBUTION,
        "task": allowed.request.task,
        "ask_id": allowed.ask.ask_id,
        "part": allowed.ask.part,
        "payload": payload,
        "cost": {"epsilon": charge.epsilon, "delta": charge.delta},
        "source": source,
    }


def carried(layout: Layout, made: Contributions) -> dict[str, Any]:
    """A contribution as the message holds it: long fields as arrays, which say what the JSON of them would."""
    payload: dict[str, Any] = {}
    for name, slot in layout.items():
        values = np.asarray(made.fields[name])[0]
        long = slot.length >= frames.SHORTEST and slot.kind != "text"
        if long and slot.packed:
            payload[name] = np.frombuffer(np.asarray(values, dtype="<f4").tobytes(), dtype="|u1")
        elif long and not np.isnan(np.asarray(values, dtype=np.float64)).any():
            payload[name] = np.asarray(values).astype("<i8" if slot.kind == "integer" else "<f8")
        else:
            payload |= next(iter(made.payloads({name: slot})))
    return payload
