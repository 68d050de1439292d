"""The coordinator's pages: what is asked, how far it is, what came out, and asking oneself."""

from __future__ import annotations

from fastapi import FastAPI

from thebes.apps.pages.asking import (
    composing,
    groups,
    institutions,
    learned,
    log,
    looking,
    schemas,
    signing,
    task,
    users,
)
from thebes.apps.pages.asking.hall import PLACES, Hall
from thebes.apps.pages.frame import Frame, serve_files, serve_no_page
from thebes.coordinator.reception import Reception


def put_on(api: FastAPI, reception: Reception) -> None:
    """Put the pages onto a coordinator's interface."""
    hall = Hall(Frame("coordinator", PLACES), reception)
    serve_files(api)
    serve_no_page(api, hall.refused)
    for page in (looking, task, composing, signing, users, schemas, institutions, learned, groups, log):
        api.include_router(page.routes(hall))
