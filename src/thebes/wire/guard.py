"""The door of a server on this machine. Web pages, other users and rebound names knock here too; they stay outside.

What must stay true: every request passes every check, in this order, before any other code sees it.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any

from thebes.wire.access import Access, BrowserSession
from thebes.wire.headers import HEADERS
from thebes.wire.problems import MEDIA_TYPE, problem
from thebes.wire.refusals import TooLarge

if TYPE_CHECKING:
    from thebes.wire.identity_provider import IdentityProvider

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_ONCE = (b"host", b"origin", b"authorization", b"content-type", b"content-length", b"sec-fetch-site", b"cookie")
_OPEN = ("/", "/favicon.ico")
BEGIN, BACK = "/sign-in/begin", "/sign-in/back"  #: to an identity provider, and from there
_SAFE_METHODS = ("GET", "HEAD")
FIGURES_PATH = "/metrics"
MOST_BYTES = 2**26
_TOO_LONG = f"a request may have {MOST_BYTES} bytes"


class HostGuard:
    """Wraps an application listening on `port` of this machine. `hosts` are the names it may be called by; `whose`
    says what kind of server it is, so that two on one machine keep apart. `signing_in`: a browser may leave for an
    identity provider, and be sent back from there."""

    def __init__(
        self,
        app: App,
        access: Access,
        *,
        port: int,
        hosts: Iterable[str] = ("127.0.0.1", "localhost"),
        whose: str = "person",
        signing_in: bool = False,
    ) -> None:
        self._app, self._access, self._whose = app, access, whose
        self._open = (*_OPEN, BEGIN, BACK) if signing_in else _OPEN
        self._sent_to = BACK if signing_in else None
        names = [*hosts, "[::1]"]
        self._hosts = {f"{name}:{port}".encode() for name in names}
        self._origins = {b"http://" + host for host in self._hosts}
        if port == 80:
            self._hosts |= {name.encode() for name in names}
        self.cookie = f"thebes_{whose}_{port}"  #: cookies do not know ports, so the name does

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            if refusal[0] == 401 and is_for_eyes(scope):
                await _show_the_front(send)
            else:
                await _refuse(send, *refusal, whose=self._whose)
            return
        await self._within(scope, receive, _with_headers(send), send)

    async def _within(self, scope: Scope, receive: Receive, sending: Send, refusing: Send) -> None:
        """Pass a request on, but no more of it than one may have, whatever length it tells, or none."""
        taken, started = 0, False

        async def receiving() -> MutableMapping[str, Any]:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > MOST_BYTES:
                raise TooLarge(_TOO_LONG)
            return message

        async def telling(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            if taken > MOST_BYTES and not started:
                raise TooLarge(_TOO_LONG)  # again: who read the body may have made something else of the refusal
            started = True
            await sending(message)

        try:
            await self._app(scope, receiving, telling)
        except TooLarge:
            if started:
                raise
            await _refuse(refusing, 413, _TOO_LONG, whose=self._whose)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name.lower() in headers and name.lower() in _ONCE:
                return 400, f"the header {name.decode('latin-1').title()} stands there more than once"
            headers[name.lower()] = value
        if headers.get(b"host", b"").lower() not in self._hosts:
            return 421, "this server answers to its own address only"
        # What another server sends a browser back with proves itself: it was begun in this browser, and counts once.
        came_back = scope["method"] == "GET" and scope["path"] == self._sent_to
        if not came_back and headers.get(b"sec-fetch-site", b"none").lower() not in (b"none", b"same-origin"):
            return 403, "another web page may not ask here"
        if b"origin" in headers and headers[b"origin"].lower() not in self._origins:
            return 403, "another web page may not ask here"
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > MOST_BYTES:
            return 413, _TOO_LONG
        if scope["method"] == "GET" and (scope["path"] in self._open or scope["path"].startswith("/static/")):
            return None  # the one shows nothing without a session (a code is exchanged there), the other are no secret
        if not self.known(headers) and not self._may_read(scope, headers):
            return 401, "say who you are: Authorization: Bearer with what stands in the home's file `token`"
        if scope["method"] not in _SAFE_METHODS and not _is_json(headers):
            return 415, "writes are JSON: say Content-Type: application/json"
        return None

    def _may_read(self, scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
        """Return whether the token for figures comes with a request for those."""
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        asks = scope["method"] == "GET" and scope["path"] == FIGURES_PATH
        return asks and scheme.lower() == b"bearer" and self._access.may_read_figures(token.strip().decode("latin-1"))

    def known(self, headers: Mapping[bytes, bytes]) -> bool:
        """Return whether the token or a session of this run comes with these headers."""
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer":
            return self._access.knows(token.strip().decode("latin-1"))
        session = self.session(headers)
        return session is not None and self._access.admits(session)

    def session(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return the session that speaks for a request; none where a token does."""
        if headers.get(b"authorization", b"").partition(b" ")[0].lower() == b"bearer":
            return None
        return session_of(headers.get(b"cookie", b""), self.cookie)


def _is_json(headers: dict[bytes, bytes]) -> bool:
    """Return whether a write is JSON. One that says nothing at all needs no type, but then the token: no page can send
    that header here without being asked first, and it is refused then."""
    if b"content-type" not in headers:
        empty = headers.get(b"content-length", b"0") == b"0" and b"transfer-encoding" not in headers
        return empty and b"authorization" in headers
    return headers[b"content-type"].partition(b";")[0].strip().lower() == b"application/json"


def is_for_eyes(scope: Scope) -> bool:
    """Return whether a browser asks for a page, and not a program for data."""
    accepted = b",".join(value for name, value in scope["headers"] if name.lower() == b"accept")
    return scope["method"] == "GET" and b"text/html" in accepted and not scope["path"].startswith(("/api/", "/app/"))


class Door:
    """The door at which the pages' front meets a browser that comes: a code is exchanged, a session is known. `stop`
    ends the server, after everything was destroyed. `provider` names people of its institution who may come in."""

    def __init__(
        self,
        guard: HostGuard,
        access: Access,
        stop: Callable[[], None],
        *,
        provider: IdentityProvider | None = None,
    ) -> None:
        self._guard, self._access, self.provider = guard, access, provider
        self.cookie, self.stop = guard.cookie, stop

    def enter(self, code: str) -> str | None:
        """A session for a one-time code, or None where it was used before."""
        return self._access.exchange(code)

    def admit(self, who: str, seconds: float) -> str:
        """A session of somebody whom the provider named."""
        return self._access.admit(who, seconds)

    def who(self, headers: Mapping[str, str]) -> str:
        """Return who asks, as the provider named them; nobody where the token or a one-time address let them in."""
        session = self._guard.session(_shown(headers))
        return "" if session is None else self._access.who(session)

    def sessions(self, headers: Mapping[str, str]) -> list[BrowserSession]:
        """List the browsers that came in, of which a request may come from one."""
        return self._access.listed(session_of(headers.get("cookie", "").encode("latin-1"), self.cookie))

    def end(self, id: str) -> bool:
        """Let a browser in no longer: whether one of that name was."""
        return self._access.end(id)

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request comes with a session of this run, or with the token."""
        return self._guard.known(_shown(headers))


def _shown(headers: Mapping[str, str]) -> dict[bytes, bytes]:
    return {name.encode(): headers[name].encode("latin-1") for name in ("authorization", "cookie") if name in headers}


def session_of(cookies: bytes, name: str) -> str | None:
    """The session in a Cookie header."""
    try:
        found = SimpleCookie(cookies.decode("latin-1")).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def _with_headers(send: Send) -> Send:
    async def guarded(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            mine = {name for name, _ in HEADERS}
            kept = [(n, v) for n, v in message.get("headers", []) if n.lower() not in mine]
            message = {**message, "headers": [*kept, *HEADERS]}
        await send(message)

    return guarded


async def _show_the_front(send: Send) -> None:
    """To the one page that says how to come in."""
    headers = [(b"location", b"/"), (b"content-length", b"0"), *HEADERS]
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


async def _refuse(send: Send, status: int, detail: str, *, whose: str) -> None:
    body = json.dumps(problem(status, detail)).encode()
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode()), *HEADERS]
    if status == 401:
        headers.append((b"www-authenticate", f'Bearer realm="thebes {whose}"'.encode()))
    if status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
