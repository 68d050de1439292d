"""The routes of every server of ours: how a body is read, and what is told of a method that is not taken.

What must stay true: JSON is read exactly, and `Allow` names every method that an address takes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import Match, Mount

from thebes.privacy.reading import NotJSON, read_json

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")


class Exact(APIRoute):
    """A route whose body is read as `read_json` reads: the framework's own reader takes the last of two values under
    one name, and NaN for a number."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await inner(_Read(request.scope, request.receive))

        return handle


class _Read(Request):
    async def json(self) -> Any:
        try:
            return read_json(await self.body())
        except NotJSON as error:
            raise json.JSONDecodeError(str(error), "", 0) from None  # what the framework makes a refusal of


def no_json(first: Mapping[str, Any]) -> str | None:
    """Say why a body is not JSON, by the first of the framework's errors; None where that is not what is wrong."""
    return str(first["ctx"]["error"]) if first["type"] == "json_invalid" else None


def headers_of(request: Request, error: HTTPException) -> Mapping[str, str] | None:
    """The headers of a refusal. The framework's own say of a method that is not taken which ones the first of an
    address's routes takes, and not the others."""
    if error.status_code != 405:
        return error.headers
    routes = [route for route in request.app.routes if not isinstance(route, Mount)]  # which know better themselves
    taken = [
        method
        for method in _METHODS
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return {"allow": ", ".join(taken)} if taken else error.headers
