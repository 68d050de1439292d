"""The messages in which a coordinator asks something of a site, read as a stranger's, and why a site says no."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from thebes.ledger import BudgetExceeded, ClaimEnded, Frozen
from thebes.privacy.faults import Mistake, Refusal
from thebes.tasks.protocols import Ask
from thebes.wire.link import Code
from thebes.wire.refused_sites import BEYOND

LONGEST_REQUESTOR = 200
_TASK = re.compile(r"[A-Za-z0-9._~-]{1,200}")
_MOST_PHASE = 10**7


class Declined(Exception):
    """A site's no to one ask: a code, and a sentence without any data value. `noted` is what the steward's own log says
    in its place."""

    def __init__(self, code: Code, reason: str, noted: str | None = None) -> None:
        super().__init__(reason)
        self.code, self.reason, self.noted = code, reason, reason if noted is None else noted


def declined(code: Code, refused: Refusal) -> Declined:
    """Decline because of a refusal: whoever asks is not told how much of a budget is left, because everybody who may
    look at a task at its coordinator would read it."""
    counts = isinstance(refused, (BudgetExceeded, ClaimEnded)) and not isinstance(refused, Frozen)
    return Declined(code, BEYOND if counts else str(refused), noted=str(refused))


@dataclass(frozen=True, slots=True)
class TaskAsk:
    """One ask: who wants what of which task. `digest` is the SHA-256 of all that was asked for, so that another
    question under the same part is known for one. `declared` is the digest of the schema by which the task goes."""

    task: str
    requestor: str
    document: Mapping[str, Any]
    ask: Ask
    digest: str
    declared: str | None = None


def read(message: Mapping[str, Any]) -> TaskAsk:
    """The ask in a message, or a Mistake that names the field."""
    task, (requestor, document) = task_of(message), who_asks(message)
    told, payload = message.get("ask"), message.get("payload")
    if not isinstance(told, Mapping):
        raise Mistake("ask", "must be an object")
    if payload is not None and not isinstance(payload, Mapping):
        raise Mistake("payload", "must be an object")
    names = [_text(told, name) for name in ("ask_id", "part")]
    counts = [_count(told, name) for name in ("phase", "partition")]
    ask = Ask(names[0], names[1], counts[0], payload or {}, None, counts[1], task)
    declared = message.get("declared")
    if declared is not None and not (isinstance(declared, str) and len(declared) == 64):
        raise Mistake("declared", "must be the SHA-256 of a schema, in hex")
    return TaskAsk(task, requestor, document, ask, _digest(ask), declared)


def who_asks(message: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Read who asks, and the document, or raise a Mistake."""
    requestor, document = message.get("requestor"), message.get("document")
    if not isinstance(requestor, str) or not 0 < len(requestor) <= LONGEST_REQUESTOR or not requestor.isprintable():
        raise Mistake("requestor", "must be a printable name")
    if not isinstance(document, Mapping):
        raise Mistake("document", "must be an object")
    return requestor, document


def task_of(message: Mapping[str, Any]) -> str:
    """The task that a message is about, or a Mistake."""
    task = message.get("task")
    if not isinstance(task, str) or not is_task(task):
        raise Mistake("task", "is not an id")
    return task


def is_task(text: str) -> bool:
    """Return whether a text can be a task's id."""
    return _TASK.fullmatch(text) is not None


def _text(told: Mapping[str, Any], name: str) -> str:
    value = told.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= 200 or not value.isprintable():
        raise Mistake(f"ask.{name}", "must be a printable name")
    return value


def _count(told: Mapping[str, Any], name: str) -> int:
    value = told.get(name)
    if type(value) is not int or not 0 <= value <= _MOST_PHASE:
        raise Mistake(f"ask.{name}", "must be a whole number")
    return value


def _digest(ask: Ask) -> str:
    made = hashlib.sha256(json.dumps([ask.ask_id, ask.part, ask.phase, ask.partition]).encode())
    for name in sorted(ask.payload):
        value = ask.payload[name]
        made.update(json.dumps(name).encode())
        if isinstance(value, np.ndarray):
            made.update(f"{value.dtype.str} {value.shape}".encode())
            made.update(np.ascontiguousarray(value).data)
        else:
            made.update(json.dumps(value, sort_keys=True).encode())
    return made.hexdigest()
