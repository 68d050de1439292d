"""A way past the machinery of the web framework for what is asked thousands of times a second.

What must stay true: a route that goes straight reads, checks and refuses its parameters as its signature says, which
is also what is published of it; nothing else about it differs from any other route.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, get_type_hints
from urllib.parse import parse_qsl

from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from thebes.privacy.faults import Mistake
from thebes.privacy.field_errors import in_words
from thebes.wire.refusals import Malformed
from thebes.wire.routes import no_json


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
        self._wants_request = Request in hints.values()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)
            return
        parameters = self._parameters(scope)
        if self._wants_request:
            parameters["request"] = Request(scope, receive)
        response = await self.endpoint(**parameters)
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
                    raise mistake([{**each, "loc": (name,)} for each in error.errors()]) from None
            elif default is Parameter.empty:
                raise Mistake(name, "is missing")
        return found


class Shortcuts:
    """Finds straight routes at and below one address without asking every other route first."""

    def __init__(self, at: str) -> None:
        self._at, self._below = at, f"{at}/"
        self._routes: dict[tuple[str, str], Straight] = {}

    def add(self, route: Straight) -> None:
        """One whose path is the address itself, `at/{task_id}` or `at/{task_id}/NAME`."""
        for method in route.methods or ():
            self._routes[method, route.path.removeprefix(self._at)] = route

    def way(self, scope: Scope) -> ASGIApp | None:
        """Return the application that a request goes straight to, if it does."""
        path: str = scope["path"]
        if not path.startswith(self._at):
            return None
        told, tail = dict[str, str](), ""
        if path.startswith(self._below):
            task_id, stroke, name = path[len(self._below) :].partition("/")
            if not task_id:
                return None
            told, tail = {"task_id": task_id}, f"/{{task_id}}{stroke}{name}"
        elif path != self._at:
            return None
        route = self._routes.get((scope["method"], tail))
        if route is None:
            return None
        scope["path_params"] = told
        return route.handle


def mistake(errors: Sequence[Mapping[str, Any]]) -> Mistake:
    """The first thing that was wrong with a request, by its place and never by its value."""
    first = errors[0]
    if (why := no_json(first)) is not None:
        return Malformed("body", why)
    places = [str(place)[:40] for place in first["loc"] if place not in ("body", "query", "path")]
    if first["type"] == "none_required":
        return Mistake(".".join(places), "must be left out: this coordinator has no groups yet")
    return Mistake(".".join(places) or "body", in_words(first))
