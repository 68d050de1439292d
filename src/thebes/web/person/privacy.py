"""My privacy: what was spent, for whom and when, what is left; limits, a copy of everything, and the end of it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime
from shlex import quote
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from fastapi.responses import Response

from thebes.person.home import Person
from thebes.person.settings import LIMITS, TRUSTS
from thebes.privacy.faults import Mistake
from thebes.web.person.layout import PersonLayout, text

CONFIRM = "destroy everything"
_SECONDS = 0.5  #: until the server ends after everything was destroyed, so that its last answer arrives


def routes(layout: PersonLayout) -> APIRouter:
    made, person, door = layout.routes(), layout.person, layout.door

    @made.get("/privacy")
    def privacy(request: Request) -> Response:
        return layout.page(
            request,
            "privacy.html",
            title="My privacy",
            **_context(person),
            told=None,
            remembers=person.remembers(),
            home=quote(str(person.home)),
        )

    @made.get("/privacy/journal")
    def journal(request: Request) -> Response:
        """Show whether the journal is whole; by itself, because reading all of it takes a moment."""
        return layout.part("journal.html", verified=person.verify())

    @made.get("/privacy/spent")
    def spent(request: Request) -> Response:
        return layout.part("spent.html", **_context(person))

    @made.post("/privacy/limits")
    def limits(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        changed: dict[str, Any] = {}
        for trust in TRUSTS:
            given = {name: body[f"{trust}.{name}"] for name in LIMITS if f"{trust}.{name}" in body}
            if given:
                changed[trust] = given
        if "split.shown" in body and "split" not in changed:
            changed["split"] = None
        changed |= {name: body[name] for name in ("delay_seconds", "period_days") if name in body}
        if "task.epsilon" in body:
            changed["task"] = {"epsilon": body["task.epsilon"], "delta": body.get("task.delta", 0)}
        person.set_settings(changed)
        told = ["Your limits are changed. What was spent is not forgotten.", *person.settings().unreached()]
        return layout.part("balance.html", told=" ".join(told), **_context(person))

    @made.post("/privacy/caps")
    def caps(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        """The most one requestor may have; without a number the cap goes."""
        who = text(body, "requestor")
        if not who:
            raise Mistake("requestor", "must be a name, or * for everyone else")
        caps = person.settings().as_json()["caps"].items()
        kept = {name: _cap(cap) for name, cap in caps if name.casefold() != who.casefold()}
        if "epsilon" in body:
            kept[who] = {"epsilon": body["epsilon"]}
        person.set_settings({"caps": kept})
        told = f"{who} may have at most that much in a period." if "epsilon" in body else f"{who} has no cap any more."
        known = {name.casefold() for name in person.requestors()}
        if "epsilon" in body and who != "*" and who.casefold() not in known:
            told += " No task that this machine knows is of that name: write it as the tasks show it."
        return layout.part("balance.html", told=told, **_context(person))

    @made.post("/privacy/destroy")
    def destroy(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        if text(body, "confirm") != CONFIRM:
            raise Mistake("confirm", f'must read "{CONFIRM}", letter by letter; nothing was destroyed')
        person.destroy()
        threading.Timer(_SECONDS, door.stop).start()
        return layout.part("destroyed.html")

    return made


def _cap(cap: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in cap.items() if value is not None}


def _context(person: Person) -> dict[str, Any]:
    ledger, settings = person.ledger(), person.settings()
    return {
        "ledger": ledger,
        "settings": settings.as_json(),
        "cap_of": settings.cap_of,
        "lines": {trust: _line(ledger, trust) for trust in TRUSTS},
        "today": {trust: _days_since(ledger, trust, person.now) for trust in TRUSTS},
        "requestors": _by_requestor(ledger),
        "spent_on": [e for e in reversed(ledger["entries"]) if e["spent"]["epsilon"] or e["reserved"]["epsilon"]],
        "confirm": CONFIRM,
    }


def _line(ledger: Mapping[str, Any], trust: str) -> list[tuple[float, float]]:
    """Add up what was spent of this period's budget, by days since it began."""
    total, points = 0.0, [(0.0, 0.0)]
    for piece in ledger["history"]:
        if trust not in piece["counts_in"]:
            continue
        days = _days_since(ledger, trust, datetime.fromisoformat(piece["at"]))
        if days >= 0:
            total += piece["epsilon"]
            points.append((days, total))
    return points


def _days_since(ledger: Mapping[str, Any], trust: str, moment: datetime) -> float:
    """Count the days from the beginning of a budget's period to a moment."""
    start = datetime.fromisoformat(f"{ledger[trust]['period']['start']}T00:00:00+00:00")
    return (moment - start).total_seconds() / 86_400


def _by_requestor(ledger: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List what each requestor had, by trust, which is never added up."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in ledger["entries"]:
        row = found.setdefault((entry["requestor"], entry["trust"]), {"epsilon": 0.0, "delta": 0.0, "tasks": set()})
        row["epsilon"] += entry["spent"]["epsilon"]
        row["delta"] += entry["spent"]["delta"]
        row["tasks"].add(entry["task_id"])
    rows = [
        {"requestor": who, "trust": trust, "epsilon": row["epsilon"], "delta": row["delta"], "tasks": len(row["tasks"])}
        for (who, trust), row in found.items()
        if row["epsilon"]
    ]
    return sorted(rows, key=lambda row: -row["epsilon"])
