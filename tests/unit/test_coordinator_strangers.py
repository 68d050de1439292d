"""Nothing that strangers send costs everybody else much."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import os
import re
import string
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

import thebes
from tests.support.coordinator import AGES, Front
from thebes.coordinator.api.middleware import STRANGERS
from thebes.coordinator.auth import access as auth
from thebes.coordinator.auth.accounts import Role, Somebody
from thebes.privacy.faults import Refusal
from thebes.wire import whole
from thebes.wire.refusals import Busy
from thebes.wire.server_options import manners
from thebes.wire.whole import WholeAnswers

LARGE = json.dumps({**AGES, "username": "a", "password": "b", "purpose": "x" * STRANGERS}).encode()
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "home") as made:
        yield made


@pytest.mark.few(1)
@pytest.mark.parametrize("path", ["/api/check", "/api/quote", "/api/login", "/api/task", "/sign-in", "/ask/check"])
def test_who_shows_no_token_may_not_send_much(front: Front, path: str) -> None:
    headers = {**JSON, "Origin": "http://testserver"}
    for content in (LARGE, iter([LARGE[:1000], LARGE[1000:]])):
        answer = front.client.post(path, content=content, headers=headers)
        assert answer.status_code == 413, answer.text
        assert answer.json()["detail"].endswith("whoever shows a token may send more")
    wrong = front.client.post(path, content=LARGE, headers={**headers, "Authorization": "Bearer nobody's"})
    assert wrong.status_code == 413


def test_who_shows_a_token_may_send_as_much_as_the_settings_say(front: Front) -> None:
    for shown in (front.admin, {"Cookie": f"a=b; thebes_asking_80={front.admin_token}"}):
        for content in (LARGE, iter([LARGE[:1000], LARGE[1000:]])):
            answer = front.client.post("/api/check", content=content, headers={**JSON, **shown})
            assert answer.status_code == 200, answer.text


def test_a_body_without_a_length_is_read_no_further_than_its_limit(front: Front) -> None:
    asked: Any = front.client
    received: list[int] = []
    said: list[int] = []

    async def receive() -> dict[str, Any]:
        received.append(2**16)
        return {"type": "http.request", "body": b" " * 2**16, "more_body": True}

    async def send(message: Any) -> None:
        said.append(message.get("status", 0))

    headers = [(b"host", b"testserver"), (b"content-type", b"application/json"), (b"transfer-encoding", b"chunked")]
    for path in ("/api/task", "/api/login", "/api/quote"):
        received.clear(), said.clear()
        scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": path, "headers": list(headers)}
        scope |= {"query_string": b"", "root_path": "", "scheme": "http", "server": ("testserver", 80)}
        asyncio.run(asked.app(scope, receive, send))
        assert said[0] == 413
        assert sum(received) <= STRANGERS + 2**16


def test_a_packed_body_is_not_unpacked(front: Front) -> None:
    packed = gzip.compress(b'{"type": "' + b" " * 10**7 + b'"}')
    for path in ("/api/task", "/api/quote", "/api/login"):
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        assert front.client.post(path, content=packed, headers=headers).status_code in (400, 415)


def test_the_documented_requests_of_a_requestor_do_what_they_say(front: Front) -> None:
    page = (Path(__file__).parents[2] / "docs" / "requestor.md").read_text(encoding="utf-8")
    front.service.accounts.add("ana", "correct horse battery", Role.REQUESTOR)
    sent = {"login.json": {"username": "ana", "password": "correct horse battery"}, "median.json": AGES}
    known, answers = {"token": "", "task_id": ""}, {}
    for path, told, file in re.findall(
        r'^curl "\$address([^"]+)"((?: -H "[^"]+")*)(?: -d @(\S+))?$', page, re.MULTILINE
    ):
        headers = dict(
            header.split(": ") for header in re.findall(r'-H "([^"]+)"', string.Template(told).substitute(known))
        )
        content = json.dumps(sent[file]) if file else None
        path = string.Template(path).substitute(known)
        answer = front.client.request("POST" if file else "GET", path, content=content, headers=headers)
        assert answer.status_code < 300, answer.text
        answers[path] = answer.json()
        known |= {name: answers[path][name] for name in known if name in answers[path]}
    assert list(answers) == ["/api/login", "/api/check", "/api/quote", "/api/task", f"/api/task/{known['task_id']}"]
    assert (answers["/api/check"]["problems"], answers["/api/quote"]["price"]["unit"]) == ([], "device")
    front.fill(known["task_id"], 12, {"age": 41})
    front.closing.step()
    result = front.task(known["task_id"])["result"]
    assert {"value", "interval", "intervals", "certificate"} <= set(result)
    assert set(result["interval"]) >= {"level", "low", "high"}


def test_who_sends_a_document_as_a_form_is_told_how_to_send_it(front: Front) -> None:
    """Send what curl sends with `-d` alone."""
    as_form = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = front.client.post("/api/check", content=json.dumps(AGES), headers=as_form)
    assert answer.status_code == 422
    assert "Content-Type: application/json" in answer.json()["detail"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a priority is a whole process's")
def test_passwords_are_checked_when_nobody_else_needs_the_machine(front: Front) -> None:
    def priority() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    lowered = front.service.auth._passwords.submit(priority).result()
    assert lowered == min(19, priority() + 10)
    readers = front.service._readers.submit(priority).result()
    assert readers == priority()


def test_who_may_not_even_wait_to_log_in_hears_so_after_a_while(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else those who are refused would ask again at once, and take the time of everybody who asks something else."""
    held = threading.Event()
    monkeypatch.setattr(front.service.accounts, "login", lambda name, password: held.wait(20))
    monkeypatch.setattr(auth, "_REFUSAL_SECONDS", 0.3)

    async def come(people: int) -> list[Any]:
        waiting = [asyncio.create_task(front.service.auth.login("a", "b")) for _ in range(people)]
        await asyncio.sleep(0)  # now they do wait
        began = time.monotonic()
        with pytest.raises(Busy):
            await front.service.auth.login("c", "d")
        assert time.monotonic() - began >= 0.3
        held.set()
        return await asyncio.gather(*waiting)

    assert asyncio.run(come(front.home.settings.waiting_logins)) == [True] * 64


def test_who_hangs_up_halfway_is_no_fault_of_ours(front: Front, caplog: pytest.LogCaptureFixture) -> None:
    task_id = front.post(AGES)
    said: list[Any] = []
    parts = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> dict[str, Any]:
        return next(parts)

    async def send(message: dict[str, Any]) -> None:
        said.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": f"/api/task/{task_id}/submit",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"1000")],
    }
    with caplog.at_level(logging.DEBUG, logger="thebes"):
        asyncio.run(front.client.app(scope, receive, send))
    assert said == []
    assert caplog.records == []
    assert front.task(task_id)["contributions"] == 0


def test_one_requestor_has_only_so_many_tasks_under_way_also_when_they_come_together(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "coordinator.toml").write_text("tasks_under_way = 3\n")
    ana, bob = (Somebody(name, Role.REQUESTOR) for name in ("ana", "bob"))
    with Front(tmp_path / "home") as front:

        async def put_up(somebody: Somebody, count: int) -> list[Any]:
            posting = [front.service.post(AGES, somebody) for _ in range(count)]
            return await asyncio.gather(*posting, return_exceptions=True)

        answers = asyncio.run(put_up(ana, 8))
        refused = [str(answer) for answer in answers if isinstance(answer, Refusal)]
        assert set(refused) == {
            "3 of your tasks are under way, and no requestor may have more; cancel one, or wait until one ends"
        }
        assert len(answers) - len(refused) == len(front.client.get("/api/task").json()) == 3
        assert len(list((tmp_path / "home" / "keys").iterdir())) == 3
        assert len(asyncio.run(put_up(bob, 1))) == 1
        for _ in range(4):
            front.post(AGES)  # an operator's
        first = next(answer[0] for answer in answers if not isinstance(answer, Refusal))
        asyncio.run(front.service.cancel(first, ana))
        assert [isinstance(answer, Refusal) for answer in asyncio.run(put_up(ana, 2))].count(False) == 1


# --- requests that do not arrive ------------------------------------------------------------------------

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 600\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Reads everything, then thinks for longer than a request may take to arrive."""
    while (message := await receive())["type"] == "http.request" and message["more_body"]:
        pass
    if message["type"] == "http.request":
        await asyncio.sleep(1.2)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def talked(pieces: list[bytes], pause: float) -> bytes:
    """Return what somebody hears who says these pieces with pauses, and then nothing more."""
    loop = asyncio.get_running_loop()
    config = uvicorn.Config(app, http=WholeAnswers, lifespan="off", log_level="critical")
    config.load()
    server = await loop.create_server(
        lambda: WholeAnswers(config=config, server_state=ServerState(), app_state={}), "127.0.0.1", 0
    )
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    heard = asyncio.create_task(reader.read(12))
    for piece in pieces:
        writer.write(piece)
        await asyncio.sleep(pause)
        if heard.done():
            break
    async with asyncio.timeout(60):
        try:
            return await heard
        except ConnectionResetError:
            return b""
        finally:
            writer.close()
            server.close()


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("pieces", "pause", "answered"),
    [
        ([b""], 0.0, False),
        ([b"GET / HTTP/1.1\r\n", *[b"a: b\r\n"] * 100], 0.02, False),
        ([HEAD, *[b"x"] * 100], 0.02, False),
        ([HEAD, *[b"x" * 60] * 10], 0.02, True),  # slowly, and not too slowly: 3,000 bytes a second
        ([HEAD + b"x" * 600], 0.0, True),
        ([2 * (HEAD + b"x" * 600)], 0.0, True),
    ],
)
def test_a_request_arrives_in_time_or_is_dropped(
    monkeypatch: pytest.MonkeyPatch, pieces: list[bytes], pause: float, answered: bool
) -> None:
    monkeypatch.setattr(whole, "PATIENCE_SECONDS", 0.6)
    assert (asyncio.run(talked(pieces, pause)) == b"HTTP/1.1 204") is answered


def test_every_server_waits_no_longer_than_that_for_a_request() -> None:
    """The rule above is of the protocol; a person's and a site's own server speak it as a coordinator does."""
    house = Path(thebes.__file__).parent
    made = [path for path in house.rglob("*.py") if "uvicorn.Config(" in path.read_text(encoding="utf-8")]
    assert {path.relative_to(house).parts[0] for path in made} == {"coordinator", "person", "site"}
    assert manners()["http"] is WholeAnswers
    for path in made:
        assert path.read_text(encoding="utf-8").count("**manners(),") == 1
        assert not re.search(r"\bhttp=", path.read_text(encoding="utf-8"))
