"""The coordinator over HTTP: the addresses of the contract, each handing over to the service."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPAuthorizationCredentials
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from thebes.coordinator.api import bodies as m
from thebes.coordinator.api import login, site_join
from thebes.coordinator.api.app import CoordinatorApp, says
from thebes.coordinator.api.bearer import BEARER, Bearer, token_of
from thebes.coordinator.api.fast_path import Straight, mistake
from thebes.coordinator.api.middleware import WAITED
from thebes.coordinator.api.model_bodies import ModelBundle, ModelSummary, Predicted, Unseen
from thebes.coordinator.api.quote_bodies import Quote
from thebes.coordinator.auth.accounts import Role
from thebes.coordinator.people.contribution_check import Sent
from thebes.coordinator.process.metrics import gathered
from thebes.coordinator.service import CoordinatorService
from thebes.privacy.faults import Mistake
from thebes.privacy.reading import NotJSON, read_json
from thebes.tasks.document import GROUP_NAME
from thebes.tasks.protocols import Wait
from thebes.wire import frames
from thebes.wire.exposition import KINDS, exposed
from thebes.wire.problems import MEDIA_TYPE, problem, to_problem
from thebes.wire.refusals import Malformed, NotAllowed, NotFound, TooLarge
from thebes.wire.routes import headers_of
from thebes.wire.server_options import application

TaskId = Annotated[str, Path(pattern=r"^[!-~]{1,200}$", description="as `POST /api/task` gave it")]
SessionId = Annotated[str, Path(pattern=r"^[0-9a-f]{32}$", description="as `GET /api/session` tells it")]
Group = Annotated[str, Path(pattern=GROUP_NAME)]
ModelName = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Version = Annotated[int | None, Query(ge=1, le=10**9, description="the newest where none is named")]
Text = Annotated[str, Query(pattern=r"^[!-~]{1,200}$")]
State = Annotated[Literal["active", "ended"], Query(description="those that go on, or those that are over")]
Packet = Annotated[int, Query(ge=0, le=9999, description="number of the packet; 0 where a phase has one only")]
Part = Annotated[Literal["release", "certificate"], Query(description="all of it, or its certificate alone")]
Skip = Annotated[int, Query(ge=0, le=2**31, description="of tasks that are over, leave out so many")]
Seconds = Annotated[float, Query(ge=0, le=30, description="at most, for another status")]
Most = Annotated[int, Query(ge=1, le=200, description="of tasks that are over, no more than so many")]
Draft = Annotated[dict[str, Any], Body(description="what is to become a task document")]
_KIND: dict[str, Any] = {"required": ["type"], "properties": {"type": {"type": "string"}}}  #: else each kind's own
Document = Annotated[
    dict[str, Any], Body(description="a task document; see the documentation of its kind", json_schema_extra=_KIND)
]
#: added to what the framework describes of a bearer: who brings none is answered, too
_MAY_BRING_ONE: dict[str, Any] = {"security": [{}]}
_SUBMISSION = {
    "requestBody": {
        "required": True,
        "content": {
            frames.JSON: {"schema": m.Submitted.model_json_schema()},
            frames.MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}},
        },
    }
}


_BYTES = "application/octet-stream"
_LIST_OF_HASHES: dict[int | str, dict[str, Any]] = {
    200: {"content": {_BYTES: {"schema": {"type": "string", "format": "binary"}}}}
}
_ELSEWHERE = {
    404: "there is nothing at this address; GET /openapi.json lists what there is",
    405: "this address does not take this method; GET /openapi.json lists what it takes",
}
#: puts web pages onto the interface
Pages = Callable[[FastAPI, CoordinatorService], None]


def interface(
    service: CoordinatorService, *, largest_body: int, pages: Pages | None = None, figures: str = "everybody"
) -> FastAPI:
    """The application. `figures` says who may read those for Prometheus, as the settings do."""
    limits: dict[str, Any] = {
        "largest_body": largest_body,
        "metrics": service.operation.metrics,
        "known": service.auth.knows,
    }
    app = application(
        "Thebes coordinator", CoordinatorApp, limits=limits, generate_unique_id_function=lambda route: route.name
    )
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _refused)
    _contributions(app, service)
    _tasks(app, service)
    _groups(app, service)
    _models(app, service)
    login.put_on(app, service)
    _sessions(app, service)
    site_join.put_on(app, service)
    _everything_else(app, service, figures)
    if pages is not None:
        pages(app, service)
    return app


def _straight(app: FastAPI, path: str, endpoint: Callable[..., Any], method: str = "GET", **told: Any) -> None:
    app.router.add_api_route(path, endpoint, methods=[method], route_class_override=Straight, **told)


def _tasks(app: FastAPI, service: CoordinatorService) -> None:
    async def tasks(state: State = "active", skip: Skip = 0, most: Most = 50) -> list[m.Summary]:
        """Open and running tasks, oldest first; with `state=ended` those that are over, newest first, by pages."""
        if state == "active":
            return Response(await service.listed(), media_type=frames.JSON)  # type: ignore[return-value]
        return JSONResponse(await service.ended(skip=skip, most=most))  # type: ignore[return-value]

    async def task(request: Request, task_id: TaskId, wait: Seconds = 0.0) -> m.Detail:
        """One task with its latest release; with `wait` once its status has changed, or after so long."""
        began = time.perf_counter()
        summary, result = await service.task(task_id, wait=wait)
        request.scope[WAITED] = time.perf_counter() - began if wait else 0.0
        # The release is handed on as it was stored, without being read and written again.
        text = f'{json.dumps(summary)[:-1]}, "result": {result or "null"}}}'
        return Response(text, media_type=frames.JSON)  # type: ignore[return-value]

    _straight(app, "/api/task", tasks, responses=says())
    _straight(app, "/api/task/{task_id}", task, responses=says(404))

    @app.post("/api/task", status_code=201, responses=says(401, 403, 413))
    async def post_task(document: Document, bearer: Bearer) -> m.Posted:
        """Put a task up. The same document put up twice is two tasks."""
        task_id, digest = await service.post(document, await service.auth.who(token_of(bearer)))
        return m.Posted(task_id=task_id, digest=digest)

    @app.get("/api/task/{task_id}/receipts", response_class=Response, responses={**_LIST_OF_HASHES, **says(404)})
    async def receipts(task_id: TaskId) -> Response:
        """Return the hashes of the receipts of all contributions that the latest release was made from, 32 bytes each,
        in the order of their bytes: whole or not at all, so that asking tells nothing of who asks. 404 where no release
        commits to any."""
        return Response(await service.receipts(task_id), media_type=_BYTES)

    @app.get("/api/task/{task_id}/record", responses=says(404))
    async def record(task_id: TaskId, part: Part = "release") -> m.PublishedRecord:
        """The latest release that was published of a task with what shows that it was: a file to keep, and to check
        with `thebes verify`. `part=certificate` leaves the answer out. 404 where nothing was released yet, and while a
        task without end goes on."""
        told = await service.record(task_id)
        body = told.as_json(certificate_only=part == "certificate")
        return JSONResponse(body)  # type: ignore[return-value]

    @app.delete("/api/task/{task_id}", status_code=204, responses=says(401, 403, 404, 409))
    async def cancel(task_id: TaskId, bearer: Bearer) -> None:
        """Cancel a task: its requestor or an operator. 409 once it has ended."""
        await service.cancel(task_id, await service.auth.who(token_of(bearer)))

    @app.post("/api/task/{task_id}/close", status_code=204, responses=says(401, 403, 404, 409))
    async def close_task(task_id: TaskId, bearer: Bearer) -> None:
        """End a task that is trained without end and keep its last release: its requestor or an operator. 409 for every
        other kind, and while there is no release yet."""
        await service.end(task_id, await service.auth.who(token_of(bearer)))

    @app.get("/api/task/{task_id}/training", responses=says(401, 404), openapi_extra=_MAY_BRING_ONE)
    async def training(task_id: TaskId, bearer: Bearer) -> m.Progress:
        """Tell how a task goes that is trained without end, or that institutions answer: everything a live view shows
        of it, a second old at the most. What is single models' (`norms`, `distances`, `models`) is what somebody sent:
        only its requestor and operators are shown it."""
        asking = None if bearer is None else await service.auth.who(token_of(bearer))
        return JSONResponse(await service.progress(task_id, asking))  # type: ignore[return-value]

    @app.post(
        "/api/quote", responses=says(401, 403, 413), response_model_exclude_unset=True, openapi_extra=_MAY_BRING_ONE
    )
    async def quote(document: Document, bearer: Bearer) -> Quote:
        """Return what one contributor would pay for this document. With a requestor's token institutions are asked as
        well, in that requestor's name and for 5 s at most, whether they would answer and what that would cost them
        now; of a question by accuracy for 5 s once more when its price is known. Without one the price is that of
        sites that have released nothing yet."""
        asking = None if bearer is None else await service.auth.who(token_of(bearer))
        return Quote(**await service.quote(document, asking))

    @app.post("/api/check", responses=says(413))
    async def check(document: Draft) -> m.Examined:
        """Everything that is wrong with a document, always with status 200; or what people would be told of it."""
        return m.Examined(**await service.examined(document))


def _contributions(app: FastAPI, service: CoordinatorService) -> None:
    async def submit(request: Request, task_id: TaskId) -> m.Receipt:
        """Send a contribution. It is on the disk when this answers; of a task that is trained without end, where one
        process alone runs the coordinator, within a second. It is known by task, part and contributor, or what its
        token proves: the same again, however it is spelled or framed, gives the same receipt, and another is refused
        with 409. What was withdrawn stays withdrawn (410)."""
        longest = await service.contributions.largest_submission(task_id)
        sent = _submission(request.headers.get("content-type", ""), await _body(request, longest), longest)
        receipt = await service.contributions.submit(task_id, sent)
        service.operation.metrics.received()
        return Response(f'{{"receipt":"{receipt}"}}', 202, media_type=frames.JSON)  # type: ignore[return-value]

    async def ask(request: Request, task_id: TaskId, slot: Text, packet: Packet = 0) -> m.Asked | m.Later:
        """Return what the task wants from this slot now, as its contributor's packet of that number; 410 where it wants
        nothing more."""
        wanted = await service.contributions.ask(task_id, slot, packet)
        if isinstance(wanted, Wait):
            return JSONResponse({"wait": wanted.seconds})  # type: ignore[return-value]
        body = {
            "ask_id": wanted.ask_id,
            "part": wanted.part,
            "phase": wanted.phase,
            "expires_at": None if wanted.expires_at is None else wanted.expires_at.isoformat(),
            "payload": wanted.payload,
        }
        framed = frames.MEDIA_TYPE in request.headers.get("accept", "")
        worth = frames.WORTH_FRAMING if framed else sys.maxsize
        content, kind = frames.encode(body, worth=worth, public=True)
        return Response(content, media_type=kind)  # type: ignore[return-value]

    refused = says(403, 404, 409, 410, 413, 415, 429)
    more: dict[str, Any] = {"status_code": 202, "responses": refused, "openapi_extra": _SUBMISSION}
    _straight(app, "/api/task/{task_id}/submit", submit, "POST", **more)
    _straight(app, "/api/task/{task_id}/ask", ask, responses=says(404, 410))

    @app.delete("/api/task/{task_id}/submit", status_code=204, responses=says(404, 410))
    async def withdraw(task_id: TaskId, receipt: Text) -> None:
        """Take a contribution back before its phase closes; it is destroyed. 410 after that, 409 where it was mixed in
        at once."""
        await service.contributions.withdraw(task_id, receipt)


def _groups(app: FastAPI, service: CoordinatorService) -> None:
    @app.get("/api/group", responses=says())
    async def groups() -> list[m.Group]:
        """List every group with its newest epoch."""
        return JSONResponse(await service.groups.all())  # type: ignore[return-value]

    @app.get("/api/group/{name}", responses=says(404))
    async def group(name: Group, epoch: Annotated[str | None, Query(pattern=GROUP_NAME)] = None) -> m.Group:
        """Return what is public of a group's epoch; without one, of its newest."""
        return JSONResponse(await service.groups.group(name, epoch))  # type: ignore[return-value]

    @app.post("/api/group/{name}/enrol", responses=says(403, 404, 409, 413))
    async def enrol(name: Group, body: m.Enrolling) -> m.Enrolled:
        """The authority's answer to whoever it gave a code; the same request again gets the same."""
        epoch, response = await service.groups.enrol(name, body.code, body.request, body.epoch)
        return m.Enrolled(epoch=epoch, response=response)


def _models(app: FastAPI, service: CoordinatorService) -> None:
    """Whoever logs in may ask: a model may come from the institution's own pipelines, which no task has released."""

    @app.get("/api/model", responses=says(401))
    async def models(bearer: Bearer) -> list[ModelSummary]:
        """Models of the institution on this machine that were accepted: the newest version of each."""
        await service.auth.who(token_of(bearer))
        return JSONResponse(await service.models())  # type: ignore[return-value]

    @app.get("/api/model/{name}", responses=says(401, 404))
    async def model(name: ModelName, bearer: Bearer, version: Version = None) -> ModelBundle:
        """One model whole: its document, features, certificate and lineage; the newest version where none is named."""
        await service.auth.who(token_of(bearer))
        return JSONResponse(await service.model(name, version))  # type: ignore[return-value]

    @app.post("/api/model/{name}/predict", responses=says(401, 403, 404, 413))
    async def predict(name: ModelName, body: Unseen, bearer: Bearer, version: Version = None) -> Predicted:
        """Return what a model says of rows with the data set's own columns: a number for each, null where it has
        none."""
        await service.auth.who(token_of(bearer))
        return Predicted(**await service.predict(name, body.rows, version))


def _sessions(app: FastAPI, service: CoordinatorService) -> None:
    @app.get("/api/session", responses=says(401))
    async def sessions(bearer: Bearer) -> list[m.ListedSession]:
        """The sessions that go on of whoever asks; to an operator everybody's."""
        found = await service.auth.sessions(await service.auth.who(token_of(bearer)))
        return [m.ListedSession.of(each) for each in found]

    @app.delete("/api/session/{session}", status_code=204, responses=says(401, 404))
    async def end(session: SessionId, bearer: Bearer) -> None:
        """End a session at once: one's own, or as an operator anybody's."""
        await service.auth.end_session(session, await service.auth.who(token_of(bearer)))


def _everything_else(app: FastAPI, service: CoordinatorService, whom: str) -> None:
    @app.get("/api/schema", responses=says())
    async def schemas() -> dict[str, m.Collector]:
        """List the tables that collectors fill, by collector, with a version each."""
        return JSONResponse(await service.schemas())  # type: ignore[return-value]

    @app.post("/api/schema", status_code=201, responses=says(401, 403, 413))
    async def publish_schema(body: m.Published, bearer: Bearer) -> m.Collector:
        """Publish the tables that a collector fills: operators."""
        somebody = await service.auth.who(token_of(bearer))
        tables = body.model_dump(mode="json")["tables"]
        return m.Collector(version=await service.publish(body.app, tables, somebody), tables=tables)

    @app.get("/api/log", responses=says())
    async def log(after: Annotated[int, Query(ge=0, le=2**53)] = 0) -> m.TaskList:
        """The signed, append-only list of tasks."""
        return JSONResponse(await service.log(after))  # type: ignore[return-value]

    @app.get("/api/site", responses=says())
    async def sites() -> list[m.Site]:
        """Institutions that may take part, what each has, and whether it is there."""
        return JSONResponse(await service.sites())  # type: ignore[return-value]

    @app.get("/api/about")
    async def about() -> m.About:
        """Tell who runs this coordinator and how to reach them, as its operator says."""
        return m.About(**service.about())

    @app.get("/api/health")
    async def health() -> m.Health:
        """Tell whether the process lives."""
        return m.Health(status="ok")

    @app.get("/api/live")
    async def live() -> m.Health:
        """Tell whether the process answers; nothing else is looked at."""
        return m.Health(status="ok")

    @app.get("/api/ready", responses=says())
    async def ready() -> m.Health:
        """Tell whether the database takes changes, as of a second ago at most; else 503."""
        await service.ready()
        return m.Health(status="ok")

    @app.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": KINDS}, **says(401, 403, 404)},
        openapi_extra={"security": [{BEARER.scheme_name: []}]} if whom == "operators" else {},
    )
    async def figures(request: Request) -> Response:
        """Counts for Prometheus, as OpenMetrics to whoever accepts that; nothing about anybody. An operator may have
        kept them for operators and auditors, who then show a token, or turned them off."""
        await _may_read_figures(service, whom, await BEARER(request))
        await service.operation.measured()
        told, kind = exposed(gathered(service.operation.metrics.registry), request.headers.get("accept", ""))
        return Response(told, headers={"content-type": kind})


async def _may_read_figures(
    service: CoordinatorService, whom: str, bearer: HTTPAuthorizationCredentials | None
) -> None:
    if whom == "nobody":
        raise NotFound("this coordinator shows no metrics; its operator can allow it (metrics in coordinator.toml)")
    token = token_of(bearer)
    if (
        whom == "operators"
        and not (token and service.reads_figures(token))
        and (await service.auth.who(token)).role not in (Role.OPERATOR, Role.AUDITOR)
    ):
        raise NotAllowed("only operators and auditors may read the metrics of this coordinator")


async def _body(request: Request, longest: int) -> bytes:
    """The body, read no further than any contribution to the task can be long."""
    pieces, size = [], 0
    async for piece in request.stream():
        pieces.append(piece)
        size += len(piece)
        if size > longest:
            raise TooLarge(f"a contribution to this task has at most {longest} bytes")
    return b"".join(pieces)


def _submission(content_type: str, body: bytes, longest: int) -> Sent:
    kind = content_type.partition(";")[0].strip().lower()
    try:
        if kind == frames.JSON:
            read = m.Submitted.model_validate(read_json(body))
        elif kind == frames.MEDIA_TYPE:
            read = m.Submitted.model_validate(frames.read(body, most_bytes=longest).message(arrays=True))
        else:
            raise HTTPException(415, f"send {frames.JSON} or {frames.MEDIA_TYPE}")
    except NotJSON as error:
        raise Malformed("body", str(error)) from None
    except ValidationError as error:
        raise mistake(error.errors(include_input=False, include_url=False)) from None
    return Sent(read.ask_id, read.part, frames.arrayed(read.payload), read.contributor, read.token)


def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    wrong = mistake(error.errors())
    if wrong.argument == "body" and "json" not in request.headers.get("content-type", ""):
        wrong = Mistake("body", f"must be a JSON object; send it with Content-Type: {frames.JSON}")
    status, body = to_problem(wrong)
    return JSONResponse(body, status, media_type=MEDIA_TYPE)


def _refused(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101
    body = problem(error.status_code, _ELSEWHERE.get(error.status_code, str(error.detail)))
    return JSONResponse(body, error.status_code, headers=headers_of(request, error), media_type=MEDIA_TYPE)
