"""The page on which somebody lets a program in that shows a code: first which one and from where, then the decision.

What must stay true: nobody decides about a program that they were not shown.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from thebes.coordinator.auth.device_codes import shown
from thebes.privacy.faults import Refusal
from thebes.web.coordinator.layout import CoordinatorLayout, sentence, text


def routes(layout: CoordinatorLayout) -> APIRouter:
    made = layout.routes()
    auth = layout.service.auth

    @made.get("/device")
    async def show(request: Request) -> Response:
        """A field for the code; for whoever is signed in."""
        if (await layout.visitor(request)).somebody is None:
            return RedirectResponse("/sign-in?then=/device", 303)
        return await layout.page(request, "device.html", title="Let a program in")

    @made.post("/device")
    async def look(request: Request) -> Response:
        """Tell which program shows the code, and ask."""
        body, asking = await layout.written(request), await layout.somebody(request)
        try:
            found = await auth.waiting(text(body, "code"), asking)
        except Refusal as refusal:
            return layout.note(sentence(str(refusal)))
        return layout.part("device_found.html", program=found, code=shown(found.code), somebody=asking)

    @made.post("/device/decision")
    async def decide(request: Request) -> Response:
        """Let it in, or not."""
        body, asking = await layout.written(request), await layout.somebody(request)
        let_in = text(body, "decision") == "let in"
        try:
            found = await auth.decide(text(body, "code"), asking, let_in=let_in)
        except Refusal as refusal:
            return layout.note(sentence(str(refusal)))
        if let_in:
            return layout.note(f"{found.client} may ask as {asking.name} now. Go back to it.", good=True)
        return layout.note(f"{found.client} was refused.", good=True)

    return made
