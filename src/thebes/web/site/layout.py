"""The parts that all pages of a site share: the frame, the link, and how a refusal is told.

What must stay true: a page only shows. The process that draws it has no row; what it tells, the process with the rows
has told it.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.privacy.faults import ThebesError
from thebes.site.link.dialer import Link
from thebes.web.frame import PageFrame, partial
from thebes.web.refusals import routes
from thebes.web.site import words
from thebes.wire.guard import Door
from thebes.wire.problems import to_problem


class SiteLayout:
    """One site's pages."""

    def __init__(self, frame: PageFrame, link: Link, door: Door, *, confined: bool) -> None:
        self.frame, self.link, self.door, self.confined = frame, link, door, confined

    def routes(self) -> APIRouter:
        """Make the router that a page's routes are put on; what they refuse is told as a page or as a sentence."""
        return routes(self.refused, ThebesError)

    async def told(self, kind: str, **more: Any) -> Any:
        """Ask the process with the rows what it tells of `requests`, `ledger`, `datasets`, `pipelines`, `models`,
        ..."""
        return await self.link.algorithm.ask(kind, **more)

    async def attempt(self, kind: str) -> tuple[Any, str]:
        """Ask for what a page can do without, and return what is told, or None and a sentence that says why there is
        nothing."""
        try:
            return await self.told(kind), ""
        except ThebesError as refusal:
            return None, str(refusal)

    def page(self, request: Request, template: str, *, title: str, **context: Any) -> Response:
        """A whole page; `template` is a file of templates/site."""
        return self.frame.page(request, f"site/{template}", title=title, words=words, site=self.link.name, **context)

    def outside(self, request: Request, *, told: str = "") -> Response:
        """The page of whoever is not in, which says how to come in, and why they did not."""
        shown: dict[str, Any] = {"told": told, "provider": self.door.provider is not None, "places": ()}
        return self.frame.page(request, "site/outside.html", status=401, title="Thebes", **shown)

    def part(self, template: str, *, status: int = 200, **context: Any) -> Response:
        """A piece of a page."""
        return self.frame.part(f"site/{template}", status=status, words=words, **context)

    async def refused(self, request: Request, refusal: ThebesError) -> Response:
        status, body = to_problem(refusal)
        told = f"{body['field']}: {body['detail']}" if body.get("field") else body["detail"]
        if partial(request):
            return self.part("note.html", status=status, told=told)
        return self.frame.page(request, "site/refused.html", status=status, title="This cannot be shown", told=told)
