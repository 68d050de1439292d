"""Signing in and out. The token comes into a cookie that no script reads, and is shown to nobody."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.privacy.faults import Refusal
from thebes.web.coordinator.layout import CoordinatorLayout, cookie, from_here, sentence, text
from thebes.wire.address import is_loopback


def routes(layout: CoordinatorLayout) -> APIRouter:
    made = layout.routes()

    @made.get("/sign-in")
    async def show(request: Request, then: str = "/") -> Response:
        """A form for name and password, or for a token."""
        open_to_all = request.url.scheme != "https" and not is_loopback(request.url.hostname or "")
        shown: dict[str, Any] = {
            "then": inside(then),
            "overheard": open_to_all,
            "federated": layout.service.auth.federated,
        }
        return await layout.page(request, "sign_in.html", title="Sign in", **shown)

    @made.post("/sign-in")
    async def enter(request: Request) -> Response:
        """A session in place of the one that this browser had, which ends; or why there is none."""
        body = await layout.written(request)
        token, password = text(body, "token"), body.get("password")
        try:
            if not token:
                name = text(body, "username")
                if not name or not isinstance(password, str) or not password:
                    return layout.note("Give a user name and a password, or a token.")
                token, _ = await layout.service.auth.login(name, password)
            token = layout.service.accounts.session(token)
            visitor = await layout.known(token)
        except Refusal as refusal:
            return layout.note(f"{sentence(str(refusal))} Try again.")
        answer = Response(headers={"HX-Redirect": inside(text(body, "then"))})
        await layout.let_in(request, answer, token, visitor.until)
        return answer

    @made.post("/sign-out")
    async def leave(request: Request) -> Response:
        """End this session, in whatever browser and program its token is, and forget it in this one. Others of the same
        user go on."""
        from_here(request)
        token = layout.token(request)
        if token is not None:
            await layout.service.auth.leave(token)
        answer = Response(headers={"HX-Redirect": "/"})
        answer.delete_cookie(
            cookie(request), path="/", httponly=True, samesite="strict", secure=request.url.scheme == "https"
        )
        return answer

    return made


def inside(address: str) -> str:
    """Return where to go on; never to another server."""
    safe = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isascii()
    return address if safe and address.isprintable() else "/"
