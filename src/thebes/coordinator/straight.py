"""A way past the machinery of the web framework for what is asked thousands of times a second.

What must stay true: a route that goes straight reads, checks and refuses its parameters as its signature says, which
is also what is published of it; nothing else about it differs from any other route.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any, get_type_hints
from urllib.parse import parse_qsl

from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.types import Receive, Scope, Send


class Straight(APIRoute):
    """The framework describes it; its endpoint is called with nothing in between, and gives a finished response."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        super().__init__(path, endpoint, **more)
        hints = get_type_hints(endpoint, include_extras=True)
        self._read = {
            name: (TypeAdapter(hints[name]), told.default)
            for name, told in signature(endpoint).parameters.items()
            if hints[name] is not Request
        }

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)
            return
        response = await self.endpoint(Request(scope, receive), **self._parameters(scope))
        await response(scope, receive, send)

    def _parameters(self, scope: Scope) -> dict[str, Any]:
        told: Mapping[str, str] = scope["path_params"]
        if scope["query_string"]:
            asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
            told = {**dict(asked), **told}
        found = {}
        for name, (adapter, default) in self._read.items():
            if name in told:
                try:
                    found[name] = adapter.validate_strings(told[name])
                except ValidationError as error:
                    raise RequestValidationError([{**each, "loc": (name,)} for each in error.errors()]) from None
            elif default is Parameter.empty:
                raise RequestValidationError([{"type": "missing", "loc": (name,), "msg": "Field required"}])
        return found
