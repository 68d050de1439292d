"""The coordinator's pages: what is asked, how far it is, what came out, and asking oneself."""

from __future__ import annotations

from fastapi import FastAPI

from thebes.coordinator.service import CoordinatorService
from thebes.web.coordinator import (
    device,
    groups,
    identity,
    log,
    models_page,
    new_task,
    operation,
    schemas,
    sessions,
    sign_in,
    sites,
    sql_page,
    task,
    task_lists,
    users,
)
from thebes.web.coordinator.layout import PLACES, CoordinatorLayout
from thebes.web.frame import PageFrame, serve_files, serve_no_page


def put_on(api: FastAPI, service: CoordinatorService) -> None:
    """Put the pages onto a coordinator's interface."""
    layout = CoordinatorLayout(PageFrame("coordinator", PLACES), service)
    serve_files(api)
    serve_no_page(api, layout.refused)
    for page in (
        *(task_lists, task, new_task, sql_page, sign_in, identity, device, sessions, users, operation),
        *(schemas, sites, models_page, groups, log),
    ):
        api.include_router(page.routes(layout))
