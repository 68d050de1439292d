"""The life of an ask at a site: who asks, may they, what does it cost, then the rows, then the answer.

What must stay true: everything is refused that no rule allows; the cost is charged before noise is drawn, the answer
is on disk before it is sent, and the same ask again gets the same answer for nothing; whatever fails says so in words
that hold nothing of the rows.
"""

from __future__ import annotations

import hashlib
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from thebes import __version__
from thebes.curator.cache.answered import Answered
from thebes.curator.cache.planner import Planner
from thebes.curator.cache.wanted import Wanted
from thebes.curator.pipelines.outcome import NotRun
from thebes.curator.plans import Plan
from thebes.curator.streams import Stream
from thebes.data.table import Table
from thebes.ledger import BudgetExceeded, ClaimEnded
from thebes.privacy.faults import Fault, Mistake, Refusal, ThebesError
from thebes.privacy.randomness import Randomness, system
from thebes.site.audit import Audit
from thebes.site.dataset import DataSet, DataSets
from thebes.site.gate import Gate, as_declared, without_noise
from thebes.site.outbox import CLOSED, Answer, Outbox, Request
from thebes.site.planning import Planning, TaskAccount
from thebes.site.policy import Policy, Rule
from thebes.site.purse import Purse
from thebes.site.questions import Declined, Question, read, task_of, who_asks
from thebes.site.quoting import quoted
from thebes.site.streams import covered
from thebes.site.turn import Charge, Matter, Turn
from thebes.tasks import registry
from thebes.tasks.contributions import Contributions, Layout
from thebes.tasks.shape import Attempting, Planned
from thebes.tasks.sites import SiteDocument
from thebes.wire import frames
from thebes.wire.link import MOST_BYTES, Code, Word

STEADY_SECONDS = 1.0  #: a steady answer leaves at a whole multiple of this after its ask came
SOURCE = "mechanism"  #: an answer that rows were read for
_SECONDS_STEP = 0.01
_LONGEST_REASON = 300
_MOST_MATTERS = 32
_FAILED = "the site could not compute this; its steward finds more in its log"
_UNREACHABLE = "the site cannot reach the rows of this data set just now; its steward finds more in its log"
_RESTORED = (
    "this site was restored from a copy since it was first asked this; it only says again what it had answered then, "
    "so ask as a new task"
)

log = logging.getLogger("thebes.site")


@dataclass(frozen=True, slots=True)
class _Released:
    """What a planner gives as the answer to an ask."""

    answered: Answered
    planning: Planning[TaskAccount]


class Desk:
    """One site's. `name` is the site's own; `tables` opens the rows of a data set for a task, `grown` those of some
    blocks of a growing one, of which `streams` knows the blocks; `attempting` gives the right to make attempts over a
    stream for a task; `caches` has the planner of a data set whose released answers are used again, `looking` one
    that waits for no answer; `pause` waits for some seconds."""

    def __init__(
        self,
        *,
        name: str,
        datasets: DataSets,
        policy: Callable[[], Policy],
        outbox: Outbox,
        audit: Audit,
        purse: Purse,
        tables: Callable[[DataSet, str], Table],
        streams: Callable[[DataSet], Stream] | None = None,
        grown: Callable[[DataSet, str, Sequence[str]], Table] | None = None,
        attempting: Callable[[Stream, Request], Attempting] | None = None,
        caches: Callable[[DataSet], Planner | None] = lambda _: None,
        looking: Callable[[DataSet], Planner | None] | None = None,
        randomness: Callable[[], Randomness] = system,
        moment: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = name
        self._gate, self._datasets = Gate(name, datasets, policy), datasets
        self._outbox, self._audit, self._purse = outbox, audit, purse
        self._tables, self._randomness, self._moment, self._pause = tables, randomness, moment, pause
        self._streams, self._blocks_of, self._attempting, self._caches = streams, grown, attempting, caches
        self._looking = looking or caches
        self._matters: dict[str, Matter] = {}
        self._noting = threading.Lock()

    def recover(self) -> None:
        """After a restart: give back what tasks still hold that ended meanwhile. Of a home that came back from a copy
        nothing is given back, and it goes on saying what it said, until its owner thaws it."""
        if self._purse.ledger.frozen:
            return
        now = datetime.now(UTC)
        for task in self._purse.holding():
            request = self._outbox.request(task)
            if request is not None and request.state == CLOSED:
                self._purse.release(request)
            elif request is not None and _over(request, now):
                self._finish(request, "expired")

    # --- what a coordinator says --------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """What is here to be asked about. Never how many rows."""
        shown = {d.name: {"schema": d.schema.shown(), "public": d.schema.public} for d in self._datasets.all()}
        named = {name: {**told, "rows": None} for name, told in shown.items()}
        return {"kind": Word.DESCRIBED, "datasets": named, "version": __version__}

    def dataset_of(self, message: Mapping[str, Any]) -> str:
        """Which data set an ask is about, as far as it says; for whoever lets several be worked on at once."""
        document = message.get("document")
        name = document.get("dataset") if isinstance(document, Mapping) else None
        return name if isinstance(name, str) else ""

    def again(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer to one ask of a new task, where it was released before: it need not wait until what others asked
        is answered. None, and nothing is changed, where it has to take its turn."""
        began = self._moment()
        try:
            question = read(message)
            released = self._released(question)
        except Exception:
            return None  # its turn will say why
        return None if released is None else self._said(Turn(began, message), question, released)

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one ask: a contribution, or a refusal."""
        return self._said(Turn(self._moment(), message), message)

    def _said(
        self, turn: Turn, asked: Question | Mapping[str, Any], released: _Released | None = None
    ) -> dict[str, Any]:
        try:
            answer = self._answer(turn, asked if isinstance(asked, Question) else read(asked), released)
        except Mistake as mistake:
            answer = self._decline(turn, Declined(Code.DOCUMENT, str(mistake)))
        except Declined as declined:
            answer = self._decline(turn, declined)
        except Exception as error:  # whatever it is: the next ask is answered, and no data goes into the log
            _lament(error)
            answer = self._decline(turn, Declined(Code.FAILED, _FAILED))
        self._steadily(turn)
        return answer

    def _steadily(self, turn: Turn) -> None:
        """Wait for a whole second, where the steward wants answers to leave then."""
        if turn.rule is not None and turn.rule.steady:
            passed = self._moment() - turn.began
            self._pause(math.ceil(passed / STEADY_SECONDS) * STEADY_SECONDS - passed)

    def quote(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """What an answer would cost now, or a refusal. No row is read, nothing is charged."""
        turn = Turn(self._moment(), message)
        try:
            answer = self._quoted(turn, message)
        except Mistake as mistake:
            answer = self._decline(turn, Declined(Code.DOCUMENT, str(mistake)))
        except Declined as declined:
            answer = self._decline(turn, declined)
        except Refusal as refused:
            answer = self._decline(turn, Declined(Code.DATASET, str(refused)))
        except Exception as error:
            _lament(error)
            answer = self._decline(turn, Declined(Code.FAILED, _FAILED))
        self._steadily(turn)
        return answer

    def _quoted(self, turn: Turn, message: Mapping[str, Any]) -> dict[str, Any]:
        self._audit.note(("quote", turn.facts()))
        turn.noted = True
        (requestor, raw), payload = who_asks(message), message.get("payload")
        document = self._gate.checked(raw)
        about = (document.dataset, document.type, document.noise, document.as_json())
        request = Request("", document.digest, requestor, *about)
        turn.rule = self._gate.rule(request)
        dataset = self._gate.fitting(request, document)
        stream = self._streams(dataset) if dataset.blocks is not None and self._streams is not None else None
        planner = None if without_noise(document) else self._looking(dataset)
        payload = payload if isinstance(payload, Mapping) else {}
        told = quoted(document, dataset.schema, planner, stream, requestor, payload)
        self._audit.note(("quoted", {**turn.place, "digest": document.digest, "rule": turn.rule.number}))
        return {"kind": Word.QUOTED, "filter": dataset.budget.filter, **told}

    def closed(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Nothing more will be asked of a task: give back what is left of its claim."""
        request = self._outbox.request(task_of(message))
        if request is not None and request.state != CLOSED:
            self._finish(request, "closed")
        return {"kind": Word.NOTED}

    def _finish(self, request: Request, event: str) -> None:
        self._audit.note((event, {"task": request.task}))
        self._outbox.finish(request.task)
        self._purse.release(request)

    # --- one ask --------------------------------------------------------------------------------------------

    def _released(self, question: Question) -> _Released | None:
        """What was released before to a question that may be asked, and that nothing was said about so far."""
        document = self._matter(question).document
        owner = registry.site_owner(document)
        if self._outbox.request(question.task) is not None or not isinstance(owner, Planned) or document.in_attempts:
            return None
        request = _request(question, document)
        rule, dataset = self._gate.rule(request), self._gate.fitting(request, document)
        self._gate.within(question, document)
        as_declared(question, document, dataset)
        planner = None if without_noise(document) else self._caches(dataset)
        planned = None if planner is None else owner.planned(document, question.ask, dataset.schema)
        if planner is None or planned is None:
            return None
        plan, wanted, told = planned
        assert wanted is not None  # noqa: S101  # an ask says it
        planning = self._planning(request, document, rule, dataset, planner, question)
        answered = planning.again(plan, wanted, question=told)
        return None if answered is None else _Released(answered, planning)

    def _answer(self, turn: Turn, question: Question, released: _Released | None = None) -> dict[str, Any]:
        matter = self._matter(question)
        turn.request = self._known(question, matter.document)
        rule = turn.rule = self._gate.rule(turn.request)
        dataset = self._gate.fitting(turn.request, matter.document)
        self._gate.within(question, matter.document)
        decided = {**turn.place, "digest": turn.request.digest, "rule": rule.number}
        self._audit.note(("ask", turn.facts()), ("allowed", decided))
        turn.noted = True
        earlier = self._outbox.answer(turn.request.task, question.ask.part)
        if earlier is not None:
            body = self._again(question, earlier)
            self._audit.note(("answer", {**turn.place, "epsilon": "0", "delta": "0", "again": True}))
            return frames.read(body, most_bytes=MOST_BYTES).message(arrays=True)
        if self._outbox.restored(turn.request.task):
            raise Declined(Code.DOCUMENT, _RESTORED)
        message, charge = self._made(turn, question, matter, dataset, released)
        body = frames.write(frames.split(message))
        answer = Answer(question.ask.part, question.ask.ask_id, question.digest, body, charge.epsilon, charge.delta)
        self._outbox.keep(turn.request.task, answer, rule=rule.number)
        told = {"epsilon": repr(charge.epsilon), "delta": repr(charge.delta), "again": False}
        self._audit.note(("answer", {**turn.place, **told, "sha256": hashlib.sha256(body).hexdigest()}))
        return message

    def _matter(self, question: Question) -> Matter:
        """The document, checked; the one of the same task a moment ago is not checked again."""
        known = self._matters.get(question.task)
        if known is not None and known.raw == question.document:
            return known
        document = self._gate.checked(question.document)
        with self._noting:
            while len(self._matters) >= _MOST_MATTERS:
                self._matters.pop(next(iter(self._matters)))
            made = self._matters[question.task] = Matter(question.document, document)
        return made

    def _known(self, question: Question, document: SiteDocument) -> Request:
        """The task as it was first heard of; what does not agree with that is not answered."""
        request = self._outbox.request(question.task)
        if request is None:
            request = self._outbox.begin(_request(question, document))
        if request.digest != document.digest:
            raise Declined(Code.DOCUMENT, "another document was asked under this task before")
        if request.requestor != question.requestor:
            raise Declined(Code.DOCUMENT, "somebody else asked this task before")
        if request.state == CLOSED:
            raise Declined(Code.DOCUMENT, "this task was closed; nothing more is answered")
        return request

    def _again(self, question: Question, earlier: Answer) -> bytes:
        if earlier.question != question.digest:
            raise Declined(Code.DOCUMENT, "this part of the task was answered before, to another ask")
        if earlier.body is None:
            raise Declined(Code.DOCUMENT, "this part of the task was answered before, and its answer is not kept")
        return earlier.body

    def _made(
        self, turn: Turn, question: Question, matter: Matter, dataset: DataSet, released: _Released | None
    ) -> tuple[dict[str, Any], Charge]:
        """The answer, and what was paid for it."""
        assert turn.request is not None and turn.rule is not None  # noqa: S101, PT018
        document, ask, request = matter.document, question.ask, turn.request
        as_declared(question, document, dataset)
        if document.in_attempts:
            return self._attempted(turn, question, document, dataset)
        owner = registry.site_owner(document)
        if released is not None and isinstance(owner, Planned):
            return self._told(turn, question, matter, owner, released)
        planner = self._caches(dataset) if isinstance(owner, Planned) and not without_noise(document) else None
        if planner is not None and isinstance(owner, Planned):
            planned = owner.planned(document, ask, dataset.schema)
            if planned is not None:
                return self._planned(turn, question, matter, dataset, planner, owner, planned)
        blocks: list[str] = []
        if dataset.blocks is None:
            table = self._reached(lambda: self._tables(dataset, request.task), dataset)
            charge = self._set_aside(request, turn.rule, matter, dataset, ask.part)
        else:
            charge, blocks = self._set_aside_blocks(request, turn.rule, matter, dataset, ask.part)
            table = self._reached(lambda: self._grown(dataset, request.task, blocks), dataset)
        self._look(request, question)
        layout = owner.layout(document, ask, dataset.schema)
        try:
            made = owner.contribute(document, ask, table, charge, randomness=self._randomness())
        except (BudgetExceeded, ClaimEnded) as refused:
            raise Declined(Code.BUDGET, str(refused)) from None
        if charge.claim is not None and not charge.paid:
            raise Fault("an owner's half answered without paying")
        message = self._contribution(turn, question, carried(layout, made), charge)
        if dataset.blocks is not None and self._streams is not None:
            message["covers"] = covered(self._streams(dataset), blocks)
        return message, charge

    def _look(self, request: Request, question: Question) -> None:
        """Rows are about to be read for this question, and for no other in this part of the task."""
        if self._outbox.first(request.task, question.ask.part, question.digest) != question.digest:
            raise Declined(Code.DOCUMENT, "this part of the task was asked before, with another question")

    def _planned(
        self,
        turn: Turn,
        question: Question,
        matter: Matter,
        dataset: DataSet,
        planner: Planner,
        owner: Planned,
        planned: tuple[Plan, Wanted | None, str],
    ) -> tuple[dict[str, Any], Charge]:
        """The answer as a data set's planner has it: released before, or bought now."""
        assert turn.request is not None and turn.rule is not None  # noqa: S101, PT018
        planning = self._planning(turn.request, matter.document, turn.rule, dataset, planner, question)
        plan, wanted, told = planned
        assert wanted is not None  # noqa: S101  # an ask says it
        payer = f"{turn.request.task} {question.ask.part}"
        try:
            answered = planning.answer(plan, wanted, payer=payer, question=told, randomness=self._randomness())
        except Refusal as refused:
            raise Declined(Code.BUDGET, str(refused)) from None
        return self._told(turn, question, matter, owner, _Released(answered, planning))

    def _planning(
        self,
        request: Request,
        document: SiteDocument,
        rule: Rule,
        dataset: DataSet,
        planner: Planner,
        question: Question,
    ) -> Planning[TaskAccount]:
        stream = None
        try:
            if dataset.blocks is None:
                self._purse.block(dataset)
            elif self._streams is not None:
                stream = self._streams(dataset)
        except Refusal as refused:
            raise Declined(Code.DATASET, str(refused)) from None

        def opened(blocks: Sequence[str]) -> Table:
            if stream is None:
                return self._reached(lambda: self._tables(dataset, request.task), dataset)
            return self._reached(lambda: self._grown(dataset, request.task, blocks), dataset)

        return Planning(
            planner,
            dataset,
            TaskAccount(self._purse, request, document, dataset, stream, rule),
            self._purse.ledger,
            stream,
            opened,
            lambda: self._look(request, question),
            question.ask.part,
            context=request.requestor if stream is not None and stream.terms.separate else "",
        )

    def _told(
        self, turn: Turn, question: Question, matter: Matter, owner: Planned, released: _Released
    ) -> tuple[dict[str, Any], Charge]:
        """What a planner answered, as the contribution that leaves."""
        answered, planning, ask = released.answered, released.planning, question.ask
        paid = answered.cost if planning.afresh else planning.account.charged()
        charge = Charge(None, None, ask.part, epsilon=float(paid[0]), delta=float(paid[1]), paid=True)
        layout = owner.layout(matter.document, ask, planning.dataset.schema)
        payload = carried(layout, owner.told(matter.document, ask, answered))
        message = self._contribution(turn, question, payload, charge, source=str(answered.source))
        if planning.stream is not None:
            message["covers"] = covered(planning.stream, planning.view)
        return message, charge

    def _attempted(
        self, turn: Turn, question: Question, document: SiteDocument, dataset: DataSet
    ) -> tuple[dict[str, Any], Charge]:
        """What came of attempts over a growing data set, each with a claim of its own; and what its blocks paid."""
        assert turn.request is not None  # noqa: S101
        if dataset.blocks is None or self._streams is None or self._attempting is None:
            raise Declined(Code.SCHEMA, "dataset does not grow: a pipeline works on blocks of rows that keep coming in")
        owner = registry.stream_owner(document)
        try:
            right = self._attempting(self._streams(dataset), turn.request)
            made = owner.attempt(document, question.ask, right)
        except NotRun as refused:
            raise Declined(Code.FAILED, str(refused)) from None
        except Refusal as refused:
            raise Declined(Code.BUDGET, str(refused)) from None
        paid = owner.paid(made)
        charge = Charge(None, None, question.ask.part, epsilon=float(paid.epsilon), delta=float(paid.delta), paid=True)
        layout = owner.layout(document, question.ask, dataset.schema)
        return self._contribution(turn, question, carried(layout, made), charge), charge

    def _contribution(
        self, turn: Turn, question: Question, payload: dict[str, Any], charge: Charge, *, source: str = SOURCE
    ) -> dict[str, Any]:
        assert turn.request is not None and turn.rule is not None  # noqa: S101, PT018
        message: dict[str, Any] = {
            "kind": Word.CONTRIBUTION,
            "task": turn.request.task,
            "ask_id": question.ask.ask_id,
            "part": question.ask.part,
            "payload": payload,
            "cost": {"epsilon": charge.epsilon, "delta": charge.delta},
            "source": source,
        }
        if not turn.rule.steady:
            steps = math.ceil((self._moment() - turn.began) / _SECONDS_STEP)
            message["seconds"] = {"compute": round(steps * _SECONDS_STEP, 2)}
        return message

    def _reached(self, opened: Callable[[], Table], dataset: DataSet) -> Table:
        try:
            return opened()
        except ThebesError as error:
            log.error("the rows of %s cannot be reached: %s", dataset.name, error)
            raise Declined(Code.DATASET, _UNREACHABLE) from None

    def _set_aside_blocks(
        self, request: Request, rule: Rule, matter: Matter, dataset: DataSet, part: str
    ) -> tuple[Charge, list[str]]:
        """The claim on every block of a growing data set that can pay, and those blocks: in all phases the same."""
        assert self._streams is not None  # noqa: S101
        try:
            stream = self._streams(dataset)
        except Refusal as refused:
            raise Declined(Code.DATASET, str(refused)) from None
        try:
            if without_noise(matter.document):
                return Charge(None, None, part), [block.name for block in stream.blocks() if block.state != "dropped"]
            price = matter.price(dataset, dataset.budget.filter)
            claim, blocks = self._purse.reserve_blocks(request, matter.document, stream, price, rule)
        except Refusal as refused:
            raise Declined(Code.BUDGET, str(refused)) from None
        return Charge(claim, price, part), blocks

    def _grown(self, dataset: DataSet, task: str, blocks: Sequence[str]) -> Table:
        assert self._blocks_of is not None  # noqa: S101
        return self._blocks_of(dataset, task, blocks)

    def _set_aside(self, request: Request, rule: Rule, matter: Matter, dataset: DataSet, part: str) -> Charge:
        if without_noise(matter.document):
            return Charge(None, None, part)
        try:
            block = self._purse.block(dataset)
        except Refusal as refused:
            raise Declined(Code.DATASET, str(refused)) from None
        try:
            price = matter.price(dataset, block.filter)
            return Charge(self._purse.reserve(request, matter.document, dataset, price, rule), price, part)
        except Refusal as refused:
            raise Declined(Code.BUDGET, str(refused)) from None

    # --- saying no --------------------------------------------------------------------------------------------

    def _decline(self, turn: Turn, declined: Declined) -> dict[str, Any]:
        code, reason = str(declined.code), declined.reason[:_LONGEST_REASON]
        refused = ("refused", {**turn.place, "code": code, "reason": reason})
        self._audit.note(*([refused] if turn.noted else [("ask", turn.facts()), refused]))
        if turn.request is not None and turn.request.state != CLOSED:
            self._outbox.refuse(turn.request.task, code=code, reason=reason)
        return {"kind": Word.REFUSAL, **turn.told, "code": code, "reason": reason}


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


def _lament(error: Exception) -> None:
    """Into the log: where in the code it was, and only of our own errors what they say, since those hold no data."""
    said = str(error) if isinstance(error, ThebesError) else type(error).__name__
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    line = "" if place is None else f" ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})"
    log.error("an ask failed: %s%s", said, line)


def _over(request: Request, now: datetime) -> bool:
    told = request.document.get("expires_at")
    try:
        return isinstance(told, str) and datetime.fromisoformat(told) <= now
    except (ValueError, TypeError):
        return False


def _request(question: Question, document: SiteDocument) -> Request:
    about = (document.dataset, document.type, document.noise, document.as_json())
    return Request(question.task, document.digest, question.requestor, *about)
