"""The front: a browser comes in, and sees how the site stands, what is left, and what was asked last."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from fastapi.responses import RedirectResponse, Response

from thebes.web.site.layout import SiteLayout
from thebes.wire.refusals import NotFound

_LATEST = 6
_USED = "this address was used before; each works once"


def routes(layout: SiteLayout) -> APIRouter:
    made, door = layout.routes(), layout.door

    @made.get("/")
    async def front(request: Request, code: str = "") -> Response:
        """A code is exchanged for a cookie that only this address gets back; the code works once."""
        if code:
            session = door.enter(code)
            if session is None:
                return layout.outside(request, told=_USED)
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(door.cookie, session, httponly=True, samesite="strict", path="/")
            return answer
        if not door.knows(request.headers):
            return layout.outside(request)
        shown = {"browsers": door.sessions(request.headers), **await _standing(layout)}
        return layout.page(request, "overview.html", title=f"The site {layout.link.name}", **shown)

    @made.post("/browsers/end")
    async def end(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        """End the session of a browser, this one or another."""
        if not door.end(str(body.get("browser"))):
            raise NotFound("this session has ended already")
        return layout.part("browsers.html", browsers=door.sessions(request.headers))

    @made.get("/standing")
    async def standing(request: Request) -> Response:
        """Show what of the front changes by itself."""
        return layout.part("standing.html", **await _standing(layout))

    return made


async def _standing(layout: SiteLayout) -> dict[str, Any]:
    requests, trouble = await layout.attempt("requests")
    ledger = None if trouble else (await layout.attempt("ledger"))[0]
    return {
        "link": layout.link.shown(),
        "confined": layout.confined,
        "trouble": trouble,
        "requests": (requests or [])[:_LATEST],
        "ledger": ledger,
    }
