"""An error raised on one machine is the same error on the other, and nothing of the inside travels with it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from thebes.ledger.amounts import Amount, Budget
from thebes.ledger.refusals import BlockRetired, BudgetExceeded, ClaimEnded, Frozen, LedgerUnavailable, Tampered
from thebes.privacy.faults import Fault, Mistake, Refusal, ThebesError
from thebes.privacy.mechanisms.sparse_vector import AlreadyAnswered
from thebes.tasks.document import InvalidDocument
from thebes.tasks.protocols import TaskClosed
from thebes.wire.problems import from_problem, problem, to_problem
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

TENTH = Budget(Amount("0.1"), Amount("1e-9"))
NOTHING = Budget(Amount(0), Amount(0))

CASES: list[tuple[ThebesError, int]] = [
    (Mistake("epsilon", "must be positive"), 422),
    (Malformed("body", "is not JSON"), 400),
    (InvalidDocument([("epsilon", "is missing"), ("type", "is missing")]), 422),
    (NotSignedIn("sign in first"), 401),
    (BudgetExceeded("2026-W47", TENTH, NOTHING, "ana"), 402),
    (Frozen("2026-W47", TENTH, NOTHING), 402),
    (BlockRetired("2026-W47", TENTH, NOTHING), 402),
    (NotAllowed("for operators only"), 403),
    (Refusal("a policy said no"), 403),
    (NotFound("there is no such task"), 404),
    (Conflict("said otherwise before"), 409),
    (AlreadyAnswered("answered above"), 409),
    (TaskClosed("closed"), 410),
    (TooLarge("larger than 10 bytes"), 413),
    (Busy("too much to do", 7.5), 429),
    (BrokenLog("broken at entry 3"), 502),
    (Unreachable("http://127.0.0.1:9", "nothing answers there"), 502),
    (LedgerUnavailable("cannot be read"), 503),
]


@pytest.mark.parametrize(("error", "status"), CASES, ids=lambda x: type(x).__name__ if isinstance(x, Exception) else "")
def test_an_error_travels_with_its_status_and_comes_back_as_itself(error: ThebesError, status: int) -> None:
    sent, body = to_problem(error)
    assert sent == status == body["status"]
    assert {"type", "title", "status", "detail"} <= set(body)
    assert body["type"] == f"urn:thebes:error:{body['error']}"
    back = from_problem(sent, body)
    assert type(back) is type(error)
    assert str(back) == str(error)


def test_a_mistake_names_its_field_and_a_document_every_field_at_fault() -> None:
    _, body = to_problem(InvalidDocument([("epsilon", "is missing"), ("bounds.age", "is missing")]))
    assert body["field"] == "epsilon"
    assert body["problems"] == [
        {"field": "epsilon", "message": "is missing"},
        {"field": "bounds.age", "message": "is missing"},
    ]
    back = from_problem(422, body)
    assert isinstance(back, InvalidDocument)
    assert back.problems == [("epsilon", "is missing"), ("bounds.age", "is missing")]


def test_a_refused_budget_brings_its_amounts_exactly() -> None:
    asked = Budget(Amount("0.100000000001"), Amount("1e-18"))
    back = from_problem(*to_problem(BudgetExceeded("b", asked, NOTHING)))
    assert isinstance(back, BudgetExceeded)
    assert back.requested.epsilon == Decimal("0.100000000001")
    assert back.requested.delta == Decimal("1e-18")
    assert back.remaining == NOTHING
    assert back.spender is None


@pytest.mark.parametrize(
    "error", [Fault("secret inside 42"), Tampered(("block 17 differs",)), KeyError("a row"), ZeroDivisionError()]
)
def test_nothing_of_the_inside_is_told(error: Exception) -> None:
    status, body = to_problem(error)
    assert status == 500
    told = str(body)
    assert "42" not in told
    assert "17" not in told
    assert "row" not in told
    assert type(from_problem(status, body)) is Fault


def test_a_roles_own_refusal_travels_as_the_nearest_known_one() -> None:
    class WrongPassword(NotSignedIn):
        pass

    status, body = to_problem(WrongPassword("name or password is wrong"))
    assert (status, body["error"]) == (401, "NotSignedIn")
    assert to_problem(ClaimEnded(3, "is closed"))[0] == 409


@pytest.mark.parametrize(
    ("status", "class_"),
    [
        (400, Malformed),
        (401, NotSignedIn),
        (402, Refusal),
        (403, NotAllowed),
        (404, NotFound),
        (405, Refusal),
        (409, Conflict),
        (410, TaskClosed),
        (413, TooLarge),
        (415, Malformed),
        (421, Refusal),
        (422, Mistake),
        (429, Busy),
        (500, Fault),
        (502, Unreachable),
        (503, Busy),
        (504, Unreachable),
    ],
)
@pytest.mark.parametrize("body", [None, [], "text", {}, {"detail": 3, "error": ["x"], "requested": 1, "problems": 2}])
def test_a_foreign_servers_answer_is_still_one_of_our_errors(
    status: int, class_: type[ThebesError], body: object
) -> None:
    error = from_problem(status, body)
    assert type(error) is class_
    assert str(error)


def test_an_error_that_does_not_fit_its_status_is_not_believed() -> None:
    assert type(from_problem(403, {"error": "TaskClosed", "detail": "x"})) is NotAllowed
    assert type(from_problem(410, {"error": "BudgetExceeded", "detail": "x"})) is TaskClosed


def test_a_strangers_text_cannot_steer_a_terminal_and_is_bounded() -> None:
    error = from_problem(404, {"detail": "a\x1b[2Jb\r\nc" + "\u202e" + "d" * 10_000})
    assert str(error).isprintable()
    assert len(str(error)) <= 2000


@pytest.mark.parametrize("amount", ["NaN", "inf", "1e999999", "x", None, {"a": 1}])
def test_impossible_amounts_are_left_out(amount: object) -> None:
    told = {"error": "BudgetExceeded", "detail": "no", "requested": {"epsilon": amount, "delta": "0"}, "remaining": {}}
    assert type(from_problem(402, told)) is Refusal


def test_a_guards_own_problem_has_the_same_form() -> None:
    assert problem(421, "this is not that host") == {
        "type": "about:blank",
        "title": "Misdirected Request",
        "status": 421,
        "detail": "this is not that host",
    }
    assert problem(799, "odd")["title"] == "Error"
