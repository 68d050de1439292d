"""Through a SOCKS5 proxy and no other way, every identity with a name and a password of its own.

What must stay true: no name is looked up on this machine, nothing connects anywhere but to the proxy, a proxy that is
down or says no ends the request, and no two requests share a connection.
"""

from __future__ import annotations

import re
import secrets
import ssl
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import urlsplit

import httpcore
import httpx

from thebes.confinement import answers
from thebes.privacy.faults import Mistake

TOR = "socks5h://127.0.0.1:9050"  #: what the name `tor` stands for
LASTING = "lasting"  #: extension of a request: the name of an identity that is kept; without it a fresh one is made
_UNISOLATED = "isolation=none"
_EXAMPLE = f"must be `tor` or an address such as {TOR}"
_VERSION, _BY_PASSWORD, _CONNECT, _DOMAIN = 5, 2, 1, 3
_ADDRESS_BYTES = {1: 4, 4: 16}
_REFUSED = {
    1: "it failed",
    2: "its rules do not allow it",
    3: "the network cannot be reached",
    4: "the host cannot be reached or is not known there",
    5: "the coordinator refused the connection",
    6: "it took too long",
}


@dataclass(frozen=True, slots=True)
class Proxy:
    """The address where a SOCKS5 proxy listens. One that is not asked to isolate is told no names: it cannot keep
    identities apart, and only hides this machine's address."""

    host: str
    port: int
    isolates: bool = True

    @classmethod
    def read(cls, text: object) -> Proxy:
        """As a person writes it: `tor`, `socks5h://HOST:PORT`, or the same with `?isolation=none`."""
        if text == "tor":
            text = TOR
        if not isinstance(text, str) or any(not c.isprintable() or c.isspace() for c in text):
            raise Mistake("proxy", _EXAMPLE)
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            raise Mistake("proxy", _EXAMPLE) from None
        if parts.scheme not in ("socks5", "socks5h") or not parts.hostname or not port:
            raise Mistake("proxy", _EXAMPLE)
        if parts.username is not None:
            raise Mistake("proxy", "must not hold a name or a password: every packet is given its own")
        if parts.path.strip("/") or parts.fragment or parts.query not in ("", _UNISOLATED):
            raise Mistake("proxy", f"{_EXAMPLE}; only ?{_UNISOLATED} may follow it")
        return cls(parts.hostname, port, isolates=not parts.query)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"socks5h://{host}:{self.port}" + ("" if self.isolates else f"?{_UNISOLATED}")


def is_socks(proxy: object) -> bool:
    """Return whether a proxy is given by the name `tor` or as an address of SOCKS."""
    return proxy == "tor" or (isinstance(proxy, str) and re.match(r"socks[0-9a-z]*:", proxy) is not None)


class ThroughProxy(httpx.BaseTransport):
    """Every request over a connection of its own, closed with its answer. Safe to share between threads."""

    def __init__(self, proxy: Proxy, *, verify: ssl.SSLContext | None = None) -> None:
        self._proxy = proxy
        self._ssl = verify or answers.everybody()
        self._lasting: dict[str, CircuitIdentity] = {}

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        lasting = request.extensions.get(LASTING)
        identity = (
            CircuitIdentity.fresh() if lasting is None else self._lasting.setdefault(lasting, CircuitIdentity.fresh())
        )
        pool = httpcore.ConnectionPool(
            ssl_context=self._ssl,
            max_connections=1,
            max_keepalive_connections=0,
            network_backend=_Way(self._proxy, identity),
        )
        try:
            answer = answers.passed_on(request, pool)
        except BaseException:
            pool.close()
            raise
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer, pool))


@dataclass(frozen=True, slots=True)
class CircuitIdentity:
    """The identity that a proxy keeps apart: Tor never sends two identities over one circuit. Random, told to the proxy
    only."""

    name: bytes
    password: bytes

    @classmethod
    def fresh(cls) -> CircuitIdentity:
        return cls(secrets.token_hex(16).encode(), secrets.token_hex(16).encode())


class _Body(answers.Body):
    def __init__(self, answer: httpcore.Response, pool: httpcore.ConnectionPool) -> None:
        super().__init__(answer)
        self._pool = pool

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._pool.close()


class _Way(httpcore.NetworkBackend):
    """Connections as one identity."""

    def __init__(self, proxy: Proxy, identity: CircuitIdentity) -> None:
        self._proxy, self._identity = proxy, identity
        self._network = answers.MeteredConnections()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        end = time.monotonic() + (60.0 if timeout is None else timeout)
        try:
            stream = self._network.connect_tcp(self._proxy.host, self._proxy.port, timeout=min(10.0, timeout or 10.0))
        except (httpcore.ConnectError, httpcore.ConnectTimeout):
            self._refused("does not answer; start it (for Tor: the program `tor`)")
        try:
            self._ask(_Talk(stream, end), host, port)
        except httpcore.TimeoutException:
            stream.close()
            self._refused("could not reach the coordinator in time")
        except (httpcore.NetworkError, EOFError):
            stream.close()
            self._refused("closed the connection, or is not a SOCKS5 proxy")
        except BaseException:
            stream.close()
            raise
        return stream

    def _ask(self, talk: _Talk, host: str, port: int) -> None:
        method = _BY_PASSWORD if self._proxy.isolates else 0
        talk.say(bytes([_VERSION, 1, method]))
        version, chosen = talk.hear(2)
        if version != _VERSION:
            self._refused("is not a SOCKS5 proxy")
        if chosen != method:
            self._refused(
                f"takes no names, so it cannot keep packets apart; use Tor, or give {self._proxy}?{_UNISOLATED}"
                if method
                else "wants a name and a password, and none is given to a proxy that is not to isolate"
            )
        if method:
            name, password = self._identity.name, self._identity.password
            talk.say(bytes([1, len(name)]) + name + bytes([len(password)]) + password)
            if talk.hear(2)[1]:
                self._refused("takes no names but those it knows, so it cannot keep packets apart")
        where = host.encode("ascii")
        talk.say(bytes([_VERSION, _CONNECT, 0, _DOMAIN, len(where)]) + where + port.to_bytes(2, "big"))
        _, reply, _, kind = talk.hear(4)
        if reply:
            self._refused(f"could not reach the coordinator: {_REFUSED.get(reply, 'for a reason of its own')}")
        talk.hear((talk.hear(1)[0] if kind == _DOMAIN else _ADDRESS_BYTES.get(kind, 0)) + 2)

    def _refused(self, reason: str) -> NoReturn:
        raise httpcore.ProxyError(f"the proxy {self._proxy} {reason}. Nothing goes any other way")


class _Talk:
    """Bytes to and from a proxy, exactly as many as wanted, until `end`."""

    def __init__(self, stream: httpcore.NetworkStream, end: float) -> None:
        self._stream, self._end = stream, end

    def say(self, message: bytes) -> None:
        self._stream.write(message, self._left())

    def hear(self, count: int) -> bytes:
        heard = b""
        while len(heard) < count:
            piece = self._stream.read(count - len(heard), self._left())
            if not piece:
                raise EOFError
            heard += piece
        return heard

    def _left(self) -> float:
        return max(0.001, self._end - time.monotonic())
