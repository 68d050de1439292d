"""What stands before every request: a limit on its size, and a wall behind which no error is told in its own words."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from thebes.coordinator.database import StoreUnavailable
from thebes.coordinator.straight import Shortcuts
from thebes.wire.headers import HEADERS
from thebes.wire.logs import whereabouts
from thebes.wire.problems import MEDIA_TYPE, problem, to_problem
from thebes.wire.refusals import Malformed, TooLarge

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
_ONCE = (b"authorization", b"host", b"content-length", b"content-type")
log = logging.getLogger("thebes.coordinator")


class Guard:
    """ASGI around the interface. Nothing of a request is ever logged but its method, its route and its status."""

    def __init__(self, app: App, *, largest_body: int, registry: CollectorRegistry, shortcuts: Shortcuts) -> None:
        self._app, self._shortcuts = app, shortcuts
        self._largest = largest_body
        self._requests = Counter(
            "thebes_requests_total", "Requests by method and status.", ["method", "status"], registry=registry
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, taken = False, 0

        async def receiving() -> MutableMapping[str, Any]:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            self._fits(taken)
            return message

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                self._fits(taken)  # again: who read the body may have made something else of the refusal
                started = True
                message["headers"] = [*message.get("headers", []), *HEADERS]
                self._requests.labels(_method(scope), str(message["status"])).inc()
            await send(message)

        try:
            self._admit(scope["headers"])
            await (self._shortcuts.way(scope) or self._app)(scope, receiving, sending)
        except Exception as error:
            status, body = self._told(error)
            if started:
                raise ConnectionError("the answer broke off") from None
            taken = 0
            headers = {"www-authenticate": "Bearer"} if status == 401 else None
            answer = JSONResponse(body, status_code=status, headers=headers, media_type=MEDIA_TYPE)
            await answer(scope, receive, sending)

    def _told(self, error: Exception) -> tuple[int, dict[str, Any]]:
        if isinstance(error, StoreUnavailable):
            log.error("%s", error)
            return 503, problem(503, "the coordinator's database does not answer just now; try again")
        if isinstance(error, HTTPException):
            return error.status_code, problem(error.status_code, str(error.detail))
        status, body = to_problem(error)
        if status == 500:
            log.error("a request failed: %s", whereabouts(error))
        return status, body

    def _admit(self, headers: list[tuple[bytes, bytes]]) -> None:
        names = [name for name, _ in headers]
        for name in _ONCE:
            if names.count(name) > 1:
                raise Malformed("headers", f"{name.decode()} stands twice")
        length = next((value for name, value in headers if name == b"content-length"), b"0")
        self._fits(int(length) if length.isdigit() else 0)

    def _fits(self, size: int) -> None:
        if size > self._largest:
            raise TooLarge(f"the body is larger than {self._largest} bytes")


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in ("GET", "POST", "DELETE", "HEAD", "OPTIONS") else "other"
