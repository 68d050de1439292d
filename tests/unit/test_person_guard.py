"""The door of a person's server: the whole table of who stays outside, with a client, with raw bytes, and on disk."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from tests.support.coordinator_in_memory import CoordinatorInMemory
from thebes.person.folder import Hold, HomeInUse, prepared
from thebes.person.home import Person
from thebes.person.rest import guarded
from thebes.privacy.faults import Mistake
from thebes.web.person.pages import put_on
from thebes.wire.access import Access, UnsafeFile, make_token, read_secret
from thebes.wire.guard import HostGuard
from thebes.wire.local_server import listening_at

PORT = 8765
JSON = {"Content-Type": "application/json"}


class World:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.person = Person(home, client=CoordinatorInMemory(), delay=False)  # type: ignore[arg-type]
        make_token(home)
        self.token = read_secret(home / "token")
        self.access = Access(home)
        self.app = guarded(self.person, self.access, port=PORT, stop=lambda: None, pages=put_on)

    def ask(self, method: str, path: str, headers: Any, content: bytes | None = None) -> httpx.Response:
        async def once() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)  # type: ignore[arg-type]
            async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{PORT}") as client:
                return await client.request(method, path, headers=headers, content=content)

        return asyncio.run(once())


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("guarded") / "home")
    yield made
    made.person.close()


TABLE: list[tuple[str, str, dict[str, str], int]] = [
    ("good", "GET", {}, 200),
    ("localhost", "GET", {"Host": f"localhost:{PORT}"}, 200),
    ("loopback 6", "GET", {"Host": f"[::1]:{PORT}"}, 200),
    ("upper case host", "GET", {"Host": f"LOCALHOST:{PORT}"}, 200),
    ("rebound name", "GET", {"Host": f"evil.example:{PORT}"}, 421),
    ("wrong port", "GET", {"Host": "127.0.0.1:80"}, 421),
    ("no port", "GET", {"Host": "127.0.0.1"}, 421),
    ("any address", "GET", {"Host": f"0.0.0.0:{PORT}"}, 421),
    ("another loopback", "GET", {"Host": f"127.0.0.2:{PORT}"}, 421),
    ("trailing dot", "GET", {"Host": f"localhost.:{PORT}"}, 421),
    ("name that begins alike", "GET", {"Host": f"127.0.0.1:{PORT}.evil.example"}, 421),
    ("no token", "GET", {"Authorization": ""}, 401),
    ("bad token", "GET", {"Authorization": "Bearer x"}, 401),
    ("another scheme", "GET", {"Authorization": "Basic eDp5"}, 401),
    ("typed address", "GET", {"Sec-Fetch-Site": "none"}, 200),
    ("own page", "GET", {"Sec-Fetch-Site": "same-origin"}, 200),
    ("another page", "GET", {"Sec-Fetch-Site": "cross-site"}, 403),
    ("another port's page", "GET", {"Sec-Fetch-Site": "same-site"}, 403),
    ("own origin", "GET", {"Origin": f"http://127.0.0.1:{PORT}"}, 200),
    ("null origin", "GET", {"Origin": "null"}, 403),
    ("evil origin", "GET", {"Origin": "https://evil.example"}, 403),
    ("origin of another port", "GET", {"Origin": "http://127.0.0.1:1"}, 403),
    ("origin over tls", "GET", {"Origin": f"https://127.0.0.1:{PORT}"}, 403),
    ("form", "PUT", {"Content-Type": "text/plain"}, 415),
    ("form of a page", "PUT", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
    ("no type", "PUT", {"Content-Type": ""}, 415),
    ("json like", "PUT", {"Content-Type": "application/jsonx"}, 415),
    ("json with charset", "PUT", {"Content-Type": "application/json; charset=utf-8"}, 200),
    ("good write", "PUT", {}, 200),
    ("null origin write", "PUT", {"Origin": "null"}, 403),
    ("preflight", "OPTIONS", {"Origin": "https://evil.example", "Access-Control-Request-Method": "PUT"}, 403),
]


@pytest.mark.parametrize(("what", "method", "headers", "expected"), TABLE, ids=[row[0] for row in TABLE])
def test_the_whole_table(world: World, what: str, method: str, headers: dict[str, str], expected: int) -> None:
    said = {"Authorization": f"Bearer {world.token}", **(JSON if method == "PUT" else {}), **headers}
    said = {name: value for name, value in said.items() if value}
    body = b'{"rules": []}' if method == "PUT" else None
    answer = world.ask(method, "/api/rules", said, body)
    assert answer.status_code == expected
    assert not [name for name in answer.headers if name.lower().startswith("access-control-")]
    assert answer.headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    if expected >= 400:
        assert answer.headers["content-type"].startswith("application/problem+json")
        assert answer.json()["status"] == expected


@pytest.mark.parametrize("path", ["/api/store", "/api/ledger", "/openapi.json", "/docs", "/redoc", "/nothing"])
def test_nothing_answers_without_the_token(world: World, path: str) -> None:
    assert world.ask("GET", path, {}).status_code == 401


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_there_are_no_interactive_documents(world: World, path: str) -> None:
    assert world.ask("GET", path, {"Authorization": f"Bearer {world.token}"}).status_code == 404


def test_a_browser_is_shown_a_page_where_there_is_none_and_a_program_a_problem(world: World) -> None:
    token = {"Authorization": f"Bearer {world.token}"}
    shown = world.ask("GET", "/nothing", {**token, "Accept": "text/html,*/*;q=0.8"})
    assert shown.status_code == 404
    assert "There is no page at this address." in shown.text
    told = world.ask("GET", "/nothing", {**token, "Accept": "application/json"})
    assert told.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/app/x/register"), ("POST", "/app/x/insert"), ("POST", "/api/tasks/x/accept"), ("DELETE", "/api/rules")],
)
def test_no_write_passes_without_json_and_token(world: World, method: str, path: str) -> None:
    assert world.ask(method, path, {}).status_code == 401
    assert world.ask(method, path, {"Content-Type": "text/plain"}).status_code == 401
    assert world.ask(method, path, JSON).status_code == 401
    token = {"Authorization": f"Bearer {world.token}"}
    assert world.ask(method, path, {**token, "Content-Type": "text/plain"}).status_code == 415
    assert world.ask(method, path, token, b"{}").status_code == 415
    assert world.ask(method, path, {**token, "Transfer-Encoding": "chunked"}).status_code == 415
    assert world.ask(method, path, token).status_code in (404, 405, 422, 502)


@pytest.mark.parametrize("name", [b"host", b"origin", b"authorization", b"content-type", b"cookie"])
def test_a_header_that_stands_there_twice_is_refused(world: World, name: bytes) -> None:
    good = {
        b"host": f"127.0.0.1:{PORT}".encode(),
        b"origin": f"http://127.0.0.1:{PORT}".encode(),
        b"authorization": f"Bearer {world.token}".encode(),
        b"content-type": b"application/json",
        b"cookie": b"a=b",
    }
    assert _status(world, [*good.items()]) == 200
    assert _status(world, [*good.items(), (name, good[name])]) == 400
    assert _status(world, [*good.items(), (name, b"other")]) == 400


def _status(world: World, headers: list[tuple[bytes, bytes]]) -> int:
    seen: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        seen.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": "/api/rules",
        "raw_path": b"/api/rules",
        "query_string": b"",
        "headers": headers,
        "scheme": "http",
        "server": ("127.0.0.1", PORT),
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }
    asyncio.run(world.app(scope, receive, send))  # type: ignore[arg-type]
    return int(seen[0]["status"])


def test_websockets_are_closed_unheard(world: World) -> None:
    seen: list[Any] = []

    async def send(message: Any) -> None:
        seen.append(message)

    async def receive() -> dict[str, Any]:
        raise AssertionError("nothing is read from it")

    asyncio.run(world.app({"type": "websocket", "headers": []}, receive, send))  # type: ignore[arg-type]
    assert seen == [{"type": "websocket.close", "code": 1008}]


def test_a_code_opens_one_session_once(world: World) -> None:
    code = world.access.new_code()
    first = world.ask("GET", f"/?code={code}", {})
    assert (first.status_code, first.headers["location"]) == (303, "/welcome")  # nothing lies here yet
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert code not in cookie
    assert world.ask("GET", f"/?code={code}", {}).status_code == 401
    assert world.ask("GET", "/?code=", {}).status_code == 401
    assert world.ask("GET", "/", {}).status_code == 401
    session = {"Cookie": cookie.partition(";")[0]}
    assert world.ask("GET", "/", session).status_code == 200
    assert world.ask("GET", "/api/store", session).status_code == 200
    assert world.ask("GET", "/api/store", {**session, "Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert world.ask("PUT", "/api/rules", {**session, "Content-Type": "text/plain"}).status_code == 415
    assert world.ask("GET", "/api/store", {"Cookie": session["Cookie"] + "x"}).status_code == 401
    assert world.ask("GET", "/api/store", {"Cookie": "other=" + session["Cookie"].partition("=")[2]}).status_code == 401


def test_a_rebound_name_cannot_spend_a_code(world: World) -> None:
    code = world.access.new_code()
    assert world.ask("GET", f"/?code={code}", {"Host": f"evil.example:{PORT}"}).status_code == 421
    assert world.ask("GET", f"/?code={code}", {"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert world.ask("GET", f"/?code={code}", {}).status_code == 303


def test_a_new_token_ends_the_old_one_at_once(tmp_path: Path) -> None:
    made = World(tmp_path / "home")
    try:
        old = {"Authorization": f"Bearer {made.token}"}
        assert made.ask("GET", "/api/rules", old).status_code == 200
        make_token(made.home, anew=True)
        assert made.ask("GET", "/api/rules", old).status_code == 401
        fresh = {"Authorization": f"Bearer {read_secret(made.home / 'token')}"}
        assert made.ask("GET", "/api/rules", fresh).status_code == 200
        (made.home / "token").chmod(0o644)
        assert made.ask("GET", "/api/rules", fresh).status_code == 401
    finally:
        made.person.close()


# --- over a real socket ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def listening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    import uvicorn

    home = tmp_path_factory.mktemp("raw") / "home"
    person = Person(home, client=CoordinatorInMemory(), delay=False)  # type: ignore[arg-type]
    make_token(home)
    bound = listening_at(0)
    port = int(bound.getsockname()[1])
    app = guarded(person, Access(home), port=port, stop=lambda: None)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", server_header=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    yield port, read_secret(home / "token")
    server.should_exit = True
    thread.join(timeout=60)
    person.close()


def raw(port: int, request: bytes) -> int:
    """The status of a request as it stands, without any client that would put it right."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(request)
        found = re.match(rb"HTTP/1\.1 (\d{3})", connection.recv(65536))
    return int(found.group(1)) if found else 0


@pytest.mark.slow
def test_raw_requests_meet_the_same_door(listening: tuple[int, str]) -> None:
    port, token = listening
    bearer = f"Authorization: Bearer {token}\r\n"
    host = f"Host: 127.0.0.1:{port}\r\n"

    def get(headers: str, target: str = "/api/rules", version: str = "1.1") -> int:
        return raw(port, f"GET {target} HTTP/{version}\r\n{headers}Connection: close\r\n\r\n".encode("latin-1"))

    assert get(host + bearer) == 200
    assert get(bearer) in (400, 421)
    assert get(bearer, version="1.0") in (400, 421)
    assert get(host + host + bearer) == 400
    assert get(host + f"Host: evil.example:{port}\r\n" + bearer) == 400
    assert get(f"Host: evil.example:{port}\r\n" + bearer) == 421
    assert get(f"Host: 127.0.0.1:{port}\x00\r\n" + bearer) in (400, 421)
    assert get(f"Host: 127.0.0.1:{port} \r\n" + bearer) in (200, 400, 421)
    assert get(host + bearer + bearer) == 400
    assert get(host + bearer + "Origin: null\r\n") == 403
    assert get(host + bearer + f"Origin: http://127.0.0.1:{port}\r\nOrigin: null\r\n") == 400
    assert get(host + bearer, target=f"http://evil.example:{port}/api/rules") in (200, 400, 404, 421)
    assert get(host, target="/api/rules") == 401
    assert get(host, target="//api/rules") == 401
    assert get(host, target="/%2e/api/rules") == 401
    assert get(host, target="/api/rules/../../") == 401
    body = "Content-Type: text/plain\r\nContent-Length: 13\r\n"
    assert raw(port, f"PUT /api/rules HTTP/1.1\r\n{host}{bearer}{body}\r\n".encode() + b'{"rules": []}') == 415
    body = "Content-Type: application/json\r\nContent-Length: 99999999999\r\n"
    assert raw(port, f"PUT /api/rules HTTP/1.1\r\n{host}{bearer}{body}\r\n".encode()) == 413


def test_only_this_machine_can_connect(listening: tuple[int, str]) -> None:
    port, _ = listening
    listeners = [
        line.split()[1]
        for table in ("/proc/net/tcp", "/proc/net/tcp6")
        if Path(table).exists()
        for line in Path(table).read_text().splitlines()[1:]
        if line.split()[3] == "0A" and int(line.split()[1].rpartition(":")[2], 16) == port
    ]
    assert listeners == [f"0100007F:{port:04X}"]


# --- files --------------------------------------------------------------------------------


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_home_and_everything_in_it_are_their_owners_alone(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o755)
    made = World(tmp_path / "home")
    made.person.close()
    assert mode(tmp_path / "home") == 0o700
    assert mode(tmp_path / "home" / "token") == 0o600
    assert len(made.token) >= 43  # 256 bits
    for path in (tmp_path / "home").iterdir():
        assert mode(path) & 0o077 == 0, path.name


def test_a_folder_with_something_else_in_it_becomes_no_home(tmp_path: Path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir(mode=0o755)
    (folder / "novel.txt").write_text("chapter one")
    with pytest.raises(Mistake, match="a new or an empty folder"):  # to destroy a home is to destroy what lies in it
        prepared(folder)
    assert ([path.name for path in folder.iterdir()], mode(folder)) == (["novel.txt"], 0o755)
    (folder / "novel.txt").rename(folder / "person.toml")  # settings may come first
    assert prepared(folder) == folder


def test_a_token_is_made_once_and_kept(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home")
    first = read_secret(make_token(home))
    assert read_secret(make_token(home)) == first
    assert read_secret(make_token(home, anew=True)) != first


@pytest.mark.parametrize("wrong", [0o640, 0o604, 0o644, 0o666])
def test_a_token_that_others_can_read_is_not_used(tmp_path: Path, wrong: int) -> None:
    home = prepared(tmp_path / "home")
    path = make_token(home)
    path.chmod(wrong)
    with pytest.raises(UnsafeFile):
        read_secret(path)
    with pytest.raises(UnsafeFile):
        make_token(home)
    assert Access(home).knows("anything") is False
    make_token(home, anew=True)
    assert mode(path) == 0o600


def test_a_token_that_is_a_link_or_missing_is_not_used(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home")
    (tmp_path / "elsewhere").write_text("secret\n")
    (tmp_path / "elsewhere").chmod(0o600)
    (home / "token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeFile):
        read_secret(home / "token")
    (home / "token").unlink()
    with pytest.raises(UnsafeFile):
        read_secret(home / "token")
    assert Access(home).knows("") is False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_token_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    path = make_token(prepared(tmp_path / "home"))
    os.chown(path, 12345, 12345)
    with pytest.raises(UnsafeFile):
        read_secret(path)
    os.chown(tmp_path / "home", 12345, 12345)
    with pytest.raises(Mistake, match="somebody else"):
        prepared(tmp_path / "home")


def test_a_home_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    home = prepared(tmp_path / "home")
    held = Hold(home)
    with pytest.raises(HomeInUse):
        Hold(home)
    held.close()
    Hold(home).close()


def test_no_problem_repeats_what_was_sent(world: World) -> None:
    said = {"Authorization": f"Bearer {world.token}", **JSON}
    secret = "s3cr3t-value"
    for path, body in [
        ("/app/profile/insert", {"table": secret, "rows": secret}),
        ("/app/profile/insert", {"table": 5, "rows": [{"a": secret}], secret: 1}),
        ("/app/profile/register", {"tables": {"t": {"columns": {"c": {"type": secret}}}}}),
    ]:
        answer = world.ask("POST", path, said, json.dumps(body).encode())
        assert 400 <= answer.status_code < 500
        assert secret not in answer.json()["detail"]
    assert world.ask("POST", "/app/profile/insert", said, b"{not json").status_code == 400


def test_a_body_without_a_length_is_taken_no_further_than_one_with(tmp_path: Path) -> None:
    """In pieces, of which none tells how many there are: read until the most of a request, whoever reads it."""
    make_token(tmp_path)
    access, bearer = Access(tmp_path), (tmp_path / "token").read_text().strip()
    received: list[int] = []
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        received.append(2**20)
        return {"type": "http.request", "body": bytes(2**20), "more_body": True}

    async def send(message: Any) -> None:
        sent.append(dict(message))

    async def swallowing(scope: Any, receive: Any, send: Any) -> None:
        try:
            while (await receive())["more_body"]:
                continue
        except Exception:
            await send({"type": "http.response.start", "status": 200, "headers": []})

    async def reading(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            continue

    headers = [(b"host", f"127.0.0.1:{PORT}".encode()), (b"authorization", f"Bearer {bearer}".encode())]
    headers += [(b"content-type", b"application/json"), (b"transfer-encoding", b"chunked")]
    scope = {"type": "http", "method": "POST", "path": "/api/rules", "headers": headers}
    for app in (reading, swallowing):
        received.clear(), sent.clear()
        asyncio.run(HostGuard(app, access, port=PORT)(scope, receive, send))
        assert sum(received) == 2**26 + 2**20
        assert [m["status"] for m in sent if m["type"] == "http.response.start"] == [413]


def test_a_packed_body_is_not_unpacked(tmp_path: Path) -> None:
    with Person(tmp_path / "me") as me:
        make_token(me.home)
        app: Any = guarded(me, Access(me.home), port=PORT, stop=lambda: None)
        headers = {
            "Authorization": f"Bearer {(me.home / 'token').read_text().strip()}",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
        }
        with TestClient(app, base_url=f"http://127.0.0.1:{PORT}", headers=headers) as http:
            answer = http.put("/api/rules", content=gzip.compress(b"[" + b"[]," * 10**6 + b"[]]"))
            assert answer.status_code in (400, 415)


def test_while_the_token_s_file_can_be_read_by_others_no_browser_that_came_in_stays(tmp_path: Path) -> None:
    file = make_token(tmp_path)
    access = Access(tmp_path)
    session, code = access.exchange(access.new_code()), access.new_code()
    assert session is not None
    assert access.admits(session)
    file.chmod(0o644)
    assert not access.admits(session)
    assert access.exchange(code) is None
    file.chmod(0o600)
    assert not access.admits(session)
