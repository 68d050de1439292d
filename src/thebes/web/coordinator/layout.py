"""The parts that all pages of the coordinator share: who looks, what may be written, how a refusal is told.

What must stay true: a page writes only as JSON and only from this very server; its token stays in a cookie that no
script reads; what a page does, it does through the same service as the interface.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from thebes.coordinator.auth.accounts import Role, Somebody
from thebes.coordinator.service import CoordinatorService
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.reading import NotJSON, read_json
from thebes.web.coordinator import words as page_words
from thebes.web.frame import NavigationEntry, PageFrame, partial
from thebes.web.refusals import routes
from thebes.wire.problems import to_problem
from thebes.wire.refusals import Malformed, NotAllowed, NotFound, NotSignedIn
from thebes.wire.refused_sites import together, verdict

PLACES = (
    NavigationEntry("/", "Open tasks"),
    NavigationEntry("/ended", "Ended"),
    NavigationEntry("/ask", "Ask"),
    NavigationEntry("/sites", "Sites"),
    NavigationEntry("/schemas", "Schemas"),
    NavigationEntry("/groups", "Groups"),
    NavigationEntry("/log", "Log"),
)
MODELS = NavigationEntry("/models", "Models")  #: for whoever is signed in
USERS = NavigationEntry("/users", "Users")  #: for operators
OPERATION = NavigationEntry("/operation", "Operation")  #: for operators and auditors
_ID = re.compile(r"[!-~]{1,200}")


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who looks at a page. Nobody in particular may look too; `until` is when their sign-in ends by itself."""

    somebody: Somebody | None = None
    until: datetime | None = None

    @property
    def operates(self) -> bool:
        return self.somebody is not None and self.somebody.role is Role.OPERATOR

    @property
    def watches(self) -> bool:
        """True where they may see how the coordinator works."""
        return self.somebody is not None and self.somebody.role in (Role.OPERATOR, Role.AUDITOR)

    @property
    def asks(self) -> bool:
        """True where they may put tasks up."""
        return self.somebody is not None and self.somebody.role in (Role.REQUESTOR, Role.OPERATOR)

    def cancels(self, requestor: str) -> bool:
        """Return whether they may cancel a task of that requestor."""
        return self.operates or (self.somebody is not None and self.somebody.name == requestor)


class CoordinatorLayout:
    """One coordinator's pages."""

    def __init__(self, frame: PageFrame, service: CoordinatorService) -> None:
        self._frame = frame
        self.service = service

    def routes(self) -> APIRouter:
        """Make the router that a page's routes are put on; what they refuse is told as a page or as a sentence."""
        return routes(self.refused, Mistake, Refusal)

    # --- answers ----------------------------------------------------------------------------------------

    async def page(self, request: Request, template: str, *, title: str, status: int = 200, **more: Any) -> Response:
        """A whole page, for whoever looks."""
        visitor = more.pop("visitor", None) or await self.visitor(request)
        places = (*PLACES, MODELS) if visitor.somebody is not None else PLACES
        places = (*places, USERS) if visitor.operates else places
        places = (*places, OPERATION) if visitor.watches else places
        return self._frame.page(
            request, f"coordinator/{template}", status=status, title=title, visitor=visitor, places=places, **more
        )

    def part(self, template: str, **more: Any) -> HTMLResponse:
        """A piece of a page. What is wrong with what somebody typed is told in it, with status 200: a browser would
        report anything else as a failure of the page."""
        return self._frame.part(f"coordinator/{template}", **more)

    def note(self, words: str, *, good: bool = False) -> HTMLResponse:
        """One sentence in the place that asked."""
        return self.part("note.html", words=words, good=good, sign_in=False)

    def told(self, error: Mistake | Refusal) -> HTMLResponse:
        """Tell what went wrong with what somebody typed, in the place that asked. Nothing that was typed is lost."""
        words = f"{error.argument}: {error.message}" if isinstance(error, Mistake) else sentence(str(error))
        return self.part("note.html", words=words, good=False, sign_in=isinstance(error, NotSignedIn))

    def quoted(self, told: dict[str, Any]) -> HTMLResponse:
        """Tell what sites say of a question beforehand, each and together."""
        said = told.get("verdicts", {})
        whole = together(told.get("allowed"), [one["allowed"] for one in said.values()], told.get("needed"))
        verdicts = {site: verdict(one) for site, one in said.items()}
        return self.part("quote.html", verdicts=verdicts, together=whole, told=told, words=page_words)

    async def task(self, task_id: str) -> tuple[dict[str, Any], str | None]:
        """A task and its latest release by what stands in an address; NotFound where there is none."""
        if not _ID.fullmatch(task_id):
            raise NotFound("there is no such task")
        return await self.service.task(task_id)

    async def refused(self, request: Request, refusal: Mistake | Refusal) -> Response:
        """A refusal as a page, or as a sentence in the place that asked."""
        status, body = to_problem(refusal)
        if partial(request):
            return self._frame.part(
                "coordinator/note.html", status=status, words=body["detail"], good=False, sign_in=False
            )
        return await self.page(
            request,
            "problem.html",
            title="This cannot be shown",
            status=status,
            words=sentence(body["detail"]),
            sign_in=isinstance(refusal, NotSignedIn | NotAllowed),
        )

    # --- who looks --------------------------------------------------------------------------------------

    async def let_in(self, request: Request, answer: Response, token: str, until: datetime | None) -> None:
        """Give the browser a session in place of the one that it had, which ends: once it has forgotten that, nobody
        could sign out of it."""
        before = self.token(request)
        if before not in (None, token):
            await self.service.auth.leave(before)
        secure = request.url.scheme == "https"
        answer.set_cookie(
            cookie(request), token, expires=until, httponly=True, samesite="strict", secure=secure, path="/"
        )

    async def visitor(self, request: Request) -> Visitor:
        """Return whom the cookie names as the visitor; nobody where it no longer counts."""
        token = self.token(request)
        if token is None:
            return Visitor()
        try:
            return await self.known(token)
        except NotSignedIn:
            return Visitor()

    async def known(self, token: str) -> Visitor:
        """Return whose token this is, or raise NotSignedIn."""
        somebody = await self.service.auth.who(token)
        return Visitor(somebody, self.service.accounts.ends(token))

    async def somebody(self, request: Request) -> Somebody:
        """Return who is signed in, or raise NotSignedIn."""
        visitor = await self.visitor(request)
        if visitor.somebody is None:
            raise NotSignedIn("you are not signed in, or no longer")
        return visitor.somebody

    def token(self, request: Request) -> str | None:
        found = request.cookies.get(cookie(request))
        return found if found and found.isascii() else None

    # --- what a page writes -----------------------------------------------------------------------------

    async def written(self, request: Request) -> dict[str, Any]:
        """The JSON object that a page of this server sent."""
        from_here(request)
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Malformed("Content-Type", "must be application/json")
        try:
            body = read_json(await request.body())
        except NotJSON as error:
            raise Malformed("body", str(error)) from None
        if not isinstance(body, dict):
            raise Malformed("body", "must be a JSON object")
        return body


def from_here(request: Request) -> None:
    """Refuse a write that no page of this server made: every browser says where a write comes from."""
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    here = request.headers.get("host", "").lower()
    foreign = origin is not None and urlsplit(origin).netloc.lower() != here
    if foreign or (site is not None and site != "same-origin") or (origin is None and site is None):
        raise NotAllowed("another web page may not write here")


def cookie(request: Request) -> str:
    """The session's cookie. Cookies do not know ports, so the name does; over https no other host can set it."""
    if request.url.scheme == "https":
        return "__Host-thebes_asking"
    return f"thebes_asking_{request.url.port or 80}"


def text(body: dict[str, Any], name: str) -> str:
    """One typed line of a form, without the spaces around it."""
    value = body.get(name, "")
    return value.strip() if isinstance(value, str) and "\0" not in value else ""


def sentence(words: str) -> str:
    """A refusal's words with a capital and a full stop."""
    return words[:1].upper() + words[1:] + ("" if words.endswith((".", "!", "?")) else ".")
