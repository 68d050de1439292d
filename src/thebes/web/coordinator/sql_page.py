"""Asking in SQL: a text, what it would buy and what each site says of it, put up; and the table of its answer."""

from __future__ import annotations

import asyncio
import json
import math
from functools import partial
from typing import Any
from urllib.parse import quote as encoded

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from thebes.coordinator.tasks.states import Status
from thebes.curator.questions.groups import bounds_of
from thebes.data.join import Join
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.figures import figure
from thebes.sql.answer import SqlAnswer
from thebes.sql.declaration import schema_at
from thebes.sql.question import SqlQuestion, read
from thebes.sql.statement import read_statement
from thebes.tasks import registry
from thebes.tasks.release_reader import release_from_json
from thebes.tasks.rows_document import RowsDocument
from thebes.tasks.site_document import SiteDocument
from thebes.web.coordinator import words
from thebes.web.coordinator.layout import CoordinatorLayout, text
from thebes.web.coordinator.task import abridged
from thebes.wire.refused_sites import why

EXAMPLE = "SELECT ward, COUNT(*) AS n, AVG(age) AS mean_age\nFROM patients\nGROUP BY ward\nORDER BY n DESC"


def routes(layout: CoordinatorLayout) -> APIRouter:
    made = layout.routes()
    service = layout.service

    async def question(body: dict[str, Any]) -> SqlQuestion:
        """Read what stands on the page as a question, or refuse it naming the clause."""
        statement = read_statement(text(body, "sql"))
        named = [site.strip() for site in text(body, "sites").split(",") if site.strip()] or "all"
        schema = schema_at(await service.sites(), statement.datasets, named)
        fields: dict[str, Any] = {name: _number(body, name) for name in ("epsilon", "delta")}
        fields |= {"max_groups_per_person": int(_number(body, "max_groups_per_person") or 1)}
        fields |= {"sites": named, "purpose": text(body, "purpose") or None}
        return await asyncio.to_thread(partial(read, statement, schema, **fields))

    @made.get("/ask/sql")
    async def show(request: Request, sql: str = EXAMPLE) -> Response:
        """The page, with a text to begin with."""
        return await layout.page(request, "ask_sql.html", title="Ask in SQL", sql=sql[:20_000])

    @made.post("/ask/sql/check")
    async def check(request: Request) -> HTMLResponse:
        """Show what a text would buy, or what is wrong with it."""
        visitor = await layout.visitor(request)
        try:
            asked = await question(await layout.written(request))
            found = await service.examined(asked.document)
        except (Mistake, Refusal) as error:
            return layout.part("sql_verdict.html", refused=_plainly(error), visitor=visitor)
        if found["problems"]:
            first = found["problems"][0]
            return layout.part("sql_verdict.html", refused=f"{first['field']}: {first['message']}", visitor=visitor)
        return layout.part(
            "sql_verdict.html",
            found=found,
            document=abridged(found["document"]),
            bounds=bounds(asked),
            columns=list(asked.columns),
            visitor=visitor,
            words=words,
        )

    @made.post("/ask/sql/quote")
    async def quote(request: Request) -> HTMLResponse:
        """Ask the sites what they say of it beforehand, for who is signed in."""
        try:
            asked = await question(await layout.written(request))
            told = await service.quote(asked.document, await layout.somebody(request))
        except (Mistake, Refusal) as error:
            return layout.told(error)
        return layout.quoted(told)

    @made.post("/ask/sql")
    async def put_up(request: Request) -> Response:
        """Put it up, and lead to the table of its answer."""
        try:
            asked = await question(await layout.written(request))
            task_id, _ = await service.post(asked.document, await layout.somebody(request))
        except (Mistake, Refusal) as error:
            return layout.told(error)
        return Response(headers={"HX-Redirect": f"/task/{task_id}/sql?sql={encoded(asked.text)}"})

    async def answered(task_id: str, sql: str) -> dict[str, Any]:
        task, body = await layout.task(task_id)
        told: dict[str, Any] = {"task": task, "answer": None, "over": Status(task["status"]).final, "refused": ""}
        told["why"] = why
        try:
            document = registry.accepted_earlier(task["document"])
            if not isinstance(document, SiteDocument):
                raise Mistake("sql", "asks sites, and this task asked people")
            if body is not None:
                schema = schema_at(await service.sites(), document.datasets, document.sites)
                told["answer"] = await asyncio.to_thread(answer_of, sql, schema, document, body)
                told["over"] = True
        except Mistake as error:
            told |= {"refused": _plainly(error), "over": True}
        return told

    @made.get("/task/{task_id}/sql")
    async def table(request: Request, task_id: str, sql: str = "") -> Response:
        """The answer to a text as its table, once it is there."""
        told = await answered(task_id, sql)
        return await layout.page(request, "sql_answer.html", title="Answer in SQL", sql=sql, **told)

    @made.get("/task/{task_id}/sql/standing")
    async def standing(task_id: str, sql: str = "") -> HTMLResponse:
        """The part of that page that changes."""
        return layout.part("sql_table.html", sql=sql, **await answered(task_id, sql))

    return made


def answer_of(sql: str, schema: Schema | Join, document: SiteDocument, body: str) -> SqlAnswer:
    """Make the table of a release; refused where the text does not ask what the task asked."""
    sites = document.sites if document.sites == "all" else list(document.sites)
    fields: dict[str, Any] = {"sites": sites, "purpose": document.purpose}
    fields |= {"epsilon": document.epsilon, "delta": document.delta}
    fields |= {"max_groups_per_person": getattr(document, "max_groups_per_person", None) or 1}
    asked = read(sql, schema, **fields)
    if registry.check(asked.document).digest != document.digest:
        raise Mistake("sql", "does not ask what this task asked")
    return asked.answer(release_from_json(json.loads(body)))


def bounds(asked: SqlQuestion) -> dict[str, str]:
    """Say of every column that is read, and of every expression, between which bounds its values are cut."""
    document = registry.check(asked.document)
    assert isinstance(document, RowsDocument)  # noqa: S101
    schema = document.made.schema(asked.schema)
    names = (*document.used, *document.reads)
    told = bounds_of(schema, names)
    return {
        name: f"{figure(one['low'])} to {figure(one['high'])}"
        if one["type"] == "range"
        else f"{len(one['values'])} values"
        for name, one in told.items()
    }


def _number(body: dict[str, Any], name: str) -> float:
    written = text(body, name)
    try:
        found = float(written or 0)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise Mistake(name, "must be a number")
    return found


def _plainly(error: Mistake | Refusal) -> str:
    if not isinstance(error, Mistake):
        return str(error)
    return error.message if error.argument == "sql" else f"{error.argument}: {error.message}"
