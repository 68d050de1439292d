"""An answer leaves in one piece: its head and its body are handed to the machine together, and not one by one.

Each piece costs a call into the kernel and wakes whoever waits at the other end; of a short answer that is most of the
work. What must stay true: bytes leave in their order, and all of them before a connection closes.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class WholeAnswers(HttpToolsProtocol):
    """The server's usual protocol on a transport that collects what is written within one step of the loop."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, _Collecting(transport, self.loop)))


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
