"""The local interface of a site, for its steward: what was asked, what was decided, what is left. It shows no rows,
and the process that serves it has none."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

from thebes import __version__
from thebes.privacy.faults import Mistake
from thebes.privacy.reading import NotJSON, read_json
from thebes.site.dialing import Link
from thebes.site.figures import TEXT, figures_of
from thebes.wire.access import Access
from thebes.wire.failing import tell_problems
from thebes.wire.guard import App, Door, Guard
from thebes.wire.refusals import Malformed, NotFound
from thebes.wire.serving import application

MOST_BYTES = 2**23  #: of rows in one request
MOST_ROWS = 10_000

#: puts web pages onto the interface: given the application, the link, the door for browsers, and whether this process
#: is kept away from the rows by the system
Pages = Callable[[FastAPI, Link, Door, bool], None]


def guarded(link: Link, access: Access, *, port: int, confined: bool, pages: Pages | None = None) -> App:
    """The whole interface behind its guard."""
    api = application("thebes site")
    guard = Guard(api, access, port=port, whose="site")
    tell_problems(api)

    @api.get("/api/site")
    async def site() -> dict[str, Any]:
        """Whether the coordinator is reached and knows this site; whether the process with the rows runs."""
        return {**link.shown(), "confined": confined, "version": __version__}

    @api.get("/metrics")
    async def figures() -> Response:
        """How the site stands, for Prometheus: whether it is linked, and how long its certificate counts. Nothing about
        what was asked or answered."""
        return Response(figures_of(link.shown(), confined, datetime.now(UTC)), headers={"content-type": TEXT})

    @api.get("/api/requests")
    async def requests() -> Any:
        """The latest tasks that were asked here, with what was decided and what they cost so far."""
        return await link.algorithm.ask("requests")

    @api.get("/api/ledger")
    async def ledger() -> Any:
        """What is left of every data set's budget, and of every rule's."""
        return await link.algorithm.ask("ledger")

    @api.get("/api/datasets")
    async def datasets() -> Any:
        """What can be asked about, as it is declared."""
        return await link.algorithm.ask("datasets")

    @api.get("/api/audit")
    async def audit() -> Any:
        """The end of the audit log, newest first."""
        return await link.algorithm.ask("audit")

    @api.get("/api/verified")
    async def verified() -> Any:
        """Whether the audit log and the ledger's journal are whole."""
        return await link.algorithm.ask("verified")

    @api.post("/api/dataset/{name}/append", status_code=201)
    async def append(name: str, request: Request) -> Any:
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
    async def model(name: str, version: str = "") -> Any:
        """One model whole: its document, features, certificate and lineage; the newest version where none is named."""
        return _there(await link.algorithm.ask("model", name=name, version=_version(version)))

    @api.post("/api/model/{name}/predict")
    async def predict(name: str, request: Request, version: str = "") -> Any:
        """What a model says of rows with the stream's own columns: `{"rows": [{column: value}]}`."""
        rows, key = read_rows(await request.body())
        if key is not None:
            raise Mistake("key", "is for rows that are appended")
        return _there(await link.algorithm.ask("predict", name=name, version=_version(version), rows=rows))

    @api.post("/api/session", status_code=201)
    async def session() -> dict[str, str]:
        """A new one-time address for a browser."""
        return {"url": one_time(port, access)}

    if pages is not None:
        pages(api, link, Door(guard, access, lambda: None), confined)
    return guard


def _version(text: str) -> int | None:
    if text and not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise Mistake("version", "must be a whole number")
    return int(text) if text else None


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
