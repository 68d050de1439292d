"""A person's own pages, on this machine only. The guard stands before them, the door lets a browser in."""

from __future__ import annotations

from fastapi import FastAPI

from thebes.person.home import Person
from thebes.web.frame import NavigationEntry, PageFrame, serve_files, serve_no_page
from thebes.web.person import (
    background,
    data,
    epsilon,
    groups,
    limits,
    lineage,
    overview,
    participations,
    privacy,
    rules,
    tasks,
    welcome,
)
from thebes.web.person.layout import PersonLayout
from thebes.wire.guard import Door

PLACES = (
    NavigationEntry("/", "Overview"),
    NavigationEntry("/data", "My data"),
    NavigationEntry("/tasks", "Open tasks"),
    NavigationEntry("/accepted", "Accepted"),
    NavigationEntry("/lineage", "Where it went"),
    NavigationEntry("/rules", "Standing rules"),
    NavigationEntry("/groups", "Groups"),
    NavigationEntry("/privacy", "My privacy"),
)


def put_on(api: FastAPI, person: Person, door: Door) -> None:
    """Put the pages onto a person's interface."""
    layout = PersonLayout(PageFrame("your machine", PLACES, clock=None), person, door)
    serve_files(api)
    serve_no_page(api, layout.refused)
    for page in (
        overview,
        welcome,
        data,
        tasks,
        participations,
        lineage,
        rules,
        groups,
        limits,
        privacy,
        background,
        epsilon,
    ):
        api.include_router(page.routes(layout))
