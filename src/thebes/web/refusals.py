"""Routes whose refusals are told to eyes: as a page, or as a sentence in the place that asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response

from thebes.privacy.faults import Mistake, ThebesError
from thebes.wire.routes import Exact


def routes(refused: Callable[[Request, Any], Awaitable[Response]], *told: type[ThebesError]) -> APIRouter:
    """Make the router that a page's routes are put on; `refused` tells errors of the families `told`, others go on to
    the server."""

    class Route(Exact):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            inner = super().get_route_handler()

            async def handle(request: Request) -> Response:
                try:
                    return await inner(request)
                except told as refusal:
                    return await refused(request, refusal)
                except RequestValidationError:
                    return await refused(request, Mistake("request", "cannot be read; reload the page"))

            return handle

    return APIRouter(include_in_schema=False, route_class=Route)
