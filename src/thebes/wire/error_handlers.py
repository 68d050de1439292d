"""An interface whose every error is told as problem details, and none of them repeats what was sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from thebes.privacy.faults import ThebesError
from thebes.privacy.field_errors import in_words
from thebes.wire.problems import MEDIA_TYPE, problem, to_problem
from thebes.wire.routes import headers_of, no_json

_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string"},
    },
}


def described_problems(answers: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """The statuses with which an interface refuses, as its description says them."""
    content = {MEDIA_TYPE: {"schema": _PROBLEM}}
    return {status: {"description": text, "content": content} for status, text in answers.items()}


def tell_problems(api: FastAPI) -> None:
    """Whatever goes wrong behind `api` becomes problem details; of a fault of ours nothing is told."""

    @api.exception_handler(ThebesError)
    @api.exception_handler(Exception)
    def ours(request: Request, error: Exception) -> JSONResponse:
        status, body = to_problem(error)
        return JSONResponse(body, status, media_type=MEDIA_TYPE)

    @api.exception_handler(RequestValidationError)
    def unreadable(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part)[:40] for part in first["loc"] if part not in ("body", "path", "query"))
        if (why := no_json(first)) is not None:
            return JSONResponse(problem(400, why, field="body"), 400, media_type=MEDIA_TYPE)
        return JSONResponse(problem(422, in_words(first), field=where or "body"), 422, media_type=MEDIA_TYPE)

    @api.exception_handler(HTTPException)
    def other(request: Request, error: HTTPException) -> JSONResponse:
        made = problem(error.status_code, str(error.detail))
        return JSONResponse(made, error.status_code, headers=headers_of(request, error), media_type=MEDIA_TYPE)
