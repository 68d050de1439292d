"""The helper of tasks with two servers: opens them, judges people's reports with the leader, says one noised sum.

Promise to people, whatever the leader does, and also if everybody else who answers is the leader's: this server's
noise, drawn once by the document's digest, is on every sum that leaves it (`tasks.aggregation.split_servers` says why
it suffices), the sum is over at least as many reports as the document says, a share opens for the task and part it was
made for only, and no report is judged or counted twice. What a leader learns besides is which reports were counted. An
honest one is, whatever its value; one whose leader's share was tampered with is not, whatever its value, but for odds
of 2^-50 at most: the proof is zero-knowledge against a server that departs from the protocol (Corrigan-Gibbs & Boneh
2017; Boneh et al. 2019; Davis, Patton, Rosulek & Schoppmann 2023 prove it of Prio3, with one look at each nonce). Not
proved here: the protocol around that; nobody outside has audited either. Not promised: that the sum is right if either
server lies, nor that it is ever said.

What must stay true: what is said is stored first, and said again to the same question only; a task's key goes with its
last sum, with the leader's farewell, or a day after the deadline that people saw, also where the leader says nothing. A
home that came back from a copy has no such key, so that nothing is judged or noised twice: its tasks fail.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.exceptions import InvalidTag

from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import Randomness, system
from thebes.sharing import Prio3, SealRefused, bound_to, context_of
from thebes.sharing.expansion import NONCE_BYTES
from thebes.sharing.field import add, total
from thebes.sharing.sealing import SEALED_MORE
from thebes.site.budget.policy import Policy
from thebes.site.helping.added_totals import added_up
from thebes.site.helping.gate import GRACE_SECONDS, LONGEST_SECONDS, HelpGate
from thebes.site.helping.keys import HelpedTaskKey, HelperKeys
from thebes.site.helping.store import CLOSED, OPEN, HelpedTask, HelpedTasks, JobVerdict
from thebes.site.requests.messages import Declined, is_task, task_of, who_asks
from thebes.site.steward.audit_log import Audit
from thebes.tasks import registry
from thebes.tasks.aggregation.packets import part_of
from thebes.tasks.aggregation.split_servers import Splitting, noised
from thebes.tasks.document import PeopleDocument
from thebes.tasks.site_document import SiteDocument
from thebes.wire import helping
from thebes.wire.link import Code, Word

DATABASE = "helping.db"
_HELPER = 1
SWEEP_SECONDS = 600.0
_FAILED = "the helper could not do this; its steward finds more in its log"
_GONE = (
    "this helper was restored from a copy, or destroyed what it held of this task: it cannot go on; ask as a new task"
)
log = logging.getLogger("thebes.site")


class Helper:
    """One site's. `name` is its own; `apart`: it is an institution of its own, and not the coordinator's."""

    def __init__(
        self,
        home: Path,
        *,
        name: str,
        apart: bool,
        policy: Callable[[], Policy],
        audit: Audit,
        randomness: Callable[[], Randomness] = system,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._audit, self._gate = audit, HelpGate(name, apart=apart, policy=policy, clock=clock)
        self._keys, self._randomness, self._clock = HelperKeys(home), randomness, clock
        self._tasks = HelpedTasks(home / DATABASE)
        self._turn = threading.Lock()
        with self._turn:
            self._sweep()

    def watch(self, every: float = SWEEP_SECONDS) -> Callable[[], None]:
        """End what is due now and then, though nobody asks anything; until what is returned is called, or the process
        ends."""
        stopped = threading.Event()

        def watched() -> None:
            while not stopped.wait(every):
                try:
                    with self._turn:
                        self._sweep()
                except Exception as error:  # a full disk, for example: the next time it may go
                    log.error("keys of helping stay: %s", type(error).__name__, extra={"event": "help.failed"})

        threading.Thread(target=watched, name="helper's keys", daemon=True).start()
        return stopped.set

    def fingerprint(self) -> str:
        """Return what people know this helper by: its institution publishes it where its coordinator cannot write."""
        return self._keys.identity().fingerprint

    def concerns(self, message: Mapping[str, Any]) -> bool:
        """Return whether a quote is about helping, and not about rows."""
        return self._gate.concerns(message)

    def quote(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return whether this site would help with a document, and the fingerprint by which people know it."""
        return self._answered("quote", message, self._quoted)

    def step(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one step of a task; one at a time."""
        steps = {helping.OPEN: self._open, helping.VERIFY: self._verify, helping.CLOSE: self._close}
        steps[helping.ADD] = self._add
        named = message.get("step")
        work = steps.get(named) if isinstance(named, str) else None
        with self._turn:
            return self._answered(f"help {named if work else '?'}", message, self._swept(work or _unknown))

    def over(self, task: str, *, asked: bool = False) -> None:
        """The leader says that a task has ended, one way or another. It may say so before the opening is heard, which
        waits in another line; no key is made for that one then. With a task of which this site was `asked` rows it does
        not help."""
        if not is_task(task):
            return
        with self._turn:
            if self._tasks.task(task) is not None:
                self._tasks.end(task)
            elif asked:
                return
            else:
                self._tasks.remember(task, self._clock() + LONGEST_SECONDS)
            self._sweep()

    # --- steps ------------------------------------------------------------------------------------------

    def _quoted(self, message: Mapping[str, Any]) -> dict[str, Any]:
        requestor, raw = who_asks(message)
        document = self._gate.document(raw)
        self._gate.allowed(requestor, document)
        self._gate.until(document)
        return {"kind": Word.QUOTED, "allowed": True, "helper_key": self.fingerprint()}

    def _open(self, message: Mapping[str, Any]) -> dict[str, Any]:
        task, (requestor, raw) = task_of(message), who_asks(message)
        document = self._gate.document(raw)
        self._gate.allowed(requestor, document)
        if document.as_json().get("helper_key") != self.fingerprint():
            raise Declined(Code.DOCUMENT, "the document names another key of this helper than it has")
        known = self._tasks.task(task)
        if known is None:
            until = self._gate.until(document) + GRACE_SECONDS
            key = self._keys.begin(task)
            self._tasks.begin(HelpedTask(task, document.digest, requestor, document.as_json(), until))
        else:
            self._same(known, requestor, document.digest)
            key = self._key(known)
        shown = self._keys.identity().shown(key.sealing.public, _sealed_for(task, document))
        return {**shown, "verify_key": key.verify_key.hex()}

    def _verify(self, message: Mapping[str, Any]) -> dict[str, Any]:
        held, number = self._held(message), message.get("number")
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 10**6:
            raise Mistake("number", "must be a whole number")
        question = hashlib.sha256(str(message.get("reports")).encode()).hexdigest()
        before = self._tasks.verdict(held.task, number)
        if before is not None:
            if before[0] != question:
                raise Declined(Code.DOCUMENT, "this job held other reports before; each is judged once")
            return self._leaves(held, before[1])
        answer, verdict = self._judged(held, number, question, message.get("reports"))
        self._tasks.judge(held.task, verdict)
        return self._leaves(held, answer)

    def _leaves(self, held: HelpedTask, answer: dict[str, Any]) -> dict[str, Any]:
        """Return a verdict that is on the disk, once what no copy has says that it may have left."""
        self._keys.note_judged(held.task, self._tasks.verdicts(held.task))
        return answer

    def _judged(
        self, held: HelpedTask, number: int, question: str, reports: object
    ) -> tuple[dict[str, Any], JobVerdict]:
        key, (document, splitting) = self._key(held), self._splitting(held)
        prio = splitting.make(_context(document))
        widths = [NONCE_BYTES, prio.public_bytes, prio.helper_bytes + SEALED_MORE, prio.verifier_bytes]
        rows = helping.unpacked(reports, sum(widths))
        nonces, public, sealed, theirs = (
            np.ascontiguousarray(part) for part in np.split(rows, np.cumsum(widths)[:-1], axis=1)
        )
        names = [nonce.tobytes() for nonce in nonces]
        if len(set(names)) < len(names) or self._tasks.known(held.task, names):
            raise Declined(Code.DOCUMENT, "a report of this job was judged before; each is judged once")
        shares, opens = _opened(key, prio, _sealed_for(held.task, document), names, public, sealed)
        mine = prio.prepare(_HELPER, key.verify_key, nonces, public, shares)
        proven, seed = prio.decide([theirs, mine.verifier])
        counted = prio.confirmed(mine, proven, seed) & opens
        seeds = seed * counted[:, None]  # of what is refused nothing is told
        answer = {"counted": "".join("1" if each else "0" for each in counted), "seeds": helping.packed(seeds)}
        kept = key.seal(mine.outputs[counted], _place(held.task, number))
        of = [[n for n, ok in zip(names, counted, strict=True) if bool(ok) is said] for said in (True, False)]
        return answer, JobVerdict(number, question, answer, kept, of[0], of[1])

    def _close(self, message: Mapping[str, Any]) -> dict[str, Any]:
        task, dropped = task_of(message), sorted(helping.dropped(message))
        question = json.dumps([helping.hexed(dropped), message.get("count"), message.get("nonces")])
        said = self._said(task, question)
        if said is not None:
            return said
        held = self._held(message)
        document, splitting = self._splitting(held)
        least = self._gate.allowed(held.requestor, document)
        away = {*dropped}
        counted = [each for each in self._tasks.counted(task) if each[0] not in away]
        names = [nonce for nonce, _, _ in counted]
        if len(names) != message.get("count") or helping.nonces_digest(names) != message.get("nonces"):
            raise Declined(Code.DOCUMENT, "the leader counts other reports than this helper does")
        if len(names) < least:
            raise Declined(Code.POLICY, f"this helper adds up no fewer than {least} reports")
        total = self._noised(held, splitting, document, counted)
        return self._concluded(task, question, {"sum": helping.written_sum(total)})

    def _add(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Add up the shares of sites of one phase, once; phase after phase. With the last one the task is closed."""
        task, phase = task_of(message), helping.phase_of(message)
        asked = json.dumps([phase, message.get("schemas"), message.get("reports")], sort_keys=True)
        question = f"add {hashlib.sha256(asked.encode()).hexdigest()}"
        said = self._said(task, question)
        if said is not None:
            return said
        held = self._held(message)
        before = self._tasks.verdict(task, phase)
        if before is not None:
            if before[0] != question:
                raise Declined(Code.DOCUMENT, "this phase was closed over other reports; it is closed once")
            return self._leaves(held, before[1])
        document, key = registry.accepted_earlier(held.document), self._key(held)
        if not isinstance(document, SiteDocument):
            raise Declined(Code.DOCUMENT, "people answer this task: its reports are judged before they are added up")
        if phase != self._tasks.verdicts(task) or phase >= document.phases:
            raise Declined(Code.DOCUMENT, "phases are added up one after another, each once")
        least = self._gate.allowed(held.requestor, document)
        context = _sealed_for(held.task, document, phase)
        answer = added_up(document, context, message, key.sealing, least=least, randomness=self._randomness())
        if phase + 1 == document.phases:
            return self._concluded(task, question, answer)
        self._tasks.say(task, phase, question, answer)
        return self._leaves(held, answer)

    def _said(self, task: str, question: str) -> dict[str, Any] | None:
        """Return the sum that was said of a task before, if to this question; None where none was."""
        held = self._tasks.task(task)
        if held is None or held.state != CLOSED or held.answer is None:
            return None
        if held.closed != question:
            raise Declined(Code.DOCUMENT, "this task was closed over other reports; it is closed once")
        return dict(held.answer)

    def _concluded(self, task: str, question: str, answer: Mapping[str, Any]) -> dict[str, Any]:
        """Store a sum, destroy what it was made of, and return it."""
        said = self._tasks.conclude(task, question, answer)
        self._keys.destroy(task)
        return said

    def _noised(
        self,
        held: HelpedTask,
        splitting: Splitting,
        document: PeopleDocument,
        counted: list[tuple[bytes, int, int]],
    ) -> list[int]:
        key, prio = self._key(held), splitting.make(_context(document))
        found = prio.nothing()
        places: dict[int, list[int]] = {}
        for _, number, place in counted:
            places.setdefault(number, []).append(place)
        for number, sealed in self._tasks.shares(held.task):
            if number in places:
                shares = key.open(sealed, _place(held.task, number), prio.circuit.outputs)
                found = add(found, total(shares[places[number]], 0))
        return list(noised(found, splitting.noises, self._randomness()).tolist())

    # --- what is asked --------------------------------------------------------------------------------------

    def _held(self, message: Mapping[str, Any]) -> HelpedTask:
        """A task that is open here; declined where it is not."""
        found = self._tasks.task(task_of(message))
        if found is None:
            raise Declined(Code.DOCUMENT, _GONE)
        if found.state != OPEN:
            raise Declined(Code.DOCUMENT, "this task is closed here; nothing more is judged")
        return found

    def _same(self, known: HelpedTask, requestor: str, digest: str) -> None:
        if known.state != OPEN:
            raise Declined(Code.DOCUMENT, "this task is closed here; nothing more is judged")
        if (known.requestor, known.digest) != (requestor, digest):
            raise Declined(Code.DOCUMENT, "another document was asked under this task before")

    def _key(self, held: HelpedTask) -> HelpedTaskKey:
        key = self._keys.of(held.task)
        if key is None:
            raise Declined(Code.DOCUMENT, _GONE)
        return key

    def _splitting(self, held: HelpedTask) -> tuple[PeopleDocument, Splitting]:
        document = registry.accepted_earlier(held.document)
        if not isinstance(document, PeopleDocument):
            raise Declined(Code.DOCUMENT, "sites answer this task: there are no reports to judge")
        return document, registry.split(document, self._randomness())

    def _sweep(self) -> None:
        """End what is due, and destroy every key that belongs to no open task, or to one of which verdicts are missing:
        of a task that ended, of a process that died in between, and of a database that came back from a copy beside
        the keys."""
        for task in self._tasks.due(self._clock()):
            self._tasks.end(task)
        self._tasks.unremember(self._clock())
        going = self._tasks.going()
        self._keys.keep_only(task for task in going if self._keys.judged(task) <= self._tasks.verdicts(task))

    def _swept(
        self, work: Callable[[Mapping[str, Any]], dict[str, Any]]
    ) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        """Return the work, done once nothing is there any more that should not be."""

        def working(message: Mapping[str, Any]) -> dict[str, Any]:
            self._sweep()
            return work(message)

        return working

    # --- what is said ---------------------------------------------------------------------------------------

    def _answered(
        self, event: str, message: Mapping[str, Any], work: Callable[[Mapping[str, Any]], dict[str, Any]]
    ) -> dict[str, Any]:
        place = {"task": _short(message.get("task")), "requestor": _short(message.get("requestor"))}
        try:
            answer = work(message)
        except Declined as no:
            return self._refused(event, place, no)
        except Mistake as mistake:
            return self._refused(event, place, Declined(Code.DOCUMENT, str(mistake)))
        except InvalidTag:
            return self._refused(event, place, Declined(Code.FAILED, _FAILED))
        except Exception as error:  # whatever it is: the next step is answered, and nothing of a share is logged
            log.error("a step of helping failed: %s", type(error).__name__, extra={"event": "help.failed"})
            return self._refused(event, place, Declined(Code.FAILED, _FAILED))
        self._audit.note((event, place))
        return {"kind": Word.HELPED, **answer}

    def _refused(self, event: str, place: Mapping[str, str], no: Declined) -> dict[str, Any]:
        self._audit.note((event, place), ("refused", {**place, "code": str(no.code), "reason": no.noted[:300]}))
        return {"kind": Word.REFUSAL, "code": str(no.code), "reason": no.reason[:300]}


def _opened(
    key: HelpedTaskKey, prio: Prio3, context: bytes, names: list[bytes], public: Any, sealed: Any
) -> tuple[Any, Any]:
    """Open the helper's shares; what does not open is as if it were nothing, and is not counted."""
    shares = np.zeros((len(names), prio.helper_bytes), dtype=np.uint8)
    opens = np.ones(len(names), dtype=np.bool_)
    for row, (nonce, shown, closed) in enumerate(zip(names, public, sealed, strict=True)):
        try:
            share = key.sealing.open(closed.tobytes(), context=context, nonce=nonce, public_share=shown.tobytes())
        except SealRefused:
            opens[row] = False
            continue
        if len(share) == prio.helper_bytes:
            shares[row] = np.frombuffer(share, dtype=np.uint8)
        else:
            opens[row] = False
    return shares, opens


def _context(document: PeopleDocument | SiteDocument, phase: int = 0) -> bytes:
    return context_of(bytes.fromhex(document.digest), part_of(phase))


def _sealed_for(task: str, document: PeopleDocument | SiteDocument, phase: int = 0) -> bytes:
    return bound_to(task, _context(document, phase))


def _place(task: str, number: int) -> bytes:
    return f"helper\0{task}\0{number}".encode()


def _unknown(message: Mapping[str, Any]) -> dict[str, Any]:
    raise Declined(Code.DOCUMENT, "the helper knows no such step")


def _short(value: object) -> str:
    """Return what a stranger said, as the audit log keeps it."""
    return value[:200] if isinstance(value, str) and value[:200].isprintable() else "?"
