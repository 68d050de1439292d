"""A steward's way in by the institution's own identity provider: there, and back.

What must stay true: what comes back counts only in the browser that left, within ten minutes, and once.
"""

from __future__ import annotations

import asyncio
import time

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from thebes.privacy.faults import Mistake, Refusal
from thebes.site.steward.identity import SESSION_SECONDS
from thebes.web.site.layout import SiteLayout
from thebes.wire.guard import BACK, BEGIN
from thebes.wire.identity_provider import BegunSignIns
from thebes.wire.refusals import NotSignedIn

MINUTES = 10


def routes(layout: SiteLayout) -> APIRouter:
    made, door = layout.routes(), layout.door
    provider, begun = door.provider, BegunSignIns(MINUTES * 60, time.monotonic)
    cookie = f"{door.cookie}-begun"

    @made.get(BEGIN)
    async def leave(request: Request) -> Response:
        """Send the browser to the provider; what it must come back with stays here, under a name in a cookie."""
        if provider is None:
            return RedirectResponse("/", 303)
        left = await asyncio.to_thread(provider.begin, _back(request))
        answer = RedirectResponse(left.url, 303)
        # Lax: the provider sends the browser back from another site.
        answer.set_cookie(
            cookie, begun.keep(left), max_age=MINUTES * 60, httponly=True, samesite="lax", path="/sign-in"
        )
        return answer

    @made.get(BACK)
    async def come_back(request: Request, state: str = "", code: str = "", error: str = "") -> Response:
        """Let in whoever the provider says has come back."""
        if provider is None:
            return RedirectResponse("/", 303)
        left = begun.take(request.cookies.get(cookie, ""))
        try:
            if left is None or error or not code:
                raise NotSignedIn("this sign-in was not finished; begin it again")
            back = _back(request)
            found = await asyncio.to_thread(provider.finish, left, back, state=state, code=code)
            if found.role is None:
                raise NotSignedIn("you are known, and none of your groups is a steward's here")
        except (Mistake, Refusal) as refusal:
            return layout.outside(request, told=str(refusal))
        # A page of ours goes on, not a redirection: a browser that comes from another site keeps strict cookies back.
        answer = layout.frame.page(request, "site/came_back.html", title="Signed in", places=(), who=found.name)
        session = door.admit(found.name, SESSION_SECONDS)
        answer.set_cookie(door.cookie, session, httponly=True, samesite="strict", path="/")
        answer.delete_cookie(cookie, path="/sign-in", httponly=True, samesite="lax")
        return answer

    return made


def _back(request: Request) -> str:
    return f"http://{request.url.netloc}{BACK}"
