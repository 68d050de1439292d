"""A person's own pages, on this machine only. The guard stands before them, the door lets a browser in."""

from __future__ import annotations

from fastapi import FastAPI

from thebes.person.home import Person
from thebes.web.frame import Frame, Place, serve_files, serve_no_page
from thebes.web.person import data, groups, overview, participations, privacy, rules, tasks
from thebes.web.person.layout import Indoors
from thebes.wire.guard import Door

PLACES = (
    Place("/", "Overview"),
    Place("/data", "My data"),
    Place("/tasks", "Open tasks"),
    Place("/accepted", "Accepted"),
    Place("/rules", "Standing rules"),
    Place("/groups", "Groups"),
    Place("/privacy", "My privacy"),
)


def put_on(api: FastAPI, person: Person, door: Door) -> None:
    """Put the pages onto a person's interface."""
    indoors = Indoors(Frame("your machine", PLACES), person, door)
    serve_files(api)
    serve_no_page(api, indoors.refused)
    for page in (overview, data, tasks, participations, rules, groups, privacy):
        api.include_router(page.routes(indoors))
