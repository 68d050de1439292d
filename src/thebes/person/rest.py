"""A person's REST interface, for programs of the same machine. Every request has passed the guard."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import Body, Depends, FastAPI, Path, Query, Request
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPBearer
from pydantic import Field

from thebes.person import rest_schema
from thebes.person.delivery import deliveries
from thebes.person.home import Person
from thebes.privacy.faults import Mistake
from thebes.tasks.document import GROUP_NAME
from thebes.wire.access import Access
from thebes.wire.error_handlers import described_problems, tell_problems
from thebes.wire.guard import App, Door, HostGuard
from thebes.wire.problems import MEDIA_TYPE, to_problem
from thebes.wire.refusals import Conflict, NotFound
from thebes.wire.request_body import RequestBody, Whole
from thebes.wire.server_options import application

_ANSWERS = {
    400: "the message cannot be read",
    401: "no token, or not the one of this home",
    402: "the budget does not allow it",
    403: "not allowed",
    404: "there is nothing by that name",
    405: "not this method",
    409: "not in this state",
    410: "the task or its phase is closed",
    413: "too large",
    415: "writes are JSON",
    421: "another address",
    422: "the field at fault is named",
    429: "the coordinator is busy",
    502: "the coordinator does not answer as it should",
    503: "the ledger cannot be reached",
}
Name = Annotated[str, Path(pattern=rest_schema.NAME)]
#: says in the description what the guard asks for; it checks nothing by itself
_TOKEN = HTTPBearer(auto_error=False, description="what stands in the home's file `token`")
GroupName = Annotated[str, Path(pattern=GROUP_NAME)]
TaskId = Annotated[str, Path(pattern=rest_schema.TASK_ID)]


class Insert(RequestBody):
    table: str = Field(pattern=rest_schema.NAME)
    rows: list[dict[str, Any]]


class Remove(RequestBody):
    keep_data: bool


class Enrol(RequestBody):
    code: str = Field(pattern=r"^[A-Za-z0-9]{1,200}$")
    pin: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    epoch: str | None = Field(default=None, pattern=GROUP_NAME)
    names: Literal["public", "private"] = "private"  #: "public": this person's name may be published with the group


class Withdraw(RequestBody):
    seen: str | None = Field(default=None, max_length=20)  #: the state that was seen; where more has left since, 409
    packets_sent: Annotated[Whole, Field(ge=0)] | None = None  #: of it, as it was seen


class Destroy(RequestBody):
    confirm: Literal["destroy everything"]


#: puts web pages onto the interface: given the application, the home, and the door for browsers
Pages = Callable[[FastAPI, Person, Door], None]


def guarded(person: Person, access: Access, *, port: int, stop: Callable[[], None], pages: Pages | None = None) -> App:
    """The whole interface behind its guard. `stop` ends the server after everything was destroyed."""
    api = application("thebes person", responses=described_problems(_ANSWERS), dependencies=[Depends(_TOKEN)])
    guard = HostGuard(api, access, port=port)
    tell_problems(api)

    @api.exception_handler(sqlite3.ProgrammingError)
    def closed(request: Request, error: sqlite3.ProgrammingError) -> JSONResponse:
        """Answer what was asked while the home was being closed, as a page that is open does all the time."""
        if not person.closed:
            raise error
        status, told = to_problem(Conflict("this home is closed; nothing more is answered"))
        return JSONResponse(told, status, media_type=MEDIA_TYPE)

    _store(api, person)
    deliveries(api, person)
    _tasks(api, person)
    _groups(api, person)
    _budget(api, person)

    @api.get("/api/export")
    def export() -> dict[str, Any]:
        """Return everything that this home holds, for its owner."""
        return person.export()

    @api.post("/api/destroy")
    def destroy(body: Destroy) -> dict[str, Any]:
        """Destroy the home: keys first, then all files."""
        person.destroy()
        threading.Timer(0.2, stop).start()
        return {"destroyed": True}

    @api.post("/api/session", status_code=201)
    def session() -> dict[str, str]:
        """A new one-time address for a browser."""
        return {"url": f"http://127.0.0.1:{port}/?code={access.new_code()}"}

    if pages is not None:
        pages(api, person, Door(guard, access, stop))
    return guard


def _store(api: FastAPI, person: Person) -> None:
    @api.post("/app/{app_name}/register", openapi_extra=rest_schema.DECLARATION)
    def register(app_name: Name, body: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        """Declare a collector's tables: `{"tables": {T: {"description", "columns": {C: {"type", "description"}}}}}`.
        The same again changes nothing."""
        return {"app": app_name, "version": person.register(app_name, body)}

    @api.post("/app/{app_name}/insert")
    def insert(app_name: Name, body: Insert) -> dict[str, Any]:
        """Add rows; an error names row and column, and then nothing was stored."""
        _exists(person, app_name, body.table)
        return {"inserted": person.insert(app_name, body.table, body.rows)}

    @api.get("/api/store")
    def store() -> list[dict[str, Any]]:
        """List collectors with their tables, columns and counts of rows."""
        return person.store()

    @api.get("/api/store/{app_name}/{table}")
    def newest(app_name: Name, table: Name, count: Annotated[int, Query(ge=1, le=1000)] = 20) -> list[dict[str, Any]]:
        """Return the latest rows of a table, for the owner's eyes only."""
        _exists(person, app_name, table)
        return person.newest(app_name, table, count)

    @api.get("/api/store/{app_name}/{table}/glance")
    def glance(app_name: Name, table: Name) -> list[dict[str, Any]]:
        """Show each column of a table at a glance, from the newest 20,000 rows: missing and different values, bars of
        its shape. For the owner's eyes only."""
        _exists(person, app_name, table)
        return person.glance(app_name, table)

    @api.post("/api/store/{app_name}/remove", status_code=204)
    def remove(app_name: Name, body: Remove) -> Response:
        """Take a collector away, and its data too unless `keep_data`."""
        _exists(person, app_name)
        person.remove(app_name, keep_data=body.keep_data)
        return Response(status_code=204)


def _exists(person: Person, app: str, table: str | None = None) -> None:
    tables = next((c["tables"] for c in person.store() if c["name"].lower() == app.lower()), None)
    if tables is None:
        raise NotFound("there is no collector of that name; it registers first")
    if table is not None and table.lower() not in {t["name"].lower() for t in tables}:
        raise NotFound("the collector has declared no table of that name")


def _tasks(api: FastAPI, person: Person) -> None:
    @api.get("/api/tasks")
    def tasks() -> list[dict[str, Any]]:
        """List open tasks with explanation, price and state: `packets_sent` of yours are there, you may still agree
        `turns_left` times (each a claim of its own), your participations cost `paid` so far and may still cost
        `set_aside`, and `returnable` says whether what you sent can be taken back."""
        return person.tasks()

    @api.get("/api/unread")
    def unread() -> list[dict[str, str]]:
        """Tell which tasks are not offered because nothing here can read or verify them, and why."""
        person.tasks()
        return person.unread()

    @api.get("/api/participations")
    def participations() -> list[dict[str, Any]]:
        """List every task this person has decided about, with results, what each has cost (`spent`), when it was sent
        (`sent`) and before which moment it is not (`due_at`); `times` is how often one person may take part in it."""
        return person.participations()

    @api.get("/api/lineage")
    def lineage() -> list[dict[str, Any]]:
        """Tell where what left went, the newest first: its `tables`, the digest of the `release`, the `receipts` that
        were looked for in it, and `models` made of it."""
        return person.lineage()

    @api.post("/api/lineage/{task_id}/look")
    def look(task_id: TaskId) -> list[dict[str, Any]]:
        """Look for this home's receipts in a release anew; the whole list of them is fetched."""
        return person.look_for_receipts(task_id)

    @api.get("/api/tasks/{task_id}")
    def task(task_id: TaskId) -> dict[str, Any]:
        """Return one task and this person's participations in it."""
        return person.task(task_id)

    @api.get("/api/tasks/{task_id}/preview")
    def preview(task_id: TaskId) -> dict[str, Any]:
        """Show exactly what would be read (`rows`, `columns`), whether that can take part (`able`), and which of it
        does not count as it is (`misfits`)."""
        return person.preview(task_id)

    @api.get("/api/tasks/{task_id}/place")
    def place(task_id: TaskId) -> dict[str, str]:
        """Say where the own value, as it lies here now, is in the answer ("above the mean of all"), for the owner's
        eyes only; empty where nothing can be said."""
        return {"place": person.place(task_id)}

    @api.get("/api/tasks/{task_id}/example")
    def example(task_id: TaskId) -> dict[str, Any]:
        """Show what noise does to the rows: a fresh draw each time, never the one that is sent."""
        return person.example(task_id)

    @api.post("/api/tasks/{task_id}/accept", status_code=202)
    def accept(task_id: TaskId) -> dict[str, Any]:
        """Take part, once nothing is unfinished: 402 beyond the budget, 409 while one is unfinished, or where no
        further one is taken."""
        return person.accept(task_id)

    @api.post("/api/tasks/{task_id}/decline")
    def decline(task_id: TaskId) -> dict[str, Any]:
        """Decline a task; nothing is sent."""
        return person.decline(task_id)

    @api.post("/api/tasks/{task_id}/withdraw")
    def withdraw(task_id: TaskId, body: Withdraw | None = None) -> dict[str, Any]:
        """Take it back: before anything was sent for free; after that it is destroyed there and the charge stays. 410
        too late; 409 where it was mixed in at once, or where more has left than was `seen`. Several packets go back at
        once, which shows the coordinator that they belong together; the `note` says so."""
        saw = body or Withdraw()
        return person.withdraw(task_id, seen=saw.seen, packets_sent=saw.packets_sent)


def _groups(api: FastAPI, person: Person) -> None:
    @api.get("/api/coordinator")
    def coordinator() -> dict[str, Any]:
        """Tell by which key the coordinator's list is known here, and which ones gave way to it and when."""
        return person.coordinator_key()

    @api.get("/api/coordinator/about")
    def about() -> dict[str, Any]:
        """Tell who runs the coordinator and how to reach them, in its own words."""
        return person.about_coordinator()

    @api.get("/api/groups")
    def groups() -> dict[str, Any]:
        """List the groups this home belongs to (epoch, size, minimum), and in plain words what anonymity they offer."""
        return {"groups": person.groups()}

    @api.post("/api/groups/{name}/enrol")
    def enrol(name: GroupName, body: Enrol) -> dict[str, Any]:
        """Join a group with a one-time code; the same again changes nothing. One that publishes its members' names is
        joined with `"names": "public"` only."""
        return person.enrol(name, body.code, body.pin, epoch=body.epoch, names=body.names)


def _budget(api: FastAPI, person: Person) -> None:
    @api.get("/api/ledger")
    def ledger() -> dict[str, Any]:
        """Tell what was spent and when, on which task and for whom, and what is left. `notices_older_copies`: whether
        an older copy of this home, put back in its place, would be noticed."""
        return person.ledger()

    @api.get("/api/ledger/verified")
    def verified() -> dict[str, Any]:
        """Tell whether the journal is whole and every balance is what it says (`whole`), and the `findings`."""
        return person.verify()

    @api.get("/api/settings")
    def settings() -> dict[str, Any]:
        """Return limits, caps and the longest delay."""
        return person.settings().as_json()

    @api.put("/api/settings", openapi_extra=rest_schema.SETTINGS)
    def set_settings(body: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        """Change limits, caps and the longest delay."""
        return person.set_settings(body)

    @api.get("/api/rules")
    def rules() -> dict[str, Any]:
        """Return the standing rules."""
        return {"rules": person.rules()}

    @api.get("/api/rules/agreed")
    def agreed() -> list[dict[str, Any]]:
        """Each standing rule with what it has agreed to."""
        return person.rulebook()

    @api.put("/api/rules", openapi_extra=rest_schema.RULES)
    def set_rules(body: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
        """Replace the standing rules."""
        if set(body) != {"rules"}:
            raise Mistake("rules", "must be given, and nothing else")
        return {"rules": person.set_rules(body["rules"])}
