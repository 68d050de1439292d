"""The front: a browser comes in, and sees how the site stands, what is left, and what was asked last."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from fastapi.responses import RedirectResponse, Response

from thebes.web.site.layout import Lodge
from thebes.wire.refusals import NotFound

_LATEST = 6
_USED = "this address was used before; each works once"


def routes(lodge: Lodge) -> APIRouter:
    made, door = lodge.routes(), lodge.door

    @made.get("/")
    async def front(request: Request, code: str = "") -> Response:
        """A code is exchanged for a cookie that only this address gets back; the code works once."""
        if code:
            session = door.enter(code)
            if session is None:
                return lodge.outside(request, told=_USED)
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(door.cookie, session, httponly=True, samesite="strict", path="/")
            return answer
        if not door.knows(request.headers):
            return lodge.outside(request)
        shown = {"browsers": door.sessions(request.headers), **await _standing(lodge)}
        return lodge.page(request, "overview.html", title=f"The site {lodge.link.name}", **shown)

    @made.post("/browsers/end")
    async def end(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        """End the session of a browser, this one or another."""
        if not door.end(str(body.get("browser"))):
            raise NotFound("this session has ended already")
        return lodge.part("browsers.html", browsers=door.sessions(request.headers))

    @made.get("/standing")
    async def standing(request: Request) -> Response:
        """Show what of the front changes by itself."""
        return lodge.part("standing.html", **await _standing(lodge))

    return made


async def _standing(lodge: Lodge) -> dict[str, Any]:
    requests, trouble = await lodge.attempt("requests")
    ledger = None if trouble else (await lodge.attempt("ledger"))[0]
    return {
        "link": lodge.link.shown(),
        "confined": lodge.confined,
        "trouble": trouble,
        "requests": (requests or [])[:_LATEST],
        "ledger": ledger,
    }
