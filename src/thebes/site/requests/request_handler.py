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
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from thebes import __version__
from thebes.curator.cache.planner import Planner
from thebes.curator.streams.stream import Stream
from thebes.privacy.faults import Mistake, Refusal, ThebesError
from thebes.site.budget.budget import SiteBudget
from thebes.site.budget.permission import Permission
from thebes.site.budget.pipeline_rights import KIND as PIPELINE
from thebes.site.budget.policy import Policy, PolicyRule
from thebes.site.budget.quotes import quoted
from thebes.site.dataset import DataSet, DataSets
from thebes.site.requests.contribution import Contributing, Released
from thebes.site.requests.gate import Gate, without_noise
from thebes.site.requests.messages import Declined, TaskAsk, declined, read, task_of, who_asks
from thebes.site.requests.request import Allowed, Matter, Turn, asking
from thebes.site.requests.response_store import CLOSED, KeptAnswer, ResponseStore, SiteRequest
from thebes.site.steward.audit_log import Audit
from thebes.tasks import registration, registry
from thebes.tasks.site_document import SiteDocument
from thebes.tasks.site_protocols import Planned
from thebes.wire import frames
from thebes.wire.link import MOST_BYTES, Code, Word

STEADY_SECONDS = 1.0  #: a steady answer leaves at a whole multiple of this after its ask came
_SECONDS_STEP = 0.01
_LONGEST_REASON = 300
_MOST_MATTERS = 32
_AT_ONCE = 4  #: answers that are written down
_FAILED = "the site could not compute this; its steward finds more in its log"
_RESTORED = (
    "this site was restored from a copy since it was first asked this; it only says again what it had answered then, "
    "so ask as a new task"
)
_FORGOTTEN = (
    "this task was charged before, but what this site answered it is lost; another answer would have other noise for "
    "the same charge, so ask as a new task"
)

log = logging.getLogger("thebes.site")


class RequestHandler:
    """One site's. `name` is the site's own; `contributing` makes the answers to what is allowed; `streams` knows the
    blocks of a growing data set, and `looking` has the planner of one whose released answers are used again, that
    waits for no answer: both for quotes. `pause` waits for some seconds."""

    def __init__(
        self,
        *,
        name: str,
        datasets: DataSets,
        policy: Callable[[], Policy],
        outbox: ResponseStore,
        audit: Audit,
        budget: SiteBudget,
        contributing: Contributing,
        streams: Callable[[DataSet], Stream],
        looking: Callable[[DataSet], Planner | None],
        moment: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = name
        self._gate, self._datasets = Gate(name, datasets, policy), datasets
        self._outbox, self._audit, self._budget = outbox, audit, budget
        self._contributing, self._streams, self._looking = contributing, streams, looking
        self._moment, self._pause = moment, pause
        self._matters: dict[str, Matter] = {}
        self._noting = threading.Lock()
        self._notes = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="note")

    def recover(self) -> None:
        """After a restart: give back what tasks still hold that ended meanwhile. Of a home that came back from a copy
        nothing is given back, and it goes on saying what it said, until its owner thaws it."""
        if self._budget.ledger.frozen:
            return
        now = datetime.now(UTC)
        for task in self._budget.holding():
            request = self._outbox.request(task)
            if request is not None and (request.state == CLOSED or _over(request, now)):
                self._finish(request, "expired")

    # --- what a coordinator says --------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """Describe what is here to be asked about. Never how many rows."""
        shown = {d.name: {"schema": d.schema.shown(), "public": d.schema.public} for d in self._datasets.all()}
        named = {name: {**told, "rows": None} for name, told in shown.items()}
        return {"kind": Word.DESCRIBED, "datasets": named, "version": __version__}

    def datasets_of(self, message: Mapping[str, Any]) -> tuple[str, ...]:
        """Name the data sets that an ask is about, as far as it says; for whoever lets several be worked on at once."""
        document = message.get("document")
        told = [document.get(name) for name in ("dataset", "join")] if isinstance(document, Mapping) else []
        return tuple(name for name in told if isinstance(name, str))

    def recalls(self, message: Mapping[str, Any]) -> bool:
        """Return whether an ask is of a kind of which an answer may have been released before."""
        try:
            return isinstance(registration.owner_of(registry.packages()[message["document"]["type"]]), Planned)
        except Exception:
            return False  # its turn will say why

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

    def _said(self, turn: Turn, asked: TaskAsk | Mapping[str, Any], released: Released | None = None) -> dict[str, Any]:
        try:
            answer = self._answer(turn, asked if isinstance(asked, TaskAsk) else read(asked), released)
        except Mistake as mistake:
            answer = self._decline(turn, Declined(Code.DOCUMENT, str(mistake)))
        except Declined as no:
            answer = self._decline(turn, no)
        except Exception as error:  # whatever it is: the next ask is answered, and no data goes into the log
            _lament(error)
            answer = self._decline(turn, Declined(Code.FAILED, _FAILED))
        self._steadily(turn)
        return answer

    def _steadily(self, turn: Turn) -> None:
        """Wait for a whole second, where the steward wants answers to leave then."""
        if any(rule.steady for rule in turn.rules):
            passed = self._moment() - turn.began
            self._pause(math.ceil(passed / STEADY_SECONDS) * STEADY_SECONDS - passed)

    def quote(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return what an answer would cost now, or a refusal. No row is read, nothing is charged."""
        turn = Turn(self._moment(), message)
        try:
            answer = self._quoted(turn, message)
        except Mistake as mistake:
            answer = self._decline(turn, Declined(Code.DOCUMENT, str(mistake)))
        except Declined as no:
            answer = self._decline(turn, no)
        except Refusal as refused:
            answer = self._decline(turn, declined(Code.DATASET, refused))
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
        request = SiteRequest("", document.digest, requestor, *about)
        turn.rules = self._gate.rules(request)
        dataset = self._gate.fitting(request, document)
        stream = self._streams(dataset) if dataset.blocks is not None else None
        context = None if stream is None else asking(stream, turn.rules[0], requestor)
        planner = None if without_noise(document) else self._looking(dataset)
        if stream is None and not without_noise(document):
            for each in dataset.paying:
                self._budget.block(each)  # refused as a task would be, where it is not as declared
        payload = payload if isinstance(payload, Mapping) else {}
        told = quoted(document, dataset.schema, planner, stream, context, payload)
        permission = Permission(self._budget, request, turn.rules, dataset, planner, stream, context)
        told |= _permitted(permission, document, payload)
        self._audit.note(("quoted", {**turn.place, "digest": document.digest, **turn.numbers()}))
        return {"kind": Word.QUOTED, "filter": dataset.budget.filter, **told}

    def closed(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Nothing more will be asked of a task: give back what is left of its claim, and say whether the task was
        charged anything, where that is known: from here on it never is."""
        request = self._outbox.request(task_of(message))
        if request is None:
            return {"kind": Word.NOTED}
        self._finish(request, "closed")
        charged = None if request.kind == PIPELINE else self._budget.charged(request)  # each attempt has its own claim
        return {"kind": Word.NOTED} if charged is None else {"kind": Word.NOTED, "charged": charged}

    def _finish(self, request: SiteRequest, event: str) -> None:
        if request.state != CLOSED:
            noting = self._notes.submit(self._audit.note, (event, {"task": request.task}))
            try:
                self._outbox.finish(request.task)
            finally:
                noting.result()
        self._budget.release(request)

    # --- one ask --------------------------------------------------------------------------------------------

    def _released(self, question: TaskAsk) -> Released | None:
        """Return what was released before to a question that may be asked, and that nothing was said about so far."""
        matter = self._matter(question)
        document = matter.document
        if self._outbox.request(question.task) is not None or document.in_attempts:
            return None
        if not isinstance(registry.site_owner(document), Planned):
            return None
        request = _request(question, document)
        return self._contributing.released(self._allowed(request, self._gate.rules(request), question, matter))

    def _allowed(
        self, request: SiteRequest, rules: tuple[PolicyRule, ...], question: TaskAsk, matter: Matter
    ) -> Allowed:
        """An ask that rules cover, if its data set has what it is about."""
        dataset = self._gate.fitting(request, matter.document)
        self._gate.within(question, matter.document)
        return Allowed(request, rules, question, matter, dataset)

    def _answer(self, turn: Turn, question: TaskAsk, released: Released | None = None) -> dict[str, Any]:
        if released is None:
            matter = self._matter(question)
            turn.request = self._known(question, matter.document)
            turn.rules = self._gate.rules(turn.request)
            allowed = self._allowed(turn.request, turn.rules, question, matter)
        else:  # it was allowed a moment ago
            turn.request = self._known(question, released.allowed.document)
            turn.rules = released.allowed.rules
            allowed = replace(released.allowed, request=turn.request)
        decided = {**turn.place, "digest": turn.request.digest, **turn.numbers()}
        self._audit.note(("ask", turn.facts()), ("allowed", decided), more=True)
        turn.noted = True
        earlier = self._outbox.answer(turn.request.task, question.ask.part)
        if earlier is not None:
            body = self._again(question, earlier)
            self._audit.note(("answer", {**turn.place, "epsilon": "0", "delta": "0", "again": True}))
            return frames.WrittenMessage(frames.read(body, most_bytes=MOST_BYTES).message(arrays=True), body)
        if self._outbox.restored(turn.request.task):
            raise Declined(Code.DOCUMENT, _RESTORED)
        message, charge = self._contributing.made(allowed, released)
        if not any(rule.steady for rule in turn.rules):
            steps = math.ceil((self._moment() - turn.began) / _SECONDS_STEP)
            message["seconds"] = {"compute": round(steps * _SECONDS_STEP, 2)}
        written = frames.WrittenMessage(message)
        of = (question.ask.part, question.ask.ask_id, question.digest)
        answer = KeptAnswer(*of, written.content, charge.epsilon, charge.delta)
        told = {"epsilon": repr(charge.epsilon), "delta": repr(charge.delta), "again": False}
        said = ("answer", {**turn.place, **told, "sha256": hashlib.sha256(written.content).hexdigest()})
        # Both are on disk before it leaves, and two files take no longer than one. Where the machine stops in between
        # the log may tell of an answer that nobody heard: the next ask is answered anew, for nothing more.
        noting = self._notes.submit(self._audit.note, said)
        try:
            self._outbox.keep(turn.request.task, answer, rule=allowed.rule.number)
        finally:
            noting.result()
        return written

    def _matter(self, question: TaskAsk) -> Matter:
        """Return the document, checked, with its price where the task was asked a moment ago."""
        known = self._matters.get(question.task)
        if known is not None and known.raw == question.document:
            return known
        document = self._gate.checked(question.document)
        with self._noting:
            while len(self._matters) >= _MOST_MATTERS:
                self._matters.pop(next(iter(self._matters)))
            made = self._matters[question.task] = Matter(document, question.document)
        return made

    def _known(self, question: TaskAsk, document: SiteDocument) -> SiteRequest:
        """The task as it was first heard of; what does not agree with that is not answered."""
        request = self._outbox.request(question.task)
        if request is None:
            request = _request(question, document)
            if self._budget.claim(request) is not None:  # a task is known before anything is set aside for it
                raise Declined(Code.DOCUMENT, _FORGOTTEN)
            request = self._outbox.begin(request)
        if request.digest != document.digest:
            raise Declined(Code.DOCUMENT, "another document was asked under this task before")
        if request.requestor != question.requestor:
            raise Declined(Code.DOCUMENT, "somebody else asked this task before")
        if request.state == CLOSED:
            raise Declined(Code.DOCUMENT, "this task was closed; nothing more is answered")
        return request

    def _again(self, question: TaskAsk, earlier: KeptAnswer) -> bytes:
        if earlier.question != question.digest:
            raise Declined(Code.DOCUMENT, "this part of the task was answered before, to another ask")
        if earlier.body is None:
            raise Declined(Code.DOCUMENT, "this part of the task was answered before, and its answer is not kept")
        return earlier.body

    # --- saying no --------------------------------------------------------------------------------------------

    def _decline(self, turn: Turn, no: Declined) -> dict[str, Any]:
        code, noted = str(no.code), no.noted[:_LONGEST_REASON]
        refused = ("refused", {**turn.place, "code": code, "reason": noted})
        self._audit.note(*([refused] if turn.noted else [("ask", turn.facts()), refused]))
        if turn.request is not None and turn.request.state != CLOSED:
            self._outbox.refuse(turn.request.task, code=code, reason=noted)
        return {"kind": Word.REFUSAL, **turn.told, "code": code, "reason": no.reason[:_LONGEST_REASON]}


def _permitted(permission: Permission, document: SiteDocument, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a quote says of being allowed: whether (nothing where that is not known), under which code and why
    not; to whom the rule names what is left. To others whom it covers it tells what a task would."""
    told: dict[str, Any] = {}
    try:
        given = permission.given(document, payload)
        told = {} if given is None else {"allowed": given}
    except Refusal as refused:
        told = {"allowed": False, "code": str(Code.BUDGET), "reason": declined(Code.BUDGET, refused).reason}
    named = all(permission.request.requestor in rule.requestors for rule in permission.rules)
    if named and not without_noise(document):
        left = permission.left()
        told["left"] = [float(left.epsilon), float(left.delta)]
    return told


def _lament(error: Exception) -> None:
    """Into the log: where in the code it was, and only of our own errors what they say, since those hold no data."""
    said = str(error) if isinstance(error, ThebesError) else type(error).__name__
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    line = "" if place is None else f" ({place.tb_frame.f_code.co_filename}:{place.tb_lineno})"
    log.error("an ask failed: %s%s", said, line, extra={"event": "ask.failed"})


def _over(request: SiteRequest, now: datetime) -> bool:
    told = request.document.get("expires_at")
    try:
        return isinstance(told, str) and datetime.fromisoformat(told) <= now
    except (ValueError, TypeError):
        return False


def _request(question: TaskAsk, document: SiteDocument) -> SiteRequest:
    about = (document.dataset, document.type, document.noise, document.as_json())
    return SiteRequest(question.task, document.digest, question.requestor, *about)
