"""Signing in at the institution's own identity provider: there, and back.

What must stay true: what comes back counts only in the browser that left, within ten minutes, and once.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from thebes.privacy.faults import Mistake, Refusal
from thebes.web.coordinator.layout import CoordinatorLayout, cookie, sentence
from thebes.web.coordinator.sign_in import inside
from thebes.wire.identity_provider import BegunSignIn

BEGIN, BACK = "/sign-in/begin", "/sign-in/back"
MINUTES = 10


def routes(layout: CoordinatorLayout) -> APIRouter:
    made = layout.routes()
    auth = layout.service.auth

    @made.get(BEGIN)
    async def leave(request: Request, then: str = "/") -> Response:
        """Send the browser to the provider, with what it must come back with in a cookie."""
        if not auth.federated:
            return RedirectResponse("/sign-in", 303)
        begun = await auth.leave_for_provider(_back(request))
        answer = RedirectResponse(begun.url, 303)
        kept = layout.service.accounts.sealed(
            {"state": begun.state, "nonce": begun.nonce, "verifier": begun.verifier, "then": inside(then)}, MINUTES * 60
        )
        # Lax: the provider sends the browser back from another site.
        answer.set_cookie(
            _begun(request),
            kept,
            max_age=MINUTES * 60,
            httponly=True,
            samesite="lax",
            secure=_secure(request),
            path="/sign-in",
        )
        return answer

    @made.get(BACK)
    async def come_back(request: Request, state: str = "", code: str = "", error: str = "") -> Response:
        """Let in whoever the provider says has come back."""
        kept = layout.service.accounts.unsealed(request.cookies.get(_begun(request), ""))
        if kept is None:  # nothing was begun in this browser
            return RedirectResponse("/sign-in", 303)
        try:
            if error or not code:
                return await _told(request, "This sign-in was not finished. Begin it again.")
            begun = BegunSignIn("", kept["state"], kept["nonce"], kept["verifier"])
            token, until = await auth.enter_from_provider(begun, _back(request), state=state, code=code)
        except (Mistake, Refusal) as refusal:
            return await _told(request, sentence(str(refusal)))
        # A page of ours goes on, not a redirection: a browser that comes from another site keeps strict cookies back.
        shown: dict[str, Any] = {"visitor": await layout.known(token), "then": inside(kept["then"])}
        answer = await layout.page(request, "came_back.html", title="Signed in", **shown)
        await layout.let_in(request, answer, token, until)
        answer.delete_cookie(_begun(request), path="/sign-in", httponly=True, samesite="lax", secure=_secure(request))
        return answer

    async def _told(request: Request, words: str) -> Response:
        answer = await layout.page(
            request, "problem.html", title="You are not signed in", status=401, words=words, sign_in=True
        )
        answer.delete_cookie(_begun(request), path="/sign-in", httponly=True, samesite="lax", secure=_secure(request))
        return answer

    return made


def _back(request: Request) -> str:
    return f"{request.url.scheme}://{request.url.netloc}{BACK}"


def _secure(request: Request) -> bool:
    return request.url.scheme == "https"


def _begun(request: Request) -> str:
    return f"{cookie(request)}-begun"
