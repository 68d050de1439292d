"""Answers of servers that mean harm, or are broken: packed, endless, dripped. Nobody who asks gives them more room or
time than an answer of their kind may take. The servers are real sockets."""

from __future__ import annotations

import gzip
import json
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpcore
import httpx
import pytest

import thebes
from papers import fetching
from tests.support.socks import SocksServer
from thebes.confinement import answers
from thebes.data.connectors.connector import SourceUnavailable
from thebes.data.connectors.web import Web, WebSource
from thebes.privacy.faults import Refusal
from thebes.privacy.reading import MOST_VALUES
from thebes.wire import frames
from thebes.wire.client import CoordinatorClient
from thebes.wire.connection import LIST, LONG, SHORT, AnswerLimits
from thebes.wire.link import read_envelope
from thebes.wire.local_server import Local
from thebes.wire.refusals import Malformed, TooLarge, Unreachable

SOON = 0.4  #: a deadline
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ROOM = 2**24  #: what the machine's own buffers may hold of what was sent and is not read
Say = Callable[[Callable[[bytes], None]], None]


class Hostile:
    """A server that answers every request with whatever `say` sends."""

    def __init__(self, say: Say) -> None:
        self._say, self.sent, self.asked, self._over = say, 0, [], False
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listening.getsockname()
        self.url = f"http://127.0.0.1:{self.address[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._over = True
        self._listening.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._answer, args=(self._listening.accept()[0],), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        def send(piece: bytes) -> None:
            if self._over:
                raise OSError
            self.sent += connection.send(piece)

        with suppress(OSError), closing(connection):
            heard = b""
            while b"\r\n\r\n" not in heard:
                if not (piece := connection.recv(65536)):
                    return
                heard += piece
            self.asked.append(heard.decode("latin-1"))
            self._say(send)


@cache
def bomb() -> bytes:
    """100 kB that become a hundred megabytes."""
    return gzip.compress(b'["' + b" " * 10**8 + b'"]')


def packed(send: Callable[[bytes], None]) -> None:
    body = bomb()
    send(HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


def endless(send: Callable[[bytes], None]) -> None:
    send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while True:
        send(b"10000\r\n" + b" " * 65536 + b"\r\n")


def boasting(send: Callable[[bytes], None]) -> None:
    """A length that nobody has room for, and nothing behind it."""
    send(HEAD + b"Content-Length: 99999999999999\r\n\r\n")
    time.sleep(10 * SOON)


def slowly(*first: bytes) -> Say:
    """A right answer, byte by byte: none of them is late."""

    def say(send: Callable[[bytes], None]) -> None:
        body = b"[]".rjust(2000)
        whole = b"".join(first) or HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
        for byte in whole:
            send(bytes([byte]))
            time.sleep(SOON / 100)

    return say


def interim(send: Callable[[bytes], None]) -> None:
    """Any number of answers before the answer."""
    for _ in range(2000):
        send(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        time.sleep(SOON / 100)
    send(HEAD + b"Content-Length: 2\r\n\r\n[]")


def many(send: Callable[[bytes], None]) -> None:
    """Within its length, and a hundred times as much once it is read."""
    body = b"[" + b"[]," * (LIST.most_values) + b"[]]"
    send(HEAD + b"Content-Length: %d\r\n\r\n" % len(body))
    for start in range(0, len(body), 65536):
        send(body[start : start + 65536])


@pytest.fixture
def hostile() -> Iterator[Callable[[Say], Hostile]]:
    made: list[Hostile] = []

    def start(say: Say) -> Hostile:
        made.append(Hostile(say))
        return made[-1]

    yield start
    for each in made:
        each.close()


Start = Callable[[Say], Hostile]


@dataclass(frozen=True)
class Asker:
    """One of the product's clients: asks a server with a deadline, and says which refusal is the one of it."""

    ask: Callable[[Hostile, float, Path], object]
    refusal: type[Exception]


def _coordinator(server: Hostile, seconds: float, folder: Path, **more: Any) -> object:
    with CoordinatorClient(server.url, timeout=seconds, **more) as client:
        return client.tasks()


def _task(server: Hostile, seconds: float, folder: Path) -> object:
    with CoordinatorClient(server.url, timeout=seconds / LONG.times) as client:
        return client.task("t")


def _ask(server: Hostile, seconds: float, folder: Path) -> object:
    with CoordinatorClient(server.url, timeout=seconds / LONG.times) as client:
        return client.ask("t", "s", framed=True)


def _submit(server: Hostile, seconds: float, folder: Path) -> object:
    with CoordinatorClient(server.url, timeout=seconds) as client:
        return client.apart().submit("t", b"{}")


def _requestor(server: Hostile, seconds: float, folder: Path) -> object:
    with thebes.connect(server.url, timeout=seconds, trust_env=True) as made:
        return made.tasks()


def _by_socks(server: Hostile, seconds: float, folder: Path) -> object:
    with (
        SocksServer({"far.example": server.address}) as proxy,
        CoordinatorClient("http://far.example", timeout=seconds, proxy=proxy.address) as client,
    ):
        return client.tasks()


def _by_proxy(server: Hostile, seconds: float, folder: Path) -> object:
    with CoordinatorClient("http://far.example", timeout=seconds, proxy=server.url) as client:
        return client.tasks()


def _local(server: Hostile, seconds: float, folder: Path) -> object:
    with Local(server.url, "token", timeout=seconds) as local:
        return local.store()


def _source(server: Hostile, seconds: float, folder: Path) -> object:
    source = WebSource(kind="redcap", url=server.url, timeout_seconds=seconds, most_mebibytes=1)
    with closing(Web(source, name="REDCap", folder=folder)) as web:
        return web.ask(tries=1)


@dataclass(frozen=True)
class _Lying:
    name: str = "table.csv"
    most_bytes: int = 2**20


def _fetched(server: Hostile, seconds: float, folder: Path) -> object:
    one: Any = _Lying()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetching, "SECONDS", seconds)
        patch.setattr(fetching, "LEAST_RATE", 2**60)
        return fetching._answer(one, server.url)


ASKERS = {
    "a person's list": Asker(_coordinator, Unreachable),
    "a person's ask": Asker(_ask, Unreachable),
    "a person's contribution": Asker(_submit, Unreachable),
    "a result": Asker(_task, Unreachable),
    "a requestor": Asker(_requestor, Unreachable),
    "through SOCKS": Asker(_by_socks, Unreachable),
    "through a proxy of HTTP": Asker(_by_proxy, Unreachable),
    "a home's own server": Asker(_local, Unreachable),
    "a clinical system": Asker(_source, SourceUnavailable),
    "a published file": Asker(_fetched, fetching.NotFetched),
}


@pytest.fixture(params=sorted(ASKERS))
def asker(request: pytest.FixtureRequest) -> Asker:
    return ASKERS[request.param]


def test_a_packed_answer_is_never_unpacked(
    asker: Asker, hostile: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    unpack = httpx._decoders.GZipDecoder.decode

    def counted(self: Any, data: bytes) -> bytes:
        opened.append(len(data))
        return unpack(self, data)

    monkeypatch.setattr(httpx._decoders.GZipDecoder, "decode", counted)
    server = hostile(packed)
    with pytest.raises(asker.refusal):
        asker.ask(server, 60.0, tmp_path)
    assert opened == []
    assert "accept-encoding: identity" in server.asked[0].lower()
    assert server.asked[0].lower().count("accept-encoding") == 1


@pytest.mark.few(1)
def test_an_answer_that_drips_is_over_when_its_time_is(asker: Asker, hostile: Start, tmp_path: Path) -> None:
    """Every byte comes in time, and the answer would be right after twenty times as long."""
    for say in (slowly(), interim):
        server = hostile(say)
        with pytest.raises(asker.refusal):
            asker.ask(server, SOON, tmp_path)


def test_an_answer_without_end_is_cut_off_at_the_most_of_its_kind(
    asker: Asker, hostile: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("wire.client.LIST", "wire.client.LONG"):  # else it takes a quarter of a gigabyte to see it
        monkeypatch.setattr(f"thebes.{name}", AnswerLimits(2**20, 2**10))
    monkeypatch.setattr("thebes.wire.local_server._MOST_BYTES", 2**20)
    for say in (endless, boasting):
        server = hostile(say)
        with pytest.raises(Refusal):
            asker.ask(server, 60.0, tmp_path)
        assert server.sent <= 2 * 2**20 + ROOM


def test_bounds_are_those_of_the_kind_of_answer() -> None:
    assert SHORT.most_bytes < LIST.most_bytes < LONG.most_bytes <= 2**28
    assert SHORT.most_values < LIST.most_values < LONG.most_values <= 2**23


def test_an_answer_of_too_many_values_is_not_read_as_json(hostile: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = hostile(many)
    read: list[int] = []
    for reader in ("_PLAIN", "_FINITE"):
        monkeypatch.setattr(f"thebes.privacy.reading.{reader}.decode", lambda text: read.append(len(text)))
    with CoordinatorClient(server.url) as client, pytest.raises(Unreachable):
        client.tasks()
    assert read == []
    with pytest.raises(Malformed):
        frames.read_object(b'{"a":[' + b"{}," * MOST_VALUES + b"{}]}")
    with pytest.raises(Malformed):
        read_envelope(b'{"a":[' + b"{}," * MOST_VALUES + b"{}]}")
    assert read == []


def test_text_is_looked_at_before_it_is_read_however_long_a_frame_might_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thebes.wire.connection.MOST_TEXT", 100)
    long = httpx.Response(200, json={"ask_id": "a" * 200})
    client = CoordinatorClient("http://127.0.0.1:1", transport=httpx.MockTransport(lambda _: long))
    with client, pytest.raises(TooLarge):
        client.ask("t", "s", framed=True)


def test_a_frame_of_a_model_within_its_bound_is_taken() -> None:
    body, kind = frames.encode({"ask_id": "a", "part": "p", "phase": 1, "payload": {"weights": [0.5] * 100_000}})
    answer = httpx.Response(200, content=body, headers={"Content-Type": kind})
    with CoordinatorClient("http://127.0.0.1:1", transport=httpx.MockTransport(lambda _: answer)) as client:
        found: Any = client.ask("t", "s", framed=True)
    assert kind == frames.MEDIA_TYPE
    assert len(found.payload["weights"]) == 100_000


def test_repeats_of_a_request_share_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock runs on with each try; so many are made as there is time for, and no pause goes beyond it."""
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    slept: list[float] = []

    def late(request: httpx.Request) -> httpx.Response:
        bounds = request.extensions[answers.BOUNDS]
        ends.append(bounds.end)
        now[0] += 12.0
        raise httpx.ReadTimeout("late")

    ends: list[float] = []
    transport = httpx.MockTransport(late)
    client = CoordinatorClient("http://127.0.0.1:1", transport=transport, timeout=30, sleep=slept.append)
    with client, pytest.raises(Unreachable, match="in time"):
        client.tasks()
    assert ends == [30.0] * 3
    assert len(slept) == 2


def test_what_is_sent_gives_a_request_time_and_a_slow_reader_none() -> None:
    """A server that takes in nothing does not hold whoever sends for ever."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(Unreachable, match="in time"), CoordinatorClient(url, timeout=0.2, retries=0) as client:
            client._request("POST", "/api/task", content=b" " * 2**16, headers={})
        with answers.client(seconds=0.3) as http, pytest.raises(httpx.WriteTimeout):
            http.post(url, content=b" " * 2**26)


def test_a_redirect_is_within_the_time_of_the_request_that_met_it() -> None:
    ends: list[float] = []

    def on(request: httpx.Request) -> httpx.Response:
        ends.append(request.extensions[answers.BOUNDS].end)
        if len(ends) < 5:
            return httpx.Response(302, headers={"Location": f"/{len(ends)}"})
        return httpx.Response(200)

    with answers.client(transport=httpx.MockTransport(on), base_url="http://a.example") as http:
        assert http.get("/", follow_redirects=True).status_code == 200
    assert len(ends) == 5
    assert len(set(ends)) == 1


def test_a_handshake_and_a_name_of_many_addresses_are_within_the_time_too(
    hostile: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    mute = hostile(lambda send: time.sleep(20 * SOON))
    begun: list[str] = []
    url = f"https://localhost:{mute.address[1]}"
    with CoordinatorClient(url, timeout=SOON, retries=0) as client, pytest.raises(Unreachable):
        client.tasks()

    def silent(self: Any, host: str, *rest: Any) -> Any:
        begun.append(host)
        time.sleep(SOON / 4)
        raise httpcore.ConnectTimeout

    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"192.0.2.{n}", 80)) for n in range(200)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(httpcore.SyncBackend, "connect_tcp", silent)
    with CoordinatorClient("https://many.example", timeout=SOON, retries=0) as client, pytest.raises(Unreachable):
        client.tasks()
    assert 1 <= len(begun) <= 5


def test_a_connection_is_kept_between_requests(hostile: Start) -> None:
    """Each request is bounded, and not the connection that it shares."""
    body = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"
    connections = []

    def serve(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        connections.append(1)
        for _ in range(3):
            connection.recv(65536)
            connection.sendall(body)

    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        threading.Thread(target=serve, args=(listening,), daemon=True).start()
        with answers.client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}") as http:
            assert [http.get("/").json() for _ in range(3)] == [[], [], []]
    assert connections == [1]


def test_proxies_of_the_environment_are_as_it_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    near, far = httpx.URL("http://near.example/"), httpx.URL("https://far.example/")
    trusting, plain = answers.Direct(trust_env=True), answers.Direct()
    assert trusting.proxy_of(near) is None
    monkeypatch.setenv("http_proxy", "127.0.0.1:3128")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:3129")
    assert trusting.proxy_of(near) == "http://127.0.0.1:3128"
    assert trusting.proxy_of(far) == "http://127.0.0.1:3129"
    monkeypatch.setenv("no_proxy", "near.example")
    assert (trusting.proxy_of(near), plain.proxy_of(far)) == (None, None)
    monkeypatch.setenv("no_proxy", "*")
    assert trusting.proxy_of(far) is None


def test_certificates_are_verified_by_default() -> None:
    context = answers.everybody()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_every_client_of_http_is_made_in_the_one_place() -> None:
    house = Path(thebes.__file__).parent
    asking = re.compile(
        r"\b(httpx\.(Async)?Client\(|httpx\.(get|post|put|request|stream|HTTPTransport)\(|HTTPS?Connection\(|urlopen\()"
    )
    found = {
        path.relative_to(house).as_posix()
        for path in house.rglob("*.py")
        if "testing" not in path.parts and asking.search(path.read_text(encoding="utf-8"))
    }
    assert found == {"confinement/answers.py"}


def test_nothing_is_lost_of_an_ordinary_answer(hostile: Start) -> None:
    body = json.dumps([{"task_id": "t", "n": n} for n in range(1000)]).encode()
    server = hostile(lambda send: send(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body))
    with CoordinatorClient(server.url) as client:
        assert len(client.tasks()) == 1000
