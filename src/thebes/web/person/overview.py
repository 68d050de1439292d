"""The front: a browser comes in, and sees what waits, what is left, what lies here."""

from __future__ import annotations

import json
from shlex import quote
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from thebes.person.home import Person
from thebes.web.person import states
from thebes.web.person.layout import PersonLayout, attempt
from thebes.web.person.welcome import is_new


def routes(layout: PersonLayout) -> APIRouter:
    made, person, door = layout.routes(), layout.person, layout.door

    @made.get("/")
    def front(request: Request, code: str = "") -> Response:
        """A code is exchanged for a cookie that only this address gets back; the code works once."""
        if code:
            session = door.enter(code)
            if session is None:
                return _outside(layout, request, used=True)
            answer = RedirectResponse("/welcome" if is_new(person) else "/", status_code=303)
            answer.set_cookie(door.cookie, session, httponly=True, samesite="strict", path="/")
            return answer
        if not door.knows(request.headers):
            return _outside(layout, request, used=False)
        return layout.page(
            request,
            "overview.html",
            title="Your machine",
            coordinator=person.coordinator,
            key=person.coordinator_key(),
            store=person.store(),
            home=quote(str(person.home)),
            **_here(person),
        )

    @made.get("/operator")
    def operator(request: Request) -> Response:
        """Show who runs the coordinator; by itself, because it may be slow or away."""
        about, trouble = attempt(person.about_coordinator)
        return layout.part("operator.html", operator=about, trouble=trouble)

    @made.get("/moment/{seen}")
    def moment(request: Request, seen: str) -> Response:
        """Say whether anything may have changed since a page was made; then its parts ask for themselves."""
        if seen == layout.moment:
            return Response(status_code=204)
        answer = layout.part("moment.html", moment=layout.moment)
        answer.headers["HX-Trigger"] = json.dumps({"changed": {"badge": person.new_questions}})
        return answer

    @made.get("/here")
    def here(request: Request) -> Response:
        return layout.part("here.html", **_here(person))

    @made.get("/waiting")
    def waiting(request: Request) -> Response:
        """Show what waits for a decision; by itself, because the coordinator may be slow or away."""
        tasks, trouble = attempt(person.tasks)
        undecided = [task for task in tasks or () if task["state"] == "seen" and states.may_decide(task)]
        unread = 0 if trouble else len(person.unread())
        return layout.part("waiting.html", tasks=undecided, trouble=trouble, unread=unread)

    return made


def _here(person: Person) -> dict[str, Any]:
    """Tell what is left of the budget, and what was agreed to last."""
    agreed = [p for p in reversed(person.participations()) if p["state"] not in ("seen", "declined")]
    chosen = person.settings().task is not None
    return {"ledger": person.balance(), "latest": agreed[:4], "chosen": chosen}


def _outside(layout: PersonLayout, request: Request, *, used: bool) -> Response:
    return layout.frame.page(request, "person/outside.html", status=401, title="Thebes", places=(), used=used)
