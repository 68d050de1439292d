"""The coordinator's pages: what is asked, how far it is, what came out."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import Response

from thebes.apps.pages.frame import Frame, Place, serve_files
from thebes.coordinator.reception import Reception

PLACES = (Place("/", "Open tasks"),)


def put_on(api: FastAPI, reception: Reception) -> None:
    """Put the pages onto a coordinator's interface."""
    frame = Frame("coordinator", PLACES)
    serve_files(api)
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def front(request: Request) -> Response:
        """Open tasks."""
        return frame.page(request, "coordinator/tasks.html", title="Open tasks", tasks=await reception.tasks())

    api.include_router(routes)
