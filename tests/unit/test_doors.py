"""Promises that the servers of all three roles have in common: methods, slashes, JSON."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import iter_route_contexts
from fastapi.testclient import TestClient

from tests.support.coordinator import Front
from tests.support.coordinator_in_memory import CoordinatorInMemory
from thebes.person.home import Person
from thebes.person.rest import guarded as persons
from thebes.site.steward.rest import guarded as sites
from thebes.web.person.pages import put_on as persons_pages
from thebes.web.site.pages import put_on as sites_pages
from thebes.wire.access import Access
from thebes.wire.refusals import Unreachable

PORT = 8765
ORIGIN = f"http://127.0.0.1:{PORT}"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
TWICE = '{"rows": [], "rows": [], "username": "a", "username": "b"}'


class Door:
    """A server of one role, for whoever may do most there."""

    def __init__(self, app: Any, inner: Any, token: str, origin: str) -> None:
        self.client = TestClient(app, base_url=origin, follow_redirects=False, raise_server_exceptions=False)
        self.headers = {"Authorization": f"Bearer {token}"}
        self.addresses = sorted({context.path for context in iter_route_contexts(inner.routes) if context.path})

    def raw(self, method: str, path: str, host: bytes) -> dict[str, Any]:
        """Return how the answer begins to a path that no client would send; by default at the server's own host."""
        heard: list[Any] = []
        own = self.client.base_url.netloc
        bearer = (b"authorization", self.headers["Authorization"].encode())

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"{}", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            heard.append(message)

        scope = {"type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path}
        scope |= {"raw_path": path.encode(), "root_path": "", "query_string": b"", "client": ("127.0.0.1", 1)}
        scope |= {"headers": [(b"host", host or own), (b"content-type", b"application/json"), bearer]}
        asyncio.run(self.client.app({**scope, "server": ("127.0.0.1", PORT)}, receive, send))
        return heard[0]

    def ask(self, method: str, path: str, **more: Any) -> Any:
        return self.client.request(method, path, headers={**self.headers, **more.pop("headers", {})}, **more)


class Nobody:
    """A link behind which nothing answers: no request here is meant to get so far."""

    name = "north"

    class algorithm:
        @staticmethod
        async def ask(kind: str, **more: Any) -> Any:
            raise Unreachable("the algorithm process", "does not run")

    def shown(self) -> dict[str, Any]:
        return {"name": self.name, "coordinator": "", "state": "", "reason": "", "certificate_ends": None}


@pytest.fixture(scope="module", params=["coordinator", "person", "site"])
def door(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    home = tmp_path_factory.mktemp(request.param) / "home"
    if request.param == "coordinator":
        with Front(home) as front:
            yield Door(front.client.app, front.client.app, front.admin_token, "http://testserver")
    elif request.param == "person":
        with Person(home, client=CoordinatorInMemory(), delay=False) as me:  # type: ignore[arg-type]
            app: Any = persons(me, Access(lambda: "token"), port=PORT, stop=lambda: None, pages=persons_pages)
            yield Door(app, app._app, "token", ORIGIN)
    else:
        app = sites(Nobody(), Access(lambda: "token"), port=PORT, confined=True, pages=sites_pages)  # type: ignore[arg-type]
        yield Door(app, app._app, "token", ORIGIN)


@pytest.mark.slow
def test_a_method_that_is_not_taken_is_refused_with_all_that_are(door: Door) -> None:
    assert len(door.addresses) > 15
    for address in door.addresses:
        path = re.sub(r"\{[^}]*\}", "nothing", address)
        answers = {method: door.ask(method, path) for method in METHODS}
        taken = {method for method, answer in answers.items() if answer.status_code != 405}
        assert taken, address
        for method in set(METHODS) - taken:
            told = answers[method].headers["allow"]
            assert {each.strip() for each in told.split(",")} == taken, (address, method, told)


@pytest.mark.parametrize(
    "path",
    ["//evil.example/", "//evil.example/api/task/", "/\\evil.example/", "/\\/evil.example/", "///evil.example//",
     "//evil.example/..", "/;//evil.example/", "/\t/evil.example/", "//evil.example"],
)  # fmt: skip
@pytest.mark.parametrize("host", [b"", b"evil.example"])
def test_nobody_is_sent_on_to_another_host(door: Door, path: str, host: bytes) -> None:
    for method in ("GET", "POST", "HEAD"):
        answer = door.raw(method, path, host)
        assert b"location" not in dict(answer["headers"])
        assert answer["status"] >= 400


@pytest.mark.few(1)
def test_no_address_is_another_with_a_slash_more_or_less(door: Door) -> None:
    for address in door.addresses:
        path = re.sub(r"\{[^}]*\}", "nothing", address)
        other = path.rstrip("/") if path.endswith("/") and path != "/" else f"{path}/"
        if other in ("//", "/static"):
            continue
        for host in ({}, {"Host": "evil.example"}):
            answer = door.ask("GET", other, headers=host)
            assert answer.status_code in (404, 421), (other, answer.status_code)
            assert "location" not in answer.headers


@pytest.mark.slow
def test_a_name_given_twice_is_refused_wherever_json_is_read(door: Door) -> None:
    tried = 0
    origin = str(door.client.base_url)
    for address in door.addresses:
        path = re.sub(r"\{[^}]*\}", "nothing", address)
        for method in ("POST", "PUT"):
            kind = {"Content-Type": "application/json", "Origin": origin, "Sec-Fetch-Site": "same-origin"}
            plain = door.ask(method, path, headers=kind, content="{")
            if plain.status_code != 400:
                continue  # it reads no JSON, or not before it knows what it is for
            tried += 1
            for wrong, says in ((TWICE, "ames 'rows' twice"), ('{"a": NaN}', "NaN is not a number of JSON")):
                answer = door.ask(method, path, headers=kind, content=wrong)
                assert (answer.status_code, says in answer.text.replace("&#39;", "'")) == (400, True), (
                    path,
                    answer.text[:9000],
                )
    assert tried >= 2, tried


def test_a_submission_gives_no_name_twice(tmp_path: Path) -> None:
    from tests.support.coordinator import AGES

    with Front(tmp_path / "home") as front:
        task = front.post(AGES)
        whole = json.dumps(front.submission(task, {"age": 41}))
        for twice in (whole.replace('"age": 41', '"age": 41, "age": 42'), whole[:-1] + ', "part": "0"}'):
            answer = front.client.post(
                f"/api/task/{task}/submit", content=twice, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 400
            assert "twice" in answer.json()["detail"]
        assert front.task(task)["contributions"] == 0
