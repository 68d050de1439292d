"""Everything that was asked of this site: by whom, when, what was decided, what it cost; and one request whole."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.web.site.layout import Lodge
from thebes.wire.refusals import NotFound

_MOST_ENTRIES = 100


def routes(lodge: Lodge) -> APIRouter:
    made = lodge.routes()

    @made.get("/requests")
    async def requests(request: Request) -> Response:
        return lodge.page(request, "requests.html", title="Requests", requests=await lodge.told("requests"))

    @made.get("/requests/{task}")
    async def one(request: Request, task: str) -> Response:
        """One request, with what the log says of it."""
        found = next((each for each in await lodge.told("requests") if each["task"] == task), None)
        if found is None:
            raise NotFound("there is no such request, or it was long ago; the audit log has them all")
        entries = [e for e in (await lodge.told("audit"))["entries"] if e["facts"].get("task") == task]
        return lodge.page(request, "request.html", title=_title(found), request_=found, entries=entries[:_MOST_ENTRIES])

    return made


def _title(request: dict[str, Any]) -> str:
    named = (request.get("document") or {}).get("name")
    return str(named or f"A {request['kind']} task of {request['requestor']}")
