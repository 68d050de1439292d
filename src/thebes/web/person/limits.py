"""Your limits: what one task, thirty days, a year and everything may take; chosen before the first yes."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from fastapi.responses import Response

from thebes.person.home import Person
from thebes.person.rest_schema import TASK_ID
from thebes.person.settings import SMALLEST, TRUSTS, read_number
from thebes.privacy.faults import Mistake
from thebes.web.person import words
from thebes.web.person.layout import PersonLayout, attempt

DAYS = 30
#: what is proposed: name, whose question it answers, epsilon and delta. At 1 a guess is right three times in four.
PROPOSED = (
    ("task", "One task, without a second question", Decimal(1), Decimal("1e-7")),
    ("period", f"All tasks of {DAYS} days", Decimal(3), Decimal("1e-6")),
    ("year", "All tasks of any year", Decimal(12), Decimal("1e-5")),
    ("overall", "All tasks ever; then you decide anew", Decimal(36), Decimal("3e-5")),
)


def routes(layout: PersonLayout) -> APIRouter:
    made, person = layout.routes(), layout.person

    @made.get("/limits")
    def limits(request: Request, task: str = "") -> Response:
        from re import fullmatch

        return layout.page(
            request, "limits.html", title="Your limits", told=None, remembers=person.remembers(),
            task=task if fullmatch(TASK_ID, task) else "", **context(person),
        )  # fmt: skip

    @made.post("/limits/odds")
    def odds(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        """Say what the limits in the form would mean, or what is wrong with them."""
        chosen, lacking = attempt(lambda: read_limits(body))
        return layout.part("odds.html", lacking=lacking, rows=_rows(chosen or {}, person))

    @made.post("/limits")
    def choose(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        chosen = read_limits(body)
        person.set_settings(as_settings(chosen, own=person.settings().split is not None))
        told = "Your limits hold from now on. What was spent before is not forgotten."
        return layout.part("limits_form.html", told=told, task=str(body.get("task_id", "")), **context(person))

    return made


def read_limits(body: dict[str, Any]) -> dict[str, Decimal]:
    """Read a form as limits, each at least as large as the one before."""
    found: dict[str, Decimal] = {}
    before = SMALLEST
    for name, label, *_ in PROPOSED:
        if name not in body:
            raise Mistake(label, "must be given")
        number = read_number(label, body[name])
        if number < before:
            raise Mistake(label, f"must be at least {before:f}{', the limit above it' if found else ''}")
        found[name] = before = number
    return found


def as_settings(chosen: dict[str, Decimal], *, own: bool) -> dict[str, Any]:
    """Return limits as settings: the same for every budget, with the deltas that are proposed. Two servers are given
    none of their own here; they keep it where they have one."""
    delta = {name: value for name, _, _, value in PROPOSED}
    each = {
        "epsilon": chosen["period"],
        "delta": delta["period"],
        **{f"{w}_epsilon": chosen[w] for w in ("year", "overall")},
        **{f"{w}_delta": delta[w] for w in ("year", "overall")},
    }
    task = {"epsilon": chosen["task"], "delta": delta["task"]}
    split = {"split": dict(each)} if own else {}
    return {"period_days": DAYS, "task": task, "local": each, "trusted": dict(each), **split}


def context(person: Person) -> dict[str, Any]:
    """Return what the form of limits shows: those that were chosen, or else those that are proposed."""
    settings = person.settings()
    proposed = {name: epsilon for name, _, epsilon, _ in PROPOSED}
    if settings.task is None:
        return {"chosen": False, "apart": False, "own": settings.split is not None, "rows": _rows(proposed, person)}
    local = settings.local
    now = {"task": settings.task.epsilon, "period": local.epsilon, "year": local.year[0]}
    rows = _rows({**now, "overall": local.overall_epsilon}, person)
    apart = any(settings.allowance(trust) != local for trust in TRUSTS)
    return {"chosen": True, "apart": apart, "own": settings.split is not None, "rows": rows}


def _rows(limits: dict[str, Decimal], person: Person) -> list[dict[str, Any]]:
    """Put odds beside each limit: of the limit, or of what is spent where that is more and so stays."""
    rows, ledger = [], person.balance()
    for name, label, _, delta in PROPOSED:
        if name not in limits:
            continue
        held = [_held(ledger[trust][name]) for trust in TRUSTS if name != "task"]
        gone, failing = (max(each) for each in zip((0.0, 0.0), *held, strict=True))
        epsilon = float(limits[name])
        told = words.guess(min(max(epsilon, gone), 1e5), max(float(delta), failing))
        rows.append({"name": name, "label": label, "epsilon": epsilon, "gone": gone, "guess": told})
    return rows


def _held(block: Mapping[str, Any]) -> tuple[float, float]:
    """Return the epsilon and the delta of a block that are spent or set aside."""
    spent, reserved = block["spent"], block["reserved"]
    return spent["epsilon"] + reserved["epsilon"], spent["delta"] + reserved["delta"]
