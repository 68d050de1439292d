"""The operator's own page: how tasks and sites stand, what waits, how long things take, what was refused and why."""

from __future__ import annotations

import math

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.privacy.figures import figure
from thebes.web.coordinator.layout import CoordinatorLayout
from thebes.web.coordinator.sites import STATES


def routes(layout: CoordinatorLayout) -> APIRouter:
    made = layout.routes()

    @made.get("/operation")
    async def show(request: Request) -> Response:
        """Show it to operators and auditors."""
        told = await layout.service.operation.told(await layout.somebody(request))
        within = {name: _within(told[name]) for name in ("requests_within", "phases_within")}
        return await layout.page(request, "operation.html", title="Operation", **{**told, **within}, states=STATES)

    return made


def _within(seconds: float | None) -> str:
    """Say within which time 99 of 100 were over."""
    if seconds is None:
        return "none yet"
    return "longer than is measured" if math.isinf(seconds) else f"at most {figure(seconds)} s"
