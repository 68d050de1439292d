"""My data: every collector with its tables, columns and newest rows; and how to take one away."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request
from fastapi.responses import Response

from thebes.person.home import Person
from thebes.person.rest_schema import NAME
from thebes.privacy.faults import Mistake
from thebes.web.person.layout import PersonLayout, text

NEWEST = 8  #: rows shown of each table
LARGEST_CELL = 200  #: characters of a value that are shown

Name = Annotated[str, Path(pattern=NAME)]


def routes(layout: PersonLayout) -> APIRouter:
    made, person = layout.routes(), layout.person

    @made.get("/data")
    def data(request: Request) -> Response:
        return layout.page(request, "data.html", title="My data", collectors=_collectors(person))

    @made.get("/data/{app_name}/{table}")
    def shape(request: Request, app_name: Name, table: Name) -> Response:
        """A table's columns at a glance and its newest rows; by itself, because counting takes a moment."""
        glances = {seen["column"]: seen for seen in person.glance(app_name, table)}
        return layout.part(
            "table.html", app=app_name, table=_table(person, app_name, table), glances=glances,
            rows=[{c: _cell(v) for c, v in row.items()} for row in person.newest(app_name, table, NEWEST)],
        )  # fmt: skip

    @made.post("/data/{app_name}/remove")
    def remove(request: Request, app_name: Name, body: Annotated[dict[str, Any], Body()]) -> Response:
        """Take a collector away; whether its rows stay has to be said."""
        fate = text(body, "rows")
        if fate not in ("keep", "delete"):
            raise Mistake("rows", "must be kept or deleted: choose one")
        person.remove(app_name, keep_data=fate == "keep")
        kept = "Its rows stay, and tasks may still ask to read them." if fate == "keep" else "Its rows are deleted."
        return layout.part("collectors.html", collectors=_collectors(person), told=f"{app_name} was taken away. {kept}")

    return made


def _collectors(person: Person) -> list[dict[str, Any]]:
    return person.store()


def _table(person: Person, app: str, table: str) -> dict[str, Any]:
    for collector in person.store():
        if collector["name"].lower() == app.lower():
            for found in collector["tables"]:
                if found["name"].lower() == table.lower():
                    return dict(found)
    raise Mistake("table", "is not one that this collector declared")


def _cell(value: Any) -> Any:
    if isinstance(value, str) and len(value) > LARGEST_CELL:
        return value[:LARGEST_CELL] + "…"
    return value
