"""First steps: from an empty home to a first decision, on one page."""

from __future__ import annotations

from shlex import quote
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from fastapi.responses import Response

from thebes.person.home import Person
from thebes.privacy.faults import Mistake
from thebes.web.person.layout import PersonLayout, text
from thebes.web.person.limits import context as limits_context
from thebes.wire.refusals import Conflict

#: what may be typed in: a table that many questions read, under the names that they use
APP, TABLE = "profile", "demographics"
FIELDS = (
    ("age", "float", "Your age, in years"),
    ("gender", "string", "Your gender, in your own word"),
    ("education", "integer", "Your years at school"),
    ("city", "string", "The place where you live"),
)
_DECLARATION = {
    "tables": {
        TABLE: {
            "description": "Who I am, as I typed it in",
            "columns": {name: {"type": type_, "description": label} for name, type_, label in FIELDS},
        }
    }
}


def routes(layout: PersonLayout) -> APIRouter:
    made, person = layout.routes(), layout.person

    @made.get("/welcome")
    def welcome(request: Request) -> Response:
        return layout.page(
            request, "welcome.html", title="First steps", told=None, task="", coordinator=person.coordinator,
            key=person.coordinator_key(), remembers=person.remembers(), **_data(person), **limits_context(person),
        )  # fmt: skip

    @made.post("/welcome/data")
    def typed(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        """Keep what was typed in, as a row of the person's own."""
        row = _row(body)
        if not _may_type(person):
            raise Conflict("a table of that name lies here already; look at My data")
        person.register(APP, _DECLARATION)
        person.insert(APP, TABLE, [row])
        return layout.part("typed.html", told="It lies on this machine, encrypted. Nobody was told.", **_data(person))

    return made


def is_new(person: Person) -> bool:
    """Return whether nothing was done with a home yet: no data, no limits, no decision."""
    return not person.store() and person.settings().task is None and not person.participations()


def _data(person: Person) -> dict[str, Any]:
    rows = sum(table["rows"] for collector in person.store() for table in collector["tables"])
    return {"rows_here": rows, "fields": FIELDS, "may_type": _may_type(person), "home": quote(str(person.home))}


def _may_type(person: Person) -> bool:
    return APP not in {str(collector["name"]).lower() for collector in person.store()}


def _row(body: dict[str, Any]) -> dict[str, Any]:
    """Read the form: what was left empty is missing, and not all of it may be."""
    row: dict[str, Any] = {}
    for name, type_, label in FIELDS:
        value = body.get(name)
        if type_ == "string":
            row[name] = text(body, name) or None
        elif value is None or value == "":
            row[name] = None
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 150:
            row[name] = float(value) if type_ == "float" else round(value)
        else:
            raise Mistake(label, "must be a number of years from 0 to 150")
    if not any(value is not None for value in row.values()):
        raise Mistake("form", "is empty: type in what you want to be asked about, or leave this step out")
    return row
