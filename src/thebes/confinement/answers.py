"""The limits on a server's answer: so many bytes, as they are, and all of it by one moment. Beyond that nothing is
taken.

What must stay true: nothing is unpacked on the way; no more than its bound is held of an answer, and no more time than
its own goes into a request, in whichever of its steps the other side is slow. Knows nothing of what is asked.
"""

from __future__ import annotations

import functools
import socket
import ssl
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Self

import httpcore
import httpx

BOUNDS = "bounds"  #: extension of a request: its `AnswerBounds`, where they are not those of its client
CONNECTING_SECONDS = 10.0  #: for each address of a server
SECONDS, MOST_BYTES = 300.0, 2**28
_WRITTEN_AT_ONCE = 2**16
_KEPT, _KEPT_SECONDS = 20, 5.0  #: connections that are open between requests
_end: ContextVar[float | None] = ContextVar("end", default=None)


class Untaken(httpx.RequestError):
    """An answer was not taken, or not as a whole."""


class TooMuch(Untaken):
    """An answer is longer than its bound."""


class Packed(Untaken):
    """A server packs its answer although it was asked not to."""


@dataclass(frozen=True, slots=True)
class AnswerBounds:
    """Of one request: at most so many bytes of an answer, the last of them before `end` (of `time.monotonic`)."""

    most_bytes: int
    end: float

    @classmethod
    def within(cls, seconds: float, most_bytes: int) -> Self:
        return cls(most_bytes, time.monotonic() + seconds)


def client(
    *,
    seconds: float = SECONDS,
    most_bytes: int = MOST_BYTES,
    transport: httpx.BaseTransport | None = None,
    verify: ssl.SSLContext | None = None,
    **more: Any,
) -> httpx.Client:
    """A client of which every answer stays within bounds: these, or those of a request's extension. Nothing leaves by a
    way that the environment names."""
    inner = transport or Direct(verify=verify)
    return httpx.Client(transport=Bounded(inner, seconds=seconds, most_bytes=most_bytes), trust_env=False, **more)


class Bounded(httpx.BaseTransport):
    """Whatever another transport answers, within bounds. What follows a redirect is within those of the first
    request."""

    def __init__(self, inner: httpx.BaseTransport, *, seconds: float = SECONDS, most_bytes: int = MOST_BYTES) -> None:
        self._inner, self._seconds, self._most_bytes = inner, seconds, most_bytes

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        bounds = request.extensions.get(BOUNDS) or AnswerBounds.within(self._seconds, self._most_bytes)
        request.extensions[BOUNDS] = bounds
        request.headers["Accept-Encoding"] = "identity"
        with _until(bounds.end):
            answer = self._inner.handle_request(request)
        try:
            if answer.headers.get("content-encoding", "").strip().lower() not in ("", "identity"):
                raise Packed("the answer is compressed")
            length = answer.headers.get("content-length", "")
            if length.isdecimal() and int(length[:20]) > bounds.most_bytes:
                raise TooMuch("the answer is too long")
        except Untaken:
            answer.close()
            raise
        assert isinstance(answer.stream, httpx.SyncByteStream)  # noqa: S101
        answer.stream = _Taken(answer.stream, bounds)
        return answer

    def close(self) -> None:
        self._inner.close()


class _Taken(httpx.SyncByteStream):
    """The body of an answer, as far as its bounds go."""

    def __init__(self, stream: httpx.SyncByteStream, bounds: AnswerBounds) -> None:
        self._stream, self._bounds = stream, bounds

    def __iter__(self) -> Iterator[bytes]:
        pieces, taken = iter(self._stream), 0
        while True:
            with _until(self._bounds.end):
                piece = next(pieces, None)
            if piece is None:
                return
            taken += len(piece)
            if taken > self._bounds.most_bytes:
                raise TooMuch("the answer is too long")
            if time.monotonic() > self._bounds.end:
                raise httpx.ReadTimeout("the answer takes too long")
            yield piece

    def close(self) -> None:
        self._stream.close()


class Direct(httpx.BaseTransport):
    """Requests over HTTP, by themselves or through a proxy of HTTP. `trust_env` lets the environment name proxies and
    authorities. `kept` connections stay open between requests. Safe to share between threads."""

    def __init__(
        self,
        *,
        verify: ssl.SSLContext | None = None,
        proxy: httpx.Proxy | None = None,
        trust_env: bool = False,
        kept: int = _KEPT,
    ) -> None:
        self._verify = verify or (httpx.create_ssl_context() if trust_env else everybody())
        self._kept, self._trust_env = kept, trust_env
        self._always = self._pool(proxy)
        self._by_proxy: dict[str, httpcore.ConnectionPool] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = passed_on(request, self._way(request.url))
        return httpx.Response(answer.status, headers=answer.headers, stream=Body(answer), extensions=answer.extensions)

    def close(self) -> None:
        for pool in (self._always, *self._by_proxy.values()):
            pool.close()

    def _way(self, url: httpx.URL) -> httpcore.ConnectionPool:
        address = self.proxy_of(url)
        if address is None:
            return self._always
        return self._by_proxy.setdefault(address, self._pool(httpx.Proxy(address)))

    def proxy_of(self, url: httpx.URL) -> str | None:
        """The proxy that the environment names for an address, where it may."""
        known = urllib.request.getproxies() if self._trust_env else {}
        address = known.get(url.scheme) or known.get("all")
        if address is None or urllib.request.proxy_bypass(url.netloc.decode("ascii")):
            return None
        return address if "://" in address else f"http://{address}"

    def _pool(self, proxy: httpx.Proxy | None) -> httpcore.ConnectionPool:
        told: dict[str, Any] = {"ssl_context": self._verify, "network_backend": MeteredConnections()}
        told |= {"max_connections": 100, "max_keepalive_connections": self._kept, "keepalive_expiry": _KEPT_SECONDS}
        if proxy is None:
            return httpcore.ConnectionPool(**told)
        if proxy.url.scheme not in ("http", "https"):
            raise httpx.ProxyError("the environment names a proxy that is not one of HTTP")
        return httpcore.HTTPProxy(
            proxy_url=_url(proxy.url),
            proxy_auth=proxy.raw_auth,
            proxy_headers=proxy.headers.raw,
            proxy_ssl_context=proxy.ssl_context,
            **told,
        )


def passed_on(request: httpx.Request, pool: httpcore.ConnectionPool) -> httpcore.Response:
    """The answer to a request over one of the connections of a pool."""
    assert isinstance(request.stream, httpx.SyncByteStream)  # noqa: S101
    timeout = dict(request.extensions.get("timeout", {}))
    timeout["pool"] = _left(timeout.get("pool"), httpcore.PoolTimeout)
    with as_httpx():
        return pool.handle_request(
            httpcore.Request(
                method=request.method,
                url=_url(request.url),
                headers=request.headers.raw,
                content=request.stream,
                extensions={**request.extensions, "timeout": timeout},
            )
        )


class Body(httpx.SyncByteStream):
    """The content of an answer, as it comes."""

    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        with as_httpx():
            yield from self._answer.iter_stream()

    def close(self) -> None:
        with as_httpx():
            self._answer.close()


class MeteredConnections(httpcore.NetworkBackend):
    """Connections of this machine on which each step ends with the request that it is for."""

    def __init__(self) -> None:
        self._network = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from None
        last: Exception = httpcore.ConnectError("the name has no address")
        for *_, place in found:  # one by one: together they might take many times the time of one
            left = _left(min(timeout or CONNECTING_SECONDS, CONNECTING_SECONDS), httpcore.ConnectTimeout)
            try:
                return _Step(self._network.connect_tcp(str(place[0]), port, left, local_address, socket_options))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last = error
        raise last


class _Step(httpcore.NetworkStream):
    """A connection that is waited for no longer than the request on it has."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _WRITTEN_AT_ONCE):
            self._stream.write(buffer[start : start + _WRITTEN_AT_ONCE], _left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Step(self._stream.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


@functools.cache  # reading a hundred certificates takes longer than most requests
def everybody() -> ssl.SSLContext:
    """The public authorities. Clients may share it: no session of one is resumed by another."""
    return httpx.create_ssl_context(trust_env=False)


@contextmanager
def as_httpx() -> Iterator[None]:
    """Errors under the names by which a caller of httpx knows them."""
    try:
        yield
    except (
        httpcore.TimeoutException,
        httpcore.NetworkError,
        httpcore.ProtocolError,
        httpcore.ProxyError,
        httpcore.UnsupportedProtocol,
    ) as error:
        raise getattr(httpx, type(error).__name__, httpx.TransportError)(str(error)) from None


@contextmanager
def _until(end: float) -> Iterator[None]:
    """Inside, whatever this thread waits for on a connection is over then."""
    before = _end.set(end)
    try:
        yield
    finally:
        _end.reset(before)


def _left(timeout: float | None, late: type[httpcore.TimeoutException]) -> float | None:
    """Return how long a step may take of which its own bound is `timeout`."""
    end = _end.get()
    if end is None:
        return timeout
    left = end - time.monotonic()
    if left <= 0:
        raise late("the request takes too long")
    return left if timeout is None else min(timeout, left)


def _url(url: httpx.URL) -> httpcore.URL:
    return httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
