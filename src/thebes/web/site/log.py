"""The audit log: what it says last, and whether it is whole."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.web.site.layout import SiteLayout

_SHOWN = 200


def routes(layout: SiteLayout) -> APIRouter:
    made = layout.routes()

    @made.get("/log")
    async def log(request: Request) -> Response:
        told = await layout.told("audit")
        return layout.page(request, "log.html", title="Audit log", head=told["head"], entries=told["entries"][:_SHOWN])

    @made.get("/log/verified")
    async def verified(request: Request) -> Response:
        """Show whether every entry fits the one before; by itself, because reading all of it takes a moment."""
        return layout.part("verified.html", checks=await layout.told("verified"))

    return made
