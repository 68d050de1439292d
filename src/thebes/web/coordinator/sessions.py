"""The page of sessions: one's own, and to an operator everybody's, each with a button that ends it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.privacy.faults import Refusal
from thebes.web.coordinator.layout import CoordinatorLayout, sentence, text


def routes(layout: CoordinatorLayout) -> APIRouter:
    made = layout.routes()
    auth = layout.service.auth

    async def listed(request: Request, words: str = "", good: bool = False) -> dict[str, Any]:
        found = await auth.sessions(await layout.somebody(request))
        token = layout.token(request)
        own = None if token is None else layout.service.accounts.session_of(token)
        return {"sessions": found, "own": own, "words": words, "good": good}

    @made.get("/sessions")
    async def show(request: Request) -> Response:
        """The sessions that go on."""
        return await layout.page(request, "sessions.html", title="Sessions", **await listed(request))

    @made.post("/sessions/end")
    async def end(request: Request) -> Response:
        """End one, then show the list again; or lead to the front, where it was this one."""
        body, asking = await layout.written(request), await layout.somebody(request)
        told = await listed(request)
        try:
            await auth.end_session(text(body, "session"), asking)
        except Refusal as refusal:
            return layout.part("sessions_list.html", **await listed(request, sentence(str(refusal))))
        if text(body, "session") == told["own"]:
            return Response(headers={"HX-Redirect": "/sign-in"})
        return layout.part("sessions_list.html", **await listed(request, "That session has ended.", good=True))

    return made
