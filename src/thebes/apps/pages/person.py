"""A person's own pages, on this machine only. The guard stands before them, the door lets a browser in.

What must stay true: a page only shows and asks; what it does, it does through the same methods as every other way in.
"""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from thebes.apps.pages.frame import Frame, Place, serve_files
from thebes.person.guard import Door
from thebes.person.home import Person

PLACES = (Place("/", "Overview"),)


def put_on(api: FastAPI, person: Person, door: Door) -> None:
    """Put the pages onto a person's interface."""
    frame = Frame("your machine", PLACES)
    serve_files(api)
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    def front(request: Request, code: str = "") -> Response:
        """A code is exchanged for a cookie that only this address gets back; the code works once."""
        if code:
            session = door.enter(code)
            if session is None:
                return frame.page(request, "person/outside.html", status=401, title="Thebes", used=True)
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(door.cookie, session, httponly=True, samesite="strict", path="/")
            return answer
        if not door.knows(request.headers):
            return frame.page(request, "person/outside.html", status=401, title="Thebes", used=False)
        return frame.page(
            request, "person/overview.html", title="Your machine is running", mine=person.participations()
        )

    api.include_router(routes)
