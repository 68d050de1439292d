"""The link to a coordinator, which only the site opens: one stream over mutual TLS, dialled again whenever it breaks.

What must stay true: nobody is spoken to whom the authority in `link/` has not certified as the coordinator; a reader
that is slow slows its sender down; why a coordinator refuses is kept, to be shown.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import grpc

from thebes.privacy.faults import Refusal, ThebesError
from thebes.site.link import certificate
from thebes.site.link.probe import trouble
from thebes.site.link.proxy import proxy_of
from thebes.site.link.row_process import PASSED_ON, Algorithm
from thebes.wire.link import (
    FLOW,
    FOR_GOOD,
    PATH,
    SERVER_NAME,
    Assembly,
    Oversized,
    Word,
    glance,
    pieces,
    write_envelope,
)
from thebes.wire.refusals import Malformed

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 15.0  #: seconds between two tries
LOOK_SECONDS = 1.0  #: between two looks at the certificate's files
_TOGETHER = 4  #: answers on their way at once
_HEAVY = 2**20
_OPTIONS = (
    ("grpc.ssl_target_name_override", SERVER_NAME),
    *FLOW,
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),
)
log = logging.getLogger("thebes.site")


class Link:
    """`folder` is the opened `link/`, `name` the site that the certificate must name. `state` is one of connecting,
    connected, refused; `reason` says more, in words for the steward."""

    def __init__(self, coordinator: str, name: str, folder: int, *, dice: random.Random | None = None) -> None:
        self.coordinator, self.name, self._folder = coordinator, name, folder
        self.algorithm = Algorithm(self._answer)
        self.state, self.reason, self.since = "connecting", "", time.time()
        self.ends: datetime | None = None
        self._dice = dice or random.Random()  # noqa: S311 (only when to dial again)
        self._call: Any = None
        self._last_word = ""  #: why the coordinator ends the link
        self._for_good = False  #: whether it said that coming back as before changes nothing
        self._turn = asyncio.Lock()
        self._room = asyncio.Semaphore(_TOGETHER)
        self._sending: set[asyncio.Task[None]] = set()
        self.told: Callable[[], None] = lambda: None  #: called when the state changes

    async def run(self) -> None:
        """Dial, talk, and dial again, for ever."""
        pause = FIRST_PAUSE
        while True:
            began, shown = time.monotonic(), certificate.stamps(self._folder)
            self._last_word, self._for_good = "", False
            try:
                await self._talk()
                self._now("connecting", self._last_word or "the coordinator ended the link")
            except Refusal as refused:
                self._now("refused", str(refused))
            except Exception as error:  # the link is dialled again, whatever it was
                self._now("connecting", self._last_word or _why(error, proxy_of(self.coordinator)))
            pause = FIRST_PAUSE if time.monotonic() - began > LONGEST_PAUSE else min(pause * 2, LONGEST_PAUSE)
            longest = LONGEST_PAUSE if self.state == "refused" else pause
            await self._rest(longest * self._dice.uniform(0.5, 1.0), shown)

    async def _rest(self, seconds: float, shown: Any) -> None:
        """Wait, but no longer than until there is another certificate."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and certificate.stamps(self._folder) == shown:
            await asyncio.sleep(min(LOOK_SECONDS, max(0.0, until - time.monotonic())))

    async def _talk(self) -> None:
        identity = certificate.read(self._folder)
        if identity.name != self.name:
            raise Refusal(f"link/ now holds the certificate of the site {identity.name}; start thebes site again")
        self.ends = identity.ends
        shown = certificate.stamps(self._folder)
        credentials = grpc.ssl_channel_credentials(identity.authority, identity.key, identity.certificate)
        proxy = proxy_of(self.coordinator)
        way = ("grpc.enable_http_proxy", 0) if proxy is None else ("grpc.http_proxy", proxy)
        async with grpc.aio.secure_channel(self.coordinator, credentials, options=(*_OPTIONS, way)) as channel:
            call = channel.stream_stream(PATH)()
            watching = asyncio.create_task(self._watch(call, shown))
            try:
                await call.wait_for_connection()
                self._call = call
                await self._listen(call)
                if self._for_good:
                    raise _refusing(self._last_word)
            except grpc.aio.AioRpcError as error:
                # What is being sent into a call while it ends hides its status from gRPC: the word counts as well.
                if self._for_good or error.code() is grpc.StatusCode.PERMISSION_DENIED:
                    raise _refusing(self._last_word or _printable(error.details())) from None
                if error.code() is grpc.StatusCode.UNAVAILABLE and self._call is None:
                    found = await asyncio.to_thread(trouble, self.coordinator, identity, self._folder)
                    if found is not None:
                        raise Refusal(found) from None
                raise
            finally:
                self._call = None
                self.algorithm.forget()
                watching.cancel()
                for sending in list(self._sending):
                    sending.cancel()
                call.cancel()

    async def _watch(self, call: Any, shown: Any) -> None:
        """End the call once there is another certificate, so that the new one is shown."""
        while certificate.stamps(self._folder) == shown:
            await asyncio.sleep(LOOK_SECONDS)
        await asyncio.sleep(LOOK_SECONDS)  # all three files
        call.cancel()

    async def _listen(self, call: Any) -> None:
        assembly = Assembly()
        while (piece := await call.read()) is not grpc.aio.EOF:
            try:
                whole = assembly.add(piece)
            except Oversized:
                continue
            del piece
            if whole is not None:
                await self._hear(glance(whole[1]), whole[1])
                del whole

    async def _hear(self, about: Mapping[str, Any], body: bytes) -> None:
        kind = about["kind"]
        if kind == Word.REFUSED:
            self._last_word = _printable(about.get("reason"))
            self._for_good = about.get("code") in FOR_GOOD
            return
        if self.state != "connected":
            self._now("connected", "")
        if kind == Word.PING:
            self._send(str(about["id"]), write_envelope({"kind": Word.PONG, "id": about["id"]}))
        elif kind in PASSED_ON:
            await self.algorithm.pass_on(about, body)
        else:
            raise Malformed("envelope", "has a kind that no coordinator says")

    async def _answer(self, name: str, body: bytes) -> None:
        """Send an answer; returns once there is room for the next one."""
        await self._room.acquire()
        self._send(name, body).add_done_callback(lambda _: self._room.release())

    def _send(self, name: str, body: bytes) -> asyncio.Task[None]:
        sending = asyncio.create_task(self._pieces(self._call, name, body))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)
        return sending

    async def _pieces(self, call: Any, name: str, body: bytes) -> None:
        """Piece after piece, letting others' pieces in between; `write` returns when the other side has room."""
        if call is None:
            return
        heavy = len(body) >= _HEAVY  # its SHA-256 takes a while
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError, grpc.aio.UsageError):
            sent = pieces(name, body)
            while (piece := await asyncio.to_thread(next, sent, None) if heavy else next(sent, None)) is not None:
                async with self._turn:
                    await call.write(piece)

    def _now(self, state: str, reason: str) -> None:
        if (state, reason) != (self.state, self.reason):
            log.info(
                "%s%s", state, f": {reason}" if reason else f" to {self.coordinator}", extra={"event": "link.state"}
            )
            self.state, self.reason, self.since = state, reason, time.time()
            self.told()

    def shown(self) -> dict[str, Any]:
        """Tell where it stands, for the steward."""
        return {
            "name": self.name,
            "coordinator": self.coordinator,
            "state": self.state,
            "reason": self.reason,
            "since": datetime.fromtimestamp(self.since, UTC).isoformat(timespec="seconds"),
            "certificate_ends": None if self.ends is None else self.ends.isoformat(timespec="seconds"),
            "algorithm": "up" if self.algorithm.up else "down",
        }


def _refusing(why: str) -> Refusal:
    return Refusal(f"the coordinator refuses this site: {why}")


def _why(error: Exception, proxy: str | None) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        details = _printable(error.details())
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            hint = "is the address right, does the coordinator run with --site-port, and did it issue this certificate?"
            if proxy is not None:  # whose address may hold a password
                hint += " It is sought through the proxy that the environment names; no_proxy would name what is not"
            return f"the coordinator does not answer ({details or 'no connection'}); {hint}"
        return f"the link broke: {details or error.code().name.lower()}"
    return f"the link broke: {error if isinstance(error, ThebesError) else type(error).__name__}"


def _printable(text: object) -> str:
    shown = text if isinstance(text, str) else ""
    return "".join(c if c.isprintable() else " " for c in shown[:300]).strip()
