"""The schemas that collectors fill: for everybody to look at, for operators to publish."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import ValidationError

from thebes.coordinator.api.bodies import Published
from thebes.coordinator.api.fast_path import mistake
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.reading import NotJSON, read_json
from thebes.web.coordinator.layout import CoordinatorLayout, text

EXAMPLE = {
    "demographics": {
        "description": "What somebody says about themselves",
        "columns": {"age": {"type": "float", "description": "in years"}, "city": {"type": "string", "description": ""}},
    }
}


def routes(layout: CoordinatorLayout) -> APIRouter:
    made = layout.routes()

    @made.get("/schemas")
    async def show(request: Request) -> Response:
        """Every collector's tables and columns."""
        schemas = await layout.service.schemas()
        example = json.dumps(EXAMPLE, indent=2)
        return await layout.page(request, "schemas.html", title="Schemas", schemas=schemas, example=example)

    @made.post("/schemas")
    async def publish(request: Request) -> Response:
        """Publish a collector's tables, or say what is wrong with them."""
        body = await layout.written(request)
        try:
            read = Published.model_validate({"app": text(body, "app"), "tables": _object(text(body, "tables"))})
            tables: dict[str, Any] = read.model_dump(mode="json")["tables"]
            version = await layout.service.publish(read.app, tables, await layout.somebody(request))
        except ValidationError as error:
            return layout.told(mistake(error.errors(include_input=False, include_url=False, include_context=False)))
        except (Mistake, Refusal) as error:
            return layout.told(error)
        return layout.part("published.html", app=read.app, version=version, schemas=await layout.service.schemas())

    return made


def _object(words: str) -> Any:
    try:
        return read_json(words)
    except NotJSON as error:
        raise Mistake("tables", str(error)) from None
