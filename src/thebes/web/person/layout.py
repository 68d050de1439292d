"""The parts that all pages of a person share: the frame, the home, and how a refusal is told.

What must stay true: a page only shows and asks; what it does, it does through the methods of `Person`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from thebes.person.home import Person
from thebes.privacy.faults import ThebesError
from thebes.web.frame import PageFrame, partial
from thebes.web.person import states, words
from thebes.web.refusals import routes
from thebes.wire.guard import Door
from thebes.wire.problems import to_problem


class PersonLayout:
    """One person's pages: `frame` draws them, `person` answers, `door` knows who came in."""

    def __init__(self, frame: PageFrame, person: Person, door: Door) -> None:
        self.frame, self.person, self.door = frame, person, door
        self._run = secrets.token_hex(4)  #: the person's moments are counted anew in each

    def routes(self) -> APIRouter:
        """Make the router that a page's routes are put on; what they refuse is told as a page or as a sentence."""
        made = routes(self.refused, ThebesError)
        made.dependencies.append(Depends(self._marked))
        return made

    async def _marked(self, request: Request) -> None:
        """Mark the moment before anything is read: what changes while a page is made has come after it."""
        request.state.moment = self.moment

    def page(self, request: Request, template: str, *, title: str, **context: Any) -> Response:
        """A whole page; `template` is a file of templates/person."""
        marks = {"moment": request.state.moment, "badge": self.person.new_questions}
        return self.frame.page(
            request, f"person/{template}", title=title, states=states, words=words, **marks, **context
        )

    @property
    def moment(self) -> str:
        """A mark that is another one after what stands on these pages may have changed."""
        return f"{self._run}.{self.person.moment}"

    def part(self, template: str, *, status: int = 200, **context: Any) -> Response:
        """A piece of a page."""
        return self.frame.part(f"person/{template}", status=status, states=states, words=words, **context)

    async def refused(self, request: Request, refusal: ThebesError) -> Response:
        """A refusal: in the place of the form that asked, or as a page of its own. What was typed stays."""
        status, _ = to_problem(refusal)
        told = words.refusal(refusal)
        if not partial(request):
            title = "This cannot be shown"
            return self.frame.page(
                request, "person/refused.html", status=status, title=title, states=states, words=words, told=told
            )
        answer = self.part("outcome.html", status=status, told=told, good=False)
        answer.headers["HX-Retarget"] = "find .outcome"
        answer.headers["HX-Reswap"] = "innerHTML"
        return answer


def attempt(work: Callable[[], Any]) -> tuple[Any, str | None]:
    """Do what a page can do without, and return its result, or None and a sentence that says why there is none."""
    try:
        return work(), None
    except ThebesError as refusal:
        return None, words.refusal(refusal)


def text(body: Mapping[str, Any], name: str) -> str:
    """Return what a form's field holds, without space around it; empty where it was left out."""
    value = body.get(name, "")
    return value.strip() if isinstance(value, str) else ""
