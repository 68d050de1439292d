"""An answer leaves in one piece: its head and its body are handed to the machine together, and not one by one.

Each piece costs a call into the kernel and wakes whoever waits at the other end; of a short answer that is most of the
work. What must stay true: bytes leave in their order, and all of them before a connection closes. And nobody keeps a
connection by never finishing what they ask: a request arrives in time, or what there is of it is dropped.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

PATIENCE_SECONDS = 20.0  #: for a request to arrive, or to begin on a new connection
LEAST_RATE = 500  #: bytes a second of a long one; each gives it so much more time


class WholeAnswers(HttpToolsProtocol):
    """The server's usual protocol on a transport that collects what is written within one step of the loop."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, _Collecting(transport, self.loop)))
        self._since: float | None = self.loop.time()  # of what is arriving
        self._arrived = 0
        self._watch = self.loop.call_later(PATIENCE_SECONDS, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._arrived += len(data)
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._since, self._arrived = self.loop.time(), 0
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._since = None
        super().on_message_complete()

    def _look(self) -> None:
        # Now and then for each connection, and not for each request: most of those are over within milliseconds.
        if self._since is not None and not self.flow.read_paused:  # else it is we who do not listen
            end = self._since + PATIENCE_SECONDS + self._arrived / LEAST_RATE
            if end <= self.loop.time():
                self.transport.abort()
                return
        self._watch = self.loop.call_later(PATIENCE_SECONDS / 2, self._look)


class _Collecting:
    """A transport that writes a little later; in everything else the one it stands before."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(bytes(data))

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        pieces, self._pieces = self._pieces, []
        if pieces:
            self._transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
