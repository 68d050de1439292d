"""One task: how far it is, what came out, what people are told, and its downloads."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from thebes.coordinator.auth.accounts import Somebody
from thebes.coordinator.tasks.states import Status
from thebes.privacy.faults import Refusal
from thebes.tasks import registry
from thebes.tasks.answer_view import AnswerTable
from thebes.tasks.course_view import ContributionLeak, CourseOf, TaskCourse
from thebes.tasks.kind_failure import KindFailed
from thebes.web.coordinator import endless_task, result, sites, words
from thebes.web.coordinator.layout import CoordinatorLayout, Visitor
from thebes.wire.refusals import NotFound
from thebes.wire.refused_sites import NOBODY_CHARGED, nobody_charged

_KEPT = 32  #: results that are kept ready
_LONGEST = 600  #: characters of one text of a document on the page


def routes(layout: CoordinatorLayout) -> APIRouter:
    made = layout.routes()
    results = Results()

    async def standing(request: Request, task_id: str, *, learned: bool = False) -> dict[str, Any]:
        task, body = await layout.task(task_id)
        shown = None if body is None else await results.of(task, body)
        over = Status(task["status"]).final
        visitor = await layout.visitor(request)
        mine = not over and visitor.cancels(task["requestor"])
        endless = registry.endless(task["document"]["type"])
        told: dict[str, Any] = {"task": task, "result": shown, "over": over, "words": words, "may_cancel": mine}
        told["drawn"] = endless_task.drawn
        told["training"], told["learned"] = await going(task_id, task, visitor, learned) if endless else (None, ())
        told["course"] = None
        if words.of_sites(task["document"]):
            progress = await layout.service.progress(task_id, visitor.somebody)
            told["course"] = await asyncio.to_thread(sites.course, progress, over=over)
        told["free"] = NOBODY_CHARGED if over and nobody_charged(task) else ""
        told["may_end"] = mine and endless and body is not None and task["status"] == Status.OPEN
        return told

    async def going(
        task_id: str, task: Mapping[str, Any], visitor: Visitor, learned: bool
    ) -> tuple[TaskCourse, Sequence[ContributionLeak]]:
        def work(progress: Mapping[str, Any]) -> tuple[TaskCourse, Sequence[ContributionLeak]]:
            document = registry.accepted_earlier(task["document"])
            course = registry.course(document.type)
            return course.going(document, progress), course.learned(document) if learned else ()

        try:
            return await asyncio.to_thread(work, await layout.service.progress(task_id, visitor.somebody))
        except KindFailed as failed:
            return TaskCourse(AnswerTable.of((), ()), (CourseOf("", (), str(failed)),)), ()

    @made.get("/task/{task_id}")
    async def show(request: Request, task_id: str) -> Response:
        """Everything there is to see of a task."""
        told = await standing(request, task_id, learned=True)
        document = abridged(told["task"]["document"])
        return await layout.page(request, "task.html", title=words.title(told["task"]), document=document, **told)

    @made.get("/task/{task_id}/standing")
    async def progress(request: Request, task_id: str) -> Response:
        """Show what changes on a task's page while it goes on."""
        return layout.part("standing.html", **await standing(request, task_id))

    async def over(request: Request, task_id: str, end: Callable[[str, Somebody], Awaitable[None]]) -> Response:
        await layout.written(request)
        try:
            await layout.task(task_id)
            await end(task_id, await layout.somebody(request))
        except Refusal as refusal:
            return layout.told(refusal)
        return Response(headers={"HX-Refresh": "true"})

    @made.post("/task/{task_id}/cancel")
    async def cancel(request: Request, task_id: str) -> Response:
        """End it: its requestor or an operator, who have said that they are sure."""
        return await over(request, task_id, layout.service.cancel)

    @made.post("/task/{task_id}/close")
    async def close(request: Request, task_id: str) -> Response:
        """End what is trained without end, and keep its answer: its requestor or an operator."""
        return await over(request, task_id, layout.service.end)

    @made.get("/task/{task_id}/training.csv")
    async def course(task_id: str) -> Response:
        """Send how a training went, as a table."""
        task, _ = await layout.task(task_id)
        progress = await layout.service.progress(task_id)
        if words.of_sites(task["document"]):
            written = result.csv_of(*sites.history(progress))
        else:
            document = registry.accepted_earlier(task["document"])
            written = result.csv_of(*registry.course(document.type).history(document, progress))
        return attached(written, "text/csv; charset=utf-8", f"thebes-{task_id[:8]}-training.csv")

    @made.get("/task/{task_id}/release.json")
    async def release(task_id: str) -> Response:
        """The release as it was stored."""
        _, body = await layout.task(task_id)
        return attached(body_of(body), "application/json", f"thebes-{task_id[:8]}-release.json")

    @made.get("/task/{task_id}/release.csv")
    async def table(task_id: str) -> Response:
        """The numbers of the release as a table."""
        task, body = await layout.task(task_id)
        document = registry.accepted_earlier(task["document"])
        written = await asyncio.to_thread(result.table_of, document, body_of(body))
        return attached(written, "text/csv; charset=utf-8", f"thebes-{task_id[:8]}-release.csv")

    @made.get("/task/{task_id}/document.json")
    async def document(task_id: str) -> Response:
        """The document, whole."""
        task, _ = await layout.task(task_id)
        text = json.dumps(task["document"], indent=2, ensure_ascii=False)
        return attached(text, "application/json", f"thebes-{task_id[:8]}.json")

    return made


class Results:
    """Results made ready for their pages. Making one may take seconds, looking at it happens every second."""

    def __init__(self) -> None:
        self._kept: OrderedDict[bytes, result.ShownResult] = OrderedDict()
        self._making = asyncio.Lock()

    async def of(self, task: Mapping[str, Any], body: str) -> result.ShownResult:
        name = hashlib.sha256(f"{task['task_id']}\0{body}".encode()).digest()
        async with self._making:
            known = self._kept.get(name)
            if known is None:
                document = registry.accepted_earlier(task["document"])
                known = await asyncio.to_thread(result.shown, document, body)
                self._kept[name] = known
            self._kept.move_to_end(name)
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return known


def abridged(part: Any) -> Any:
    """A document with its longest texts cut, so that a page stays readable; its download is whole."""
    if isinstance(part, str) and len(part) > _LONGEST:
        return f"{part[: _LONGEST // 2]} … ({len(part)} characters in all; see the download)"
    if isinstance(part, Mapping):
        return {key: abridged(value) for key, value in part.items()}
    if isinstance(part, list):
        rest = [f"… ({len(part)} in all; see the download)"] if len(part) > 200 else []
        return [abridged(value) for value in part[:200]] + rest
    return part


def body_of(body: str | None) -> str:
    if body is None:
        raise NotFound("there is no release yet")
    return body


def attached(content: str, kind: str, name: str) -> Response:
    """A file to keep."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "", name)
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{safe}"'})
