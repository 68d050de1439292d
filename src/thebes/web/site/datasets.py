"""The page of what can be asked about, what is left of it, and the policy as it was read: which rule lets whom spend
how much."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.web.site.layout import SiteLayout


def routes(layout: SiteLayout) -> APIRouter:
    made = layout.routes()

    @made.get("/datasets")
    async def datasets(request: Request) -> Response:
        rules = (await layout.told("ledger"))["rules"]
        return layout.page(
            request, "datasets.html", title="Data sets", datasets=await layout.told("datasets"), rules=rules
        )

    @made.get("/policy")
    async def policy(request: Request) -> Response:
        told = await layout.told("ledger")
        return layout.page(
            request,
            "policy.html",
            title="Policy",
            rules=told["rules"],
            refusals=told["refusals"],
            trouble=told["policy"],
        )

    return made
