"""Groups this person belongs to: joining one with a code, and what anonymity each offers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from fastapi.responses import Response

from thebes.web.person.layout import PersonLayout, attempt, text


def routes(layout: PersonLayout) -> APIRouter:
    made, person = layout.routes(), layout.person

    @made.get("/groups")
    def groups(request: Request) -> Response:
        found, missing = attempt(person.groups)
        return layout.page(request, "groups.html", title="Groups", groups=found or [], missing=missing)

    @made.post("/groups/join")
    def join(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        pin = "".join(text(body, "pin").split()).lower() or None
        names = "public" if body.get("names") in (True, "on", "public") else "private"
        joined = person.enrol(text(body, "name"), text(body, "code"), pin, names=names)
        told = f"You are a member of {joined['name']}, epoch {joined['epoch']}."
        return layout.part("memberships.html", groups=person.groups(), missing=None, told=told)

    return made
