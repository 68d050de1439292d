"""A site's pages: put onto its interface by the process that talks. The guard stands before them, the door lets a
browser in."""

from __future__ import annotations

from fastapi import FastAPI

from thebes.site.link.dialer import Link
from thebes.web.frame import NavigationEntry, PageFrame, serve_files, serve_no_page
from thebes.web.site import datasets, decisions, log, overview, proposal, requests, savings, sign_in, streams
from thebes.web.site.layout import SiteLayout
from thebes.wire.guard import Door

PLACES = (
    NavigationEntry("/", "Overview"),
    NavigationEntry("/requests", "Requests"),
    NavigationEntry("/datasets", "Data sets"),
    NavigationEntry("/savings", "Savings"),
    NavigationEntry("/streams", "Streams"),
    NavigationEntry("/pipelines", "Pipelines"),
    NavigationEntry("/models", "Models"),
    NavigationEntry("/policy", "Policy"),
    NavigationEntry("/log", "Audit log"),
)


def put_on(api: FastAPI, link: Link, door: Door, confined: bool) -> None:
    """Put the pages onto a site's interface."""
    layout = SiteLayout(PageFrame(f"site {link.name}", PLACES), link, door, confined=confined)
    serve_files(api)
    serve_no_page(api, layout.refused)
    for page in (overview, sign_in, requests, decisions, datasets, proposal, savings, streams, log):
        api.include_router(page.routes(layout))
