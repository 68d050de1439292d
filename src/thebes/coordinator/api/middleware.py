"""The guards that stand before every request: a limit on its size, and a wall behind which no error is told in its own
words.

Reading JSON takes everybody's time, and memory many times its length. So whoever shows no token may send little of it.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from thebes.coordinator.api.fast_path import Shortcuts
from thebes.coordinator.process.metrics import STORE_UNAVAILABLE, CoordinatorMetrics
from thebes.coordinator.storage.database import StoreUnavailable
from thebes.wire.headers import HEADERS
from thebes.wire.log_output import whereabouts
from thebes.wire.problems import MEDIA_TYPE, problem, to_problem
from thebes.wire.refusals import Busy, Malformed, TooLarge

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
STRANGERS = 2**20  #: bytes of a request in which no token stands, unless its address has a limit of its own
_MOST_COOKIES = 8
_ONCE = (b"authorization", b"host", b"content-length", b"content-type")
WAITED = "thebes.waited"  #: in a scope: for how many seconds of an answer nothing was done but waiting
log = logging.getLogger("thebes.coordinator")


class RequestGuard:
    """ASGI around the interface. Nothing of a request is ever logged but its method, its route and its status."""

    def __init__(
        self,
        app: App,
        *,
        largest_body: int,
        metrics: CoordinatorMetrics,
        known: Callable[[list[str]], Awaitable[bool]],
    ) -> None:
        self._app = app
        self._largest, self._strangers = largest_body, min(STRANGERS, largest_body)
        self._known = known  #: whether one of these is somebody's token
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        else:
            await self.before(self._app, scope, receive, send)

    async def before(self, app: App, scope: Scope, receive: Receive, send: Send, *, straight: bool = False) -> None:
        """Stand before another application; what goes `straight` there has limits of its own for what it takes."""
        began, started, taken, refused = time.perf_counter(), False, 0, False
        most = self._largest if straight and scope["method"] == "POST" else self._strangers

        async def fits(size: int) -> None:
            nonlocal most
            if most < size <= self._largest and await self._known(_tokens(scope["headers"])):
                most = self._largest
            if size > most:
                more = "" if most == self._largest else "; whoever shows a token may send more"
                raise TooLarge(f"the body is larger than {most} bytes{more}")

        async def receiving() -> MutableMapping[str, Any]:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            await fits(taken)
            return message

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                await fits(taken)  # again: who read the body may have made something else of the refusal
                started = True
                message["headers"] = [*message.get("headers", []), *HEADERS]
                status = message["status"]
                worked = time.perf_counter() - began - scope.get(WAITED, 0.0)
                self._metrics.answered(_method(scope), status, worked)
                if status >= 400 and not refused:
                    self._metrics.refused(status)
            await send(message)

        try:
            await fits(_admitted(scope["headers"]))
            await app(scope, receiving, sending)
        except ClientDisconnect:
            return  # who asked has hung up before all was said: there is nobody to answer, and nothing of ours failed
        except Exception as error:
            status, body = self._told(error)
            if started:
                raise ConnectionError("the answer broke off") from None
            taken, refused = 0, True
            away = isinstance(error, StoreUnavailable)
            self._metrics.refused(status, STORE_UNAVAILABLE if away else body.get("error"))
            headers = {"www-authenticate": "Bearer"} if status == 401 else {}
            if isinstance(error, Busy):
                headers["retry-after"] = str(math.ceil(error.seconds))
            answer = JSONResponse(body, status_code=status, headers=headers, media_type=MEDIA_TYPE)
            await answer(scope, receive, sending)

    def _told(self, error: Exception) -> tuple[int, dict[str, Any]]:
        if isinstance(error, StoreUnavailable):
            log.error("%s", error, extra={"event": "store.away"})
            return 503, problem(503, "the coordinator's database does not answer just now; try again")
        if isinstance(error, HTTPException):
            return error.status_code, problem(error.status_code, str(error.detail))
        status, body = to_problem(error)
        if status == 500:
            log.error("a request failed: %s", whereabouts(error), extra={"event": "request.failed"})
        return status, body


class Front:
    """ASGI before all else: what goes straight passes a guard, and nothing of the framework."""

    def __init__(self, application: App, *, guard: RequestGuard, shortcuts: Shortcuts) -> None:
        self._application, self._guard, self._shortcuts = application, guard, shortcuts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        way = self._shortcuts.way(scope) if scope["type"] == "http" else None
        if way is None:
            await self._application(scope, receive, send)
        else:
            await self._guard.before(way, scope, receive, send, straight=True)


def _admitted(headers: list[tuple[bytes, bytes]]) -> int:
    """Return how long the body will be by its own word."""
    names = [name for name, _ in headers]
    for name in _ONCE:
        if names.count(name) > 1:
            raise Malformed("headers", f"{name.decode()} stands twice")
    length = next((value for name, value in headers if name == b"content-length"), b"0")
    return int(length) if length.isdigit() else 0


def _tokens(headers: list[tuple[bytes, bytes]]) -> list[str]:
    """List what may be a token: the interface takes it as a bearer's, the pages as a cookie."""
    found = []
    for name, value in headers:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            found.append(value[7:].decode("latin-1").strip())
        elif name == b"cookie":
            try:
                found += [each.value for each in SimpleCookie(value.decode("latin-1")).values()][:_MOST_COOKIES]
            except CookieError:
                continue
    return found


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in ("GET", "POST", "DELETE", "HEAD", "OPTIONS") else "other"
