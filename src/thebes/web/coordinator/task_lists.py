"""The lists of tasks: those that go on, and those that are over."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.coordinator.tasks.states import Status
from thebes.web.coordinator import words
from thebes.web.coordinator.layout import CoordinatorLayout

ON_A_PAGE = 20


@dataclass(frozen=True, slots=True)
class Leaf:
    """One page of a list, counted from 1, and how many there are."""

    number: int
    count: int

    @property
    def skip(self) -> int:
        return (self.number - 1) * ON_A_PAGE

    @classmethod
    def of(cls, asked: str, items: int) -> Leaf:
        """The page that an address asks for; the nearest there is."""
        count = max(1, -(-items // ON_A_PAGE))
        wanted = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 10 else 1
        return cls(min(max(1, wanted), count), count)


def routes(layout: CoordinatorLayout) -> APIRouter:
    made = layout.routes()

    @made.get("/")
    async def active(request: Request, page: str = "") -> Response:
        """Open tasks and those whose answer is being computed, newest first."""
        tasks = (await layout.service.tasks())[::-1]
        leaf = Leaf.of(page, len(tasks))
        shown = tasks[leaf.skip : leaf.skip + ON_A_PAGE]
        return await layout.page(request, "tasks.html", title="Open tasks", tasks=shown, leaf=leaf, words=words)

    @made.get("/ended")
    async def ended(request: Request, page: str = "") -> Response:
        """Tasks that are over, newest first."""
        counts = (await layout.service.operation.counts())["tasks"]
        leaf = Leaf.of(page, sum(counts[str(status)] for status in Status if status.final))
        tasks = await layout.service.ended(skip=leaf.skip, most=ON_A_PAGE)
        return await layout.page(request, "ended.html", title="Ended tasks", tasks=tasks, leaf=leaf, words=words)

    return made
