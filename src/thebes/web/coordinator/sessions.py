"""The page of sessions: one's own, and to an operator everybody's, each with a button that ends it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.privacy.faults import Refusal
from thebes.web.coordinator.layout import Hall, sentence, text


def routes(hall: Hall) -> APIRouter:
    made = hall.routes()
    lobby = hall.reception.lobby

    async def listed(request: Request, words: str = "", good: bool = False) -> dict[str, Any]:
        found = await lobby.sessions(await hall.somebody(request))
        token = hall.token(request)
        own = None if token is None else hall.reception.accounts.session_of(token)
        return {"sessions": found, "own": own, "words": words, "good": good}

    @made.get("/sessions")
    async def show(request: Request) -> Response:
        """The sessions that go on."""
        return await hall.page(request, "sessions.html", title="Sessions", **await listed(request))

    @made.post("/sessions/end")
    async def end(request: Request) -> Response:
        """End one, then show the list again; or lead to the front, where it was this one."""
        body, asking = await hall.written(request), await hall.somebody(request)
        told = await listed(request)
        try:
            await lobby.end_session(text(body, "session"), asking)
        except Refusal as refusal:
            return hall.part("sessions_list.html", **await listed(request, sentence(str(refusal))))
        if text(body, "session") == told["own"]:
            return Response(headers={"HX-Redirect": "/sign-in"})
        return hall.part("sessions_list.html", **await listed(request, "That session has ended.", good=True))

    return made
