"""Somebody else's server for tests, on a real socket: it remembers what it was asked, and can answer oddly."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Call:
    """One question: how, where, with which headers (their names in small letters) and which body."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """One answer. `cut`: the connection ends in its middle; `slowly`: so many seconds before it, and between its bytes
    where it drips."""

    status: int
    body: bytes = b""
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    slowly: float = 0.0
    drips: bool = False

    @classmethod
    def of(cls, status: int, body: Any, **more: Any) -> Reply:
        return cls(status, json.dumps(body, ensure_ascii=False).encode(), **more)

    @classmethod
    def page(cls, status: int, text: str = "Sign in", **more: Any) -> Reply:
        return cls(
            status, f"<!DOCTYPE html><html><body>{text}</body></html>".encode(), "text/html; charset=utf-8", **more
        )


class WebServer:
    """`odd` are answers to the next questions in place of the right ones (None: the right one after all);
    `between` is called before each question with how many came before it; `most` calls are answered within a
    `window` of seconds, then 429. Subclasses say what is right."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, most: int | None = None, window: float = 60.0) -> None:
        self.calls: list[Call] = []
        self.odd: deque[Reply | None] = deque()
        self.between: Callable[[int], None] = lambda before: None
        self._most, self._window, self._since, self._count = most, window, time.monotonic(), 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._secure = tls is not None
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"{'https' if self._secure else 'http'}://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, call: Call) -> Reply:
        """Return the right answer to a call."""
        raise NotImplementedError

    def take(self, call: Call) -> Reply:
        """The answer to one question."""
        with self._lock:
            self.between(len(self.calls))
            self.calls.append(call)
            if self.odd and (odd := self.odd.popleft()) is not None:
                return odd
            now = time.monotonic()
            if now - self._since >= self._window:
                self._since, self._count = now, 0
            self._count += 1
            if self._most is not None and self._count > self._most:
                return Reply.page(429, "Too many requests", headers={"Retry-After": f"{self._window:g}"})
            return self.answer(call)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _handler(server: WebServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 10  # so that no connection keeps a thread
        disable_nagle_algorithm = True

        def _serve(self) -> None:
            length = int(self.headers.get("content-length", "0"))
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = server.take(Call(self.command, self.path, headers, self.rfile.read(length)))
            with suppress(OSError):
                self._say(reply)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _serve

        def _say(self, reply: Reply) -> None:
            if not reply.drips:
                time.sleep(reply.slowly)
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.kind)
            self.send_header("Content-Length", str(len(reply.body)))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if reply.cut:
                self.wfile.write(reply.body[: len(reply.body) // 2])
                self.close_connection = True
            elif reply.drips:
                for at in range(len(reply.body)):
                    self.wfile.write(reply.body[at : at + 1])
                    self.wfile.flush()
                    time.sleep(reply.slowly)
            else:
                self.wfile.write(reply.body)

        def log_message(self, format: str, *args: Any) -> None:
            return None

    return Handler
