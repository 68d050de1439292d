"""The signed task list, and the fingerprint by which people compare the key that signs it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.web import frame
from thebes.web.coordinator.layout import CoordinatorLayout
from thebes.web.coordinator.task_lists import ON_A_PAGE, Leaf
from thebes.wire import task_log


def routes(layout: CoordinatorLayout) -> APIRouter:
    made = layout.routes()

    @made.get("/log")
    async def show(request: Request, page: str = "") -> Response:
        """The newest entries first."""
        told = await layout.service.log(0)
        entries = told["entries"][::-1]
        leaf = Leaf.of(page, len(entries))
        return await layout.page(
            request,
            "log.html",
            title="The signed list of tasks",
            entries=entries[leaf.skip : leaf.skip + ON_A_PAGE],
            count=len(entries),
            leaf=leaf,
            key=told["key"],
            head=told["head"],
            signature=told["signature"],
            fingerprint=fingerprint(told["key"]),
            earlier=[fingerprint(step["key"]) for step in told["successions"]],
        )

    return made


def fingerprint(key: str) -> str:
    """SHA-256 of the raw key in groups of four, as it is read out over a telephone."""
    return frame.apart(task_log.fingerprint(key))
