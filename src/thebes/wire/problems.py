"""Errors as RFC 9457 problem details and back: the one file that knows both.

What must stay true: an error raised on one machine is the same class on the other; a fault of ours says nothing of
the inside; whatever a stranger sends becomes one of our errors, in printable text of bounded length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from http import HTTPStatus
from typing import Any

from thebes.ledger.amounts import Amount, Budget
from thebes.ledger.refusals import BlockRetired, BudgetExceeded, ClaimEnded, Frozen, LedgerUnavailable
from thebes.privacy.faults import Fault, Mistake, Refusal, ThebesError
from thebes.privacy.mechanisms.sparse_vector import AlreadyAnswered
from thebes.tasks.document import InvalidDocument
from thebes.tasks.protocols import OutlyingContribution, StaleContribution, TaskClosed
from thebes.wire.refusals import (
    BrokenLog,
    Busy,
    Conflict,
    Malformed,
    NotAllowed,
    NotFound,
    NotSignedIn,
    TooLarge,
    Unreachable,
)

MEDIA_TYPE = "application/problem+json"
LONGEST = 2000  #: characters of a detail that are kept
MOST_PROBLEMS = 100

#: the most exact row of an error's class tree counts
_STATUS: dict[type[ThebesError], int] = {
    Malformed: 400,
    Mistake: 422,
    OutlyingContribution: 422,
    StaleContribution: 422,
    NotSignedIn: 401,
    BudgetExceeded: 402,
    NotAllowed: 403,
    Refusal: 403,
    NotFound: 404,
    Conflict: 409,
    ClaimEnded: 409,
    AlreadyAnswered: 409,
    TaskClosed: 410,
    TooLarge: 413,
    Busy: 429,
    BrokenLog: 502,
    Unreachable: 502,
    LedgerUnavailable: 503,
    Fault: 500,
    ThebesError: 500,
}
_INSIDE = "the server found a fault of its own and released nothing; its operator finds more in its log"


def status_of(error: BaseException) -> int:
    """The HTTP status that says what `error` says; 500 for whatever nobody raised on purpose."""
    for class_ in type(error).__mro__:
        if class_ in _STATUS:
            return _STATUS[class_]
    return 500


def to_problem(error: BaseException) -> tuple[int, dict[str, Any]]:
    """(status, problem details) for an error. Of a fault, or of any foreign exception, nothing is told."""
    status = status_of(error)
    name = next((c.__name__ for c in type(error).__mro__ if c.__name__ in _READERS), "Fault")
    if isinstance(error, Fault) or not isinstance(error, ThebesError):
        return status, problem(500, _INSIDE, error="Fault")
    body = problem(status, error.message if isinstance(error, Mistake) else str(error), error=name)
    if isinstance(error, Mistake):
        body["field"] = error.argument[:LONGEST]
    if isinstance(error, InvalidDocument):
        body["problems"] = [{"field": f, "message": m} for f, m in error.problems[:MOST_PROBLEMS]]
    if isinstance(error, BudgetExceeded):
        body["block"] = error.block
        body["requested"] = _budget_as_json(error.requested)
        body["remaining"] = _budget_as_json(error.remaining)
        if error.spender is not None:
            body["spender"] = error.spender
    if isinstance(error, Busy):
        body["seconds"] = error.seconds
    return status, body


def problem(status: int, detail: str, *, error: str | None = None, field: str | None = None) -> dict[str, Any]:
    """Problem details for a status and a sentence: for guards that answer before anything of ours is raised."""
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        title = "Error"
    kind = "about:blank" if error is None else f"urn:thebes:error:{error}"  # its entry in docs/errors.md
    body: dict[str, Any] = {"type": kind, "title": title, "status": status, "detail": detail[:LONGEST]}
    if field is not None:
        body["field"] = field
    if error is not None:
        body["error"] = error
    return body


def from_problem(status: int, body: object) -> ThebesError:
    """The error a server meant. Any answer can be read: what is missing or makes no sense is left out."""
    told: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    detail = printable(told.get("detail")) or printable(told.get("title")) or f"the server answered {status}"
    name = told.get("error")
    if isinstance(name, str) and name in _READERS:
        made = _READERS[name](detail, told)
        if status_of(made) == status:
            return made
    return _BY_STATUS.get(status, _unknown(status))(detail, told)


def printable(value: object, longest: int = LONGEST) -> str:
    """Text of a stranger as a terminal may show it: one line, no control characters, not too long."""
    if not isinstance(value, str):
        return ""
    return "".join(c if c.isprintable() else " " for c in value[:longest]).strip()


_Reader = Callable[[str, Mapping[str, Any]], ThebesError]


def _mistake(class_: type[Mistake]) -> _Reader:
    return lambda detail, told: class_(printable(told.get("field"), 200) or "request", detail)


def _plain(class_: type[ThebesError]) -> _Reader:
    return lambda detail, told: class_(detail)


def _invalid(detail: str, told: Mapping[str, Any]) -> ThebesError:
    listed = told.get("problems")
    rows = [row for row in listed if isinstance(row, Mapping)] if isinstance(listed, list) else []
    found = [(printable(row.get("field"), 200), printable(row.get("message"))) for row in rows[:MOST_PROBLEMS]]
    found = [(field, message) for field, message in found if field and message]
    return InvalidDocument(found or [(printable(told.get("field"), 200) or "document", detail)])


def _exceeded(class_: type[BudgetExceeded]) -> _Reader:
    def read(detail: str, told: Mapping[str, Any]) -> ThebesError:
        requested, remaining = _budget(told.get("requested")), _budget(told.get("remaining"))
        if requested is None or remaining is None:
            return Refusal(detail)
        spender = printable(told.get("spender"), 200) or None
        return class_(printable(told.get("block"), 200), requested, remaining, spender)

    return read


def _busy(detail: str, told: Mapping[str, Any]) -> ThebesError:
    seconds = told.get("seconds")
    known = isinstance(seconds, (int, float)) and 0 <= seconds <= 86_400
    return Busy(detail, float(seconds) if known and seconds is not None else 1.0)


def _unreachable(detail: str, told: Mapping[str, Any]) -> ThebesError:
    url, separator, message = detail.partition(": ")
    return Unreachable(url, message) if separator else Unreachable("the server", detail)


def _unknown(status: int) -> _Reader:
    if 400 <= status < 500:
        return _plain(Refusal)
    return _plain(Fault) if status == 500 else _unreachable_at


def _unreachable_at(detail: str, told: Mapping[str, Any]) -> ThebesError:
    return Unreachable("the server", detail)


def _budget_as_json(budget: Budget) -> dict[str, str]:
    return {"epsilon": str(budget.epsilon), "delta": str(budget.delta)}  # text: exact, where a float is not


def _budget(value: object) -> Budget | None:
    if not isinstance(value, Mapping):
        return None
    try:
        parts = [Decimal(str(value[name])[:60]) for name in ("epsilon", "delta")]
    except (KeyError, InvalidOperation):
        return None
    if not all(part.is_finite() and abs(part.adjusted()) < 40 for part in parts):
        return None
    return Budget(Amount(parts[0]), Amount(parts[1]))


_READERS: dict[str, _Reader] = {
    "Mistake": _mistake(Mistake),
    "Malformed": _mistake(Malformed),
    "InvalidDocument": _invalid,
    "BudgetExceeded": _exceeded(BudgetExceeded),
    "Frozen": _exceeded(Frozen),
    "BlockRetired": _exceeded(BlockRetired),
    "Busy": _busy,
    "Unreachable": _unreachable,
    **{
        class_.__name__: _plain(class_)
        for class_ in (
            AlreadyAnswered,
            BrokenLog,
            Conflict,
            Fault,
            LedgerUnavailable,
            NotAllowed,
            NotFound,
            NotSignedIn,
            OutlyingContribution,
            Refusal,
            StaleContribution,
            TaskClosed,
            TooLarge,
        )
    },
}

NAMES = frozenset(_READERS)  #: every `error` that problem details may name

_BY_STATUS: dict[int, _Reader] = {
    400: _mistake(Malformed),
    401: _plain(NotSignedIn),
    402: _exceeded(BudgetExceeded),
    403: _plain(NotAllowed),
    404: _plain(NotFound),
    409: _plain(Conflict),
    410: _plain(TaskClosed),
    413: _plain(TooLarge),
    415: _mistake(Malformed),
    422: _mistake(Mistake),
    429: _busy,
    503: _busy,
}
