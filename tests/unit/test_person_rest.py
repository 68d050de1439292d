"""The person's REST interface as the contract says it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.coordinator_in_memory import CoordinatorInMemory
from thebes.person.home import Person
from thebes.person.rest import guarded
from thebes.simulation import example
from thebes.web.person.pages import put_on
from thebes.wire.access import Access, make_token, read_secret
from thebes.wire.problems import MEDIA_TYPE

PORT = 8766
URL = f"http://127.0.0.1:{PORT}"
MEDIAN = {
    "type": "basic",
    "epsilon": 1.0,
    "delta": 1e-5,
    "min_count": 20,
    "featurizer": "SELECT age FROM profile.demographics",
    "aggregator": "median",
    "bounds": {"age": {"type": "range", "low": 0.0, "high": 100.0}},
}
DIARY = {
    "tables": {"entry": {"description": "days", "columns": {"mood": {"type": "integer", "description": "1 to 5"}}}}
}


class Client:
    """Requests to the application itself, without a socket."""

    def __init__(self, app: Any, headers: dict[str, str]) -> None:
        self._app, self._headers = app, headers

    def ask(self, method: str, path: str, headers: Any = None, **more: Any) -> httpx.Response:
        async def once() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._app)
            async with httpx.AsyncClient(transport=transport, base_url=URL, headers=self._headers) as client:
                return await client.request(method, path, headers=headers, **more)

        return asyncio.run(once())

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("GET", path, **more)

    def post(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("POST", path, **more)

    def put(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("PUT", path, **more)

    def delete(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("DELETE", path, **more)


class World:
    def __init__(self, home: Path, *, filled: bool = True) -> None:
        self.server = CoordinatorInMemory()
        self.me = Person(home, client=self.server, delay=False)  # type: ignore[arg-type]
        if filled:
            example.fill(self.me, seed=4)
        make_token(home)
        self.stopped: list[bool] = []
        self.app: Any = guarded(self.me, Access(home), port=PORT, stop=lambda: self.stopped.append(True), pages=put_on)
        self.headers = {"Authorization": f"Bearer {read_secret(home / 'token')}"}
        self.http = Client(self.app, self.headers)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home")
    yield made
    made.me.close()


def problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith(MEDIA_TYPE)
    body = dict(answer.json())
    assert body["status"] == status
    return body


def test_a_collector_registers_inserts_and_is_seen_in_the_store(world: World) -> None:
    assert world.http.post("/app/diary/register", json=DIARY).json() == {"app": "diary", "version": 1}
    assert world.http.post("/app/diary/register", json=DIARY["tables"]).status_code == 200  # the bare form
    added = world.http.post("/app/diary/insert", json={"table": "entry", "rows": [{"mood": 3}, {"mood": 4}]})
    assert added.json() == {"inserted": 2}
    described = next(c for c in world.http.get("/api/store").json() if c["name"] == "diary")
    assert (described["tables"][0]["name"], described["tables"][0]["rows"]) == ("entry", 2)
    assert world.http.get("/api/store/diary/entry?count=1").json() == [{"mood": 4}]
    assert world.http.post("/api/store/diary/remove", json={"keep_data": False}).status_code == 204
    assert "diary" not in [c["name"] for c in world.http.get("/api/store").json()]


def test_a_wrong_row_is_named_and_nothing_is_stored(world: World) -> None:
    world.http.post("/app/diary/register", json=DIARY)
    rows = [{"mood": 3}, {"mood": "secret"}]
    body = problem(world.http.post("/app/diary/insert", json={"table": "entry", "rows": rows}), 422)
    assert "1" in body["field"]
    assert "mood" in body["field"]
    assert "secret" not in str(body)
    described = next(c for c in world.http.get("/api/store").json() if c["name"] == "diary")
    assert described["tables"][0]["rows"] == 0


def test_tasks_preview_accept_and_ledger(world: World) -> None:
    task = world.server.post(MEDIAN)
    offered = world.http.get("/api/tasks").json()
    assert [t["task_id"] for t in offered] == [task]
    assert offered[0]["price"] == {"epsilon": 1.0, "delta": 1e-5, "unit": "device"}
    assert "Nothing leaves before you agree." in offered[0]["explanation"]
    assert len(world.http.get(f"/api/tasks/{task}/preview").json()["rows"]) == 1
    assert world.http.post(f"/api/tasks/{task}/accept", json={}).status_code == 202
    problem(world.http.post(f"/api/tasks/{task}/accept", json={}), 409)
    world.me.wait(task)
    problem(world.http.post(f"/api/tasks/{task}/accept", json={}), 409)
    ledger = world.http.get("/api/ledger").json()
    assert ledger["trusted"]["overall"]["spent"] == {"epsilon": 1.0, "delta": 1e-5}
    assert [(e["task_id"], e["requestor"], e["spent"]["epsilon"]) for e in ledger["entries"]] == [(task, "ana", 1.0)]
    assert world.http.post(f"/api/tasks/{task}/withdraw", json={}).json()["state"] == "withdrawn"
    assert world.http.get("/api/participations").json()[0]["state"] == "withdrawn"
    assert world.http.get(f"/api/tasks/{task}").json()["participations"][0]["number"] == 0


def test_an_empty_body_is_enough_where_nothing_is_said(world: World) -> None:
    task = world.server.post(MEDIAN)
    answer = world.http.post(f"/api/tasks/{task}/decline", headers={"Content-Type": "application/json"})
    assert answer.json()["state"] == "declined"


def test_beyond_the_budget_is_402_with_what_is_left(world: World) -> None:
    assert world.http.put("/api/settings", json={"trusted": {"epsilon": 0.5}}).json()["trusted"]["epsilon"] == 0.5
    body = problem(world.http.post(f"/api/tasks/{world.server.post(MEDIAN)}/accept", json={}), 402)
    assert float(body["remaining"]["epsilon"]) == 0.5
    assert float(body["requested"]["epsilon"]) == 1.0


def test_unknown_closed_and_unreachable_have_their_statuses(world: World) -> None:
    problem(world.http.post("/api/tasks/unknown/accept", json={}), 404)
    problem(world.http.post("/api/tasks/unknown/withdraw", json={}), 404)
    problem(world.http.get("/api/tasks/a b"), 422)
    problem(world.http.get("/nothing"), 404)
    problem(world.http.delete("/api/rules", headers={"Content-Type": "application/json"}), 405)
    task = world.server.post(MEDIAN)
    world.server.end(task, "done")
    problem(world.http.post(f"/api/tasks/{task}/accept", json={}), 410)
    problem(world.http.put("/api/settings", json={"local": {"epsilon": -1}}), 422)
    problem(world.http.put("/api/settings", json={"coordinator": "http://evil.example"}), 422)
    problem(world.http.put("/api/rules", json={"rules": [{"type": "basic", "age": 5}]}), 422)
    problem(world.http.put("/api/rules", json=[]), 422)


def test_rules_travel_there_and_back(world: World) -> None:
    rules = [{"type": "basic", "epsilon_at_most": 0.1, "epsilon_per_week": 0.1, "probability": 0.5}]
    assert world.http.put("/api/rules", json={"rules": rules}).json() == {"rules": rules}
    assert world.http.get("/api/rules").json() == {"rules": rules}


def test_everything_can_be_taken_along_and_deleted(world: World) -> None:
    task = world.server.post(MEDIAN)
    world.me.accept(task)
    world.me.wait(task)
    taken = world.http.get("/api/export").json()
    assert taken["store"]["collectors"]["profile"]["tables"]["demographics"]["rows"]
    assert taken["participations"][0]["task_id"] == task
    assert taken["journal"][0]["event"] == "begin"
    problem(world.http.post("/api/destroy", json={}), 422)
    assert world.http.post("/api/destroy", json={"confirm": "destroy everything"}).json() == {"destroyed": True}
    assert list(world.me.home.iterdir()) == []


def test_the_page_shows_nothing_without_a_session(world: World) -> None:
    stranger = Client(world.app, {})
    assert stranger.get("/").status_code == 401
    path = world.http.post("/api/session", json={}).json()["url"].removeprefix(URL)
    opened = stranger.get(path)
    assert opened.status_code == 303
    cookie = {"Cookie": opened.headers["set-cookie"].partition(";")[0]}
    assert stranger.get("/", headers=cookie).status_code == 200
    assert stranger.get(path).status_code == 401


def test_a_strangers_words_are_text_on_the_page(world: World) -> None:
    task = world.server.post({**MEDIAN, "name": "<script>alert(1)</script>"})
    world.me.decline(task)
    page = world.http.get("/accepted").text
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
