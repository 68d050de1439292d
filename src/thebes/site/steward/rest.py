"""The local interface of a site, for its steward: what was asked, what was decided, what is left. It shows no rows,
and the process that serves it has none."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Path, Query, Request
from fastapi.responses import Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from thebes import __version__
from thebes.privacy.faults import Mistake
from thebes.privacy.reading import NotJSON, read_json
from thebes.site.link.dialer import Link
from thebes.site.metrics import figures_of
from thebes.tasks.site_document import DATASET_NAME
from thebes.wire.access import Access
from thebes.wire.error_handlers import described_problems, tell_problems
from thebes.wire.exposition import KINDS, exposed
from thebes.wire.guard import App, Door, HostGuard
from thebes.wire.identity_provider import IdentityProvider
from thebes.wire.refusals import Conflict, Malformed, NotAllowed, NotFound, Unreachable
from thebes.wire.server_options import application

MOST_BYTES = 2**23  #: of rows in one request
MOST_ROWS = 10_000

_ANSWERS = {
    400: "the message cannot be read",
    401: "no token, or not the one of this home",
    403: "not allowed",
    404: "there is nothing by that name",
    409: "it is another by now",
    405: "not this method",
    413: "too large",
    415: "writes are JSON",
    421: "another address",
    422: "the field at fault is named",
    502: "the process with the rows does not answer just now",
}
#: says in the description what the guard asks for; it checks nothing by itself
_TOKEN = HTTPBearer(auto_error=False, description="what stands in the home's file `token`")
DataSetName = Annotated[str, Path(pattern=DATASET_NAME)]
ModelName = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Version = Annotated[int | None, Query(ge=1, le=10**9, description="the newest where none is named")]


class PolicyDecision(BaseModel):
    """A decision about who may ask. allow and refuse name a `task` that was asked here, and are about that task alone
    or about all that its requestor asks; end and resume name a rule of the policy by table and number."""

    model_config = ConfigDict(extra="forbid")

    action: Literal["allow", "refuse", "end", "resume"]
    task: str | None = Field(default=None, max_length=100)
    scope: Literal["task", "requestor"] | None = None
    epsilon: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    contexts: list[str] | None = Field(default=None, max_length=100)
    reason: str | None = Field(default=None, max_length=200)
    table: Literal["allow", "refuse"] | None = None
    number: int | None = Field(default=None, ge=1, le=100_000)
    shown: str | None = Field(default=None, max_length=64)


#: puts web pages onto the interface: given the application, the link, the door for browsers, and whether this process
#: is kept away from the rows by the system
Pages = Callable[[FastAPI, Link, Door, bool], None]


def guarded(
    link: Link,
    access: Access,
    *,
    port: int,
    confined: bool,
    pages: Pages | None = None,
    provider: IdentityProvider | None = None,
) -> App:
    """The whole interface behind its guard. At a `provider` stewards may sign in, too."""
    api = application("thebes site", responses=described_problems(_ANSWERS), dependencies=[Depends(_TOKEN)])
    guard = HostGuard(api, access, port=port, whose="site", signing_in=provider is not None)
    door = Door(guard, access, lambda: None, provider=provider)
    tell_problems(api)

    @api.get("/api/site")
    async def site() -> dict[str, Any]:
        """Tell whether the coordinator is reached and knows this site; whether the process with the rows runs."""
        return {**link.shown(), "confined": confined, "version": __version__}

    @api.get("/metrics", response_class=Response, responses={200: {"content": KINDS}})
    async def figures(request: Request) -> Response:
        """Tell how the site stands, for Prometheus: whether it is linked, how long its certificate counts, and which
        share of each data set's budget is left. Nothing else about what was asked or answered."""
        try:
            budgets = await link.algorithm.ask("budgets")
        except Unreachable:
            budgets = None
        found = figures_of(link.shown(), confined, datetime.now(UTC), budgets)
        told, kind = exposed(found, request.headers.get("accept", ""))
        return Response(told, headers={"content-type": kind})

    @api.get("/api/requests")
    async def requests() -> Any:
        """The latest tasks that were asked here, with what was decided and what they cost so far."""
        return await link.algorithm.ask("requests")

    @api.get("/api/ledger")
    async def ledger() -> Any:
        """Return what is left of every data set's budget, and of every rule's."""
        return await link.algorithm.ask("ledger")

    @api.get("/api/datasets")
    async def datasets() -> Any:
        """Return what can be asked about, as it is declared."""
        return await link.algorithm.ask("datasets")

    @api.get("/api/audit")
    async def audit() -> Any:
        """The end of the audit log, newest first."""
        return await link.algorithm.ask("audit")

    @api.post("/api/policy/preview")
    async def preview(body: PolicyDecision) -> Any:
        """Tell what a decision would change in policy.toml: a sentence, the lines, and the edition (`shown`) of the
        policy that it would change. Nothing is changed."""
        return await link.algorithm.ask("preview", **body.model_dump(exclude_none=True))

    @api.post("/api/policy/decide")
    async def decide(body: PolicyDecision, request: Request) -> Any:
        """Change policy.toml as it was previewed; 409 where it is another by now. `undo` is the decision that takes
        this one back."""
        asked = body.model_dump(exclude_none=True)
        told = await link.algorithm.ask("decide", **asked, by=door.who(request.headers))
        if "stale" in told:
            raise Conflict(told["stale"])
        return told

    @api.get("/api/verified")
    async def verified() -> Any:
        """Tell whether the audit log and the ledger's journal are whole."""
        return await link.algorithm.ask("verified")

    @api.post("/api/dataset/{name}/append", status_code=201, openapi_extra=_taken(key=True))
    async def append(name: DataSetName, request: Request) -> Any:
        """More rows for a growing data set, all of them or none: `{"rows": [{column: value}], "key": "..."}`. The
        key names these rows: the same again under it change nothing, and `again` says so. Whoever holds the site's
        token may."""
        rows, key = read_rows(await request.body())
        return await link.algorithm.ask("append", dataset=name, rows=rows, key=key)

    @api.get("/api/model")
    async def models() -> Any:
        """The newest version of every model that was accepted, without the model itself."""
        return await link.algorithm.ask("models")

    @api.get("/api/model/{name}")
    async def model(name: ModelName, version: Version = None) -> Any:
        """One model whole: its document, features, certificate and lineage; the newest version where none is named."""
        return _there(await link.algorithm.ask("model", name=name, version=version))

    @api.post("/api/model/{name}/predict", openapi_extra=_taken(key=False))
    async def predict(name: ModelName, request: Request, version: Version = None) -> Any:
        """Return what a model says of rows with the stream's own columns: `{"rows": [{column: value}]}`."""
        rows, key = read_rows(await request.body())
        if key is not None:
            raise Mistake("key", "is for rows that are appended")
        return _there(await link.algorithm.ask("predict", name=name, version=version, rows=rows))

    @api.post("/api/session", status_code=201)
    async def session(request: Request) -> dict[str, str]:
        """A new one-time address for a browser. Whoever is signed in by name gets none: it would let in somebody
        unnamed, for longer than the sign-in."""
        if door.who(request.headers):
            raise NotAllowed("you are signed in by name; for another browser, sign in there")
        return {"url": one_time(port, access)}

    if pages is not None:
        pages(api, link, door, confined)
    return guard


def _taken(*, key: bool) -> dict[str, Any]:
    """Return what `read_rows` takes, for the description; of rows that are appended the key belongs to them."""
    value = {"type": ["string", "integer", "number", "boolean", "null"]}
    rows = {"type": "array", "items": {"type": "object", "additionalProperties": value}, "maxItems": MOST_ROWS}
    properties: dict[str, Any] = {"rows": {**rows, "minItems": 1}}
    if key:
        properties["key"] = {"type": "string", "minLength": 1, "maxLength": 200}
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _there(told: Any) -> Any:
    if told is None:
        raise NotFound("there is no model of that name, or no such version of it")
    return told


def read_rows(body: bytes) -> tuple[list[dict[str, Any]], str | None]:
    """The rows that come in a request, and their key: objects of plain values, and nothing else."""
    if len(body) > MOST_BYTES:
        raise Mistake("rows", f"are more than {MOST_BYTES} bytes; send them in several requests, or as a file")
    try:
        told = read_json(body)
    except NotJSON as error:
        raise Malformed("body", str(error)) from None
    if not isinstance(told, dict) or not set(told) <= {"rows", "key"} or not isinstance(told.get("rows"), list):
        raise Mistake("rows", "must be a list of objects, beside which only a key may stand")
    if len(told["rows"]) > MOST_ROWS:
        raise Mistake("rows", f"are more than {MOST_ROWS}; send them in several requests, or as a file")
    for place, row in enumerate(told["rows"], 1):
        if not isinstance(row, dict) or not all(_plain(value) for value in (*row, *row.values())):
            raise Mistake("rows", f"row {place} must be an object of texts, numbers, true, false and null")
    return told["rows"], told.get("key")


def _plain(value: object) -> bool:
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= sign <= "\udfff" for sign in value)
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return value is None or (isinstance(value, float) and math.isfinite(value))


def one_time(port: int, access: Access) -> str:
    """An address that lets one browser in, once."""
    return f"http://127.0.0.1:{port}/?code={access.new_code()}"
