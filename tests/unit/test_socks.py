"""Through a SOCKS proxy on real sockets: names are resolved there, identities never meet, there is no other way."""

from __future__ import annotations

import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.socks import DOMAIN, SocksServer
from thebes.privacy.faults import Mistake
from thebes.wire.address import base_url
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import Unreachable
from thebes.wire.socks import Proxy

HOST = "coordinator.example"
URL = f"http://{HOST}"
#: a made-up key, with the checksum that belongs to it
ONION = "aaaqeayeaudaocajbifqydiob4ibceqtcqkrmfyydenbwha5dyp3kead.onion"


@dataclass
class Coordinator:
    """Answers every request, sets a cookie each time, and remembers headers and connections."""

    heads: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    peers: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        remembers = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                remembers.heads.append({k.lower(): v for k, v in self.headers.items()})
                remembers.paths.append(self.path)
                remembers.peers.append(self.client_address)
                body = json.dumps(
                    [] if self.path in ("/api/task", "/api/site") else {"receipt": "r", "wait": 1.0, "task_id": "t"}
                ).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Set-Cookie", f"who={len(remembers.paths)}; Path=/")
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, format: str, *args: Any) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", int(self.server.server_address[1]))

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def coordinator() -> Iterator[Coordinator]:
    made = Coordinator()
    yield made
    made.close()


@pytest.fixture
def proxy(coordinator: Coordinator) -> Iterator[SocksServer]:
    with SocksServer({HOST: coordinator.address, ONION: coordinator.address}) as made:
        yield made


@pytest.fixture
def touched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every name that this process looks up and every address it connects to."""
    seen: list[Any] = []
    look, connect = socket.getaddrinfo, socket.create_connection

    def looked(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        seen.append(host)
        return look(host, port, *rest, **more)

    def connected(address: Any, *rest: Any, **more: Any) -> Any:
        seen.append(address)
        return connect(address, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", looked)
    monkeypatch.setattr(socket, "create_connection", connected)
    return seen


def client(proxy: SocksServer | str, url: str = URL, **options: Any) -> CoordinatorClient:
    where = proxy if isinstance(proxy, str) else proxy.address
    return CoordinatorClient(url, proxy=where, retries=0, sleep=lambda seconds: None, **options)


# --- the way ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
def test_names_are_resolved_by_the_proxy_whatever_the_scheme(
    scheme: str, proxy: SocksServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(host: Any, *rest: Any, **more: Any) -> Any:
        assert host == "127.0.0.1", "a name was looked up on this machine"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, rest[0]))]

    monkeypatch.setattr(socket, "getaddrinfo", never)
    assert client(f"{scheme}://127.0.0.1:{proxy.port}").tasks() == []
    assert [(a.kind, a.host, a.port) for a in proxy.asked] == [(DOMAIN, HOST, 80)]


@pytest.mark.parametrize("host", ["10.1.2.3", "[2001:db8::1]", "127.0.0.1"])
def test_even_a_number_is_handed_over_as_it_is_written(host: str, coordinator: Coordinator) -> None:
    bare = host.strip("[]")
    with SocksServer({bare: coordinator.address}) as through:
        client(through, f"http://{host}:81").tasks()
        assert [(a.kind, a.host, a.port) for a in through.asked] == [(DOMAIN, bare, 81)]


def test_nothing_is_connected_to_but_the_proxy(proxy: SocksServer, touched: list[Any]) -> None:
    with client(proxy) as made:
        made.tasks(), made.task("t"), made.ask("t", "s"), made.submit("t", b"{}"), made.withdraw("t", "r")
    assert set(touched) <= {"127.0.0.1", ("127.0.0.1", proxy.port)}
    assert ("127.0.0.1", proxy.port) in touched


def test_proxies_of_the_environment_are_never_used(
    proxy: SocksServer, monkeypatch: pytest.MonkeyPatch, touched: list[Any]
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")
    client(proxy, trust_env=True).tasks()
    assert len(proxy.asked) == 1
    assert ("127.0.0.1", 1) not in touched


def test_a_proxy_that_speaks_a_byte_at_a_time_is_understood(coordinator: Coordinator) -> None:
    with SocksServer({HOST: coordinator.address}, slowly=True) as through:
        assert client(through).tasks() == []


# --- never another way ----------------------------------------------------------------------------------


def test_a_proxy_that_is_down_ends_the_request(coordinator: Coordinator, touched: list[Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    here = f"http://127.0.0.1:{coordinator.address[1]}"  # it could be reached directly
    with pytest.raises(Unreachable, match=r"does not answer; start it .*Nothing goes any other way"):
        client(f"socks5h://127.0.0.1:{port}", here).submit("t", b"{}")
    assert coordinator.paths == []
    assert set(touched) <= {"127.0.0.1", ("127.0.0.1", port)}


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ({"reply": 1}, "it failed"),
        ({"reply": 2}, "rules do not allow it"),
        ({"reply": 4}, "not known there"),
        ({"reply": 5}, "refused the connection"),
        ({"reply": 6}, "too long"),
        ({"reply": 0xF0}, "a reason of its own"),
        ({"takes_names": False}, "takes no names, so it cannot keep packets apart"),
        ({"accepts": False}, "takes no names but those it knows"),
        ({"says": b"HTTP/1.1 400 Bad Request\r\n\r\n"}, "is not a SOCKS5 proxy"),
        ({"says": b"\x04\x00"}, "is not a SOCKS5 proxy"),
        ({"says": b"\x05"}, "closed the connection"),
        ({"says": b""}, "closed the connection"),
    ],
    ids=str,
)
def test_what_a_proxy_refuses_is_said_and_not_done_otherwise(
    behaviour: dict[str, Any], words: str, coordinator: Coordinator, touched: list[Any]
) -> None:
    with SocksServer({HOST: coordinator.address}, **behaviour) as through:
        with pytest.raises(Unreachable, match=words):
            client(through).submit("t", b"{}")
        assert set(touched) <= {"127.0.0.1", ("127.0.0.1", through.port)}
    assert coordinator.paths == []


def test_a_proxy_that_never_answers_is_given_up_in_time() -> None:
    began = time.monotonic()
    with SocksServer(silent=True) as through, pytest.raises(Unreachable, match="in time"):
        client(through, timeout=0.3).tasks()
    assert time.monotonic() - began < 60


def test_a_proxy_without_names_is_used_only_when_that_is_asked_for(coordinator: Coordinator) -> None:
    with SocksServer({HOST: coordinator.address}, takes_names=False) as through:
        assert client(f"{through.address}?isolation=none").tasks() == []
        assert through.offered == [b"\x00"]
        assert (through.asked[0].kind, through.asked[0].name) == (DOMAIN, None)


# --- identities -----------------------------------------------------------------------------------------


def test_every_ask_and_every_submission_is_a_stranger(proxy: SocksServer) -> None:
    with client(proxy) as made:
        for slot in ("a", "b", "a"):
            made.ask("t", slot)
            made.submit("t", b"{}")
            made.withdraw("t", "r")
    told = [(a.name, a.password) for a in proxy.asked]
    assert len(told) == len(set(told)) == 9
    assert all(len(name or b"") == 32 and len(password or b"") == 32 for name, password in told)


def test_a_repeat_of_a_submission_goes_another_way_than_the_first(coordinator: Coordinator) -> None:
    with SocksServer({HOST: coordinator.address}, reply=1) as through:
        made = CoordinatorClient(URL, proxy=through.address, retries=2, sleep=lambda seconds: None)
        with pytest.raises(Unreachable):
            made.submit("t", b"{}")
        assert len({a.name for a in through.asked}) == len(through.asked) == 3


def test_reading_lists_is_one_identity_and_watching_each_task_another(proxy: SocksServer) -> None:
    with client(proxy) as made:
        for read in (made.tasks, made.log, made.sites, made.tasks):
            read()
        for task in ("t", "u", "t", "lists"):
            made.task(task)
        made.ask("t", "s")
    names = [a.name for a in proxy.asked]
    assert len(set(names[:4])) == 1
    assert names[4] == names[6]
    assert len({names[0], names[4], names[5], names[7], names[8]}) == 5


def test_two_homes_share_no_identity(proxy: SocksServer) -> None:
    client(proxy).tasks()
    client(proxy).tasks()
    assert len({a.name for a in proxy.asked}) == 2


def test_no_connection_carries_two_requests(proxy: SocksServer, coordinator: Coordinator) -> None:
    with client(proxy) as made:
        made.tasks(), made.tasks(), made.ask("t", "s"), made.submit("t", b"{}")
    assert len(set(coordinator.peers)) == len(coordinator.peers) == len(proxy.asked) == 4


def test_headers_tell_nobody_apart_and_no_cookie_comes_back(proxy: SocksServer, coordinator: Coordinator) -> None:
    with client(proxy) as made:
        made.ask("t", "s"), made.submit("t", b"{}"), made.ask("t", "s"), made.submit("t", b"{}")
    for head in coordinator.heads:
        assert "cookie" not in head
        assert head["user-agent"] == "thebes"
        assert head["accept-encoding"] == "identity"
        assert head["connection"] == "close"
        assert set(head) <= {
            "host", "user-agent", "accept", "accept-encoding", "connection", "content-length", "content-type"
        }  # fmt: skip
    assert coordinator.heads[0] == coordinator.heads[2]
    assert coordinator.heads[1] == coordinator.heads[3]


def test_no_cookie_is_kept_without_a_proxy_either(coordinator: Coordinator) -> None:
    with CoordinatorClient("http://{}:{}".format(*coordinator.address)) as made:
        made.tasks(), made.tasks()
    assert all("cookie" not in head for head in coordinator.heads)


def _certified(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for `name` that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    names = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(names, names, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return folder / "cert.pem", folder / "key.pem"


def test_https_is_verified_by_name_through_the_proxy_and_no_session_is_resumed(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    certificate, key = _certified(tmp_path, HOST)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    resumed: list[bool] = []
    plain = coordinator.server.get_request

    def encrypted() -> tuple[Any, Any]:
        connection, address = plain()
        wrapped = context.wrap_socket(connection, server_side=True)
        resumed.append(bool(wrapped.session_reused))
        return wrapped, address

    coordinator.server.get_request = encrypted  # type: ignore[method-assign]
    other = "elsewhere.example"
    with SocksServer({HOST: coordinator.address, other: coordinator.address}) as through:
        with client(through, f"https://{HOST}", ca_file=certificate) as made:
            made.tasks(), made.tasks(), made.ask("t", "s"), made.submit("t", b"{}")
        assert resumed == [False] * 4
        for url, options in ((f"https://{other}", {"ca_file": certificate}), (f"https://{HOST}", {})):
            with pytest.raises(Unreachable, match="certificate"):
                client(through, url, **options).tasks()
    assert len(coordinator.paths) == 4


# --- addresses ------------------------------------------------------------------------------------------


def test_an_onion_service_is_reached_through_a_proxy_only(proxy: SocksServer, touched: list[Any]) -> None:
    with pytest.raises(Mistake, match="tor") as refused:
        CoordinatorClient(f"http://{ONION}")
    assert refused.value.argument == "proxy"
    with pytest.raises(Mistake):
        CoordinatorClient(f"http://{ONION}", proxy="http://127.0.0.1:3128")
    assert touched == []
    client(proxy, f"http://{ONION}").tasks()
    assert (proxy.asked[0].kind, proxy.asked[0].host) == (DOMAIN, ONION)


def test_plain_http_is_private_to_an_onion_service_and_to_this_machine_without_a_proxy(proxy: SocksServer) -> None:
    assert client(proxy, f"http://{ONION}").private
    assert client(proxy, "https://coordinator.example").private
    assert not client(proxy).private
    assert not client(proxy, "http://127.0.0.1:8000").private  # that is the proxy's machine, or the exit's
    assert not client(proxy, "http://localhost:8000").private
    assert CoordinatorClient("http://127.0.0.1:8000").private


@pytest.mark.parametrize(
    "host",
    ["abc.onion", ONION[1:], "b" + ONION[1:], ONION.replace("qe", "1e"), "a" * 56 + ".onion", ".onion"],
)
def test_a_mistyped_onion_address_is_noticed_before_anything_is_asked(host: str) -> None:
    with pytest.raises(Mistake, match=r"onion|address"):
        base_url(f"http://{host}")


def test_upper_case_and_subdomains_of_onion_services_are_fine() -> None:
    assert base_url(f"http://{ONION.upper()}")[1]
    assert base_url(f"http://www.{ONION}")[1]
    assert not base_url(f"http://{ONION}.example")[1]


def test_tor_is_a_name_for_where_tor_listens() -> None:
    assert Proxy.read("tor") == Proxy("127.0.0.1", 9050)
    assert str(Proxy.read("socks5://[::1]:1080?isolation=none")) == "socks5h://[::1]:1080?isolation=none"
    assert Proxy.read(str(Proxy.read("tor"))) == Proxy.read("tor")


@pytest.mark.parametrize(
    "text",
    ["", "Tor", "socks4://127.0.0.1:9050", "socks4a://a:1", "socks5h://127.0.0.1", "socks5://:9050",
     "socks5h://me:secret@127.0.0.1:9050", "socks5h://127.0.0.1:99999", "socks5h://127.0.0.1:9050/x",
     "socks5h://127.0.0.1:9050?isolation=some", "socks5h://127.0.0.1:9050#x", "127.0.0.1:9050", None, 9050],
)  # fmt: skip
def test_what_is_no_socks_proxy_is_a_mistake_that_names_it(text: Any) -> None:
    with pytest.raises(Mistake) as refused:
        Proxy.read(text)
    assert refused.value.argument == "proxy"
    assert "secret" not in str(refused.value)
