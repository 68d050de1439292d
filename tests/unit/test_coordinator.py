"""The coordinator's rules over its whole interface, with a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.support.coordinator import AGES, PETS, Front, HandClock
from thebes.coordinator.auth.accounts import Role
from thebes.coordinator.people.contribution_check import Sent
from thebes.coordinator.storage.database import StoreUnavailable
from thebes.coordinator.tasks.phase_end import setting
from thebes.tasks import registry
from thebes.wire import frames, task_log
from thebes.wire.problems import MEDIA_TYPE, from_problem
from thebes.wire.refusals import BrokenLog

SOON = "2030-01-01T13:00:00+00:00"  # an hour after the clock's start


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "home") as opened:
        yield opened


def field_of(answer: httpx.Response) -> str:
    assert answer.headers["content-type"] == MEDIA_TYPE
    return answer.json()["field"]


# --- the life of a task ---------------------------------------------------------------------------------


def test_a_task_is_open_then_running_then_done(front: Front) -> None:
    task_id = front.post(AGES)
    assert front.task(task_id)["status"] == "open"
    front.fill(task_id, 12, {"age": 40})
    assert front.task(task_id)["status"] == "running"
    assert front.looks == 1
    front.closing.step()
    done = front.task(task_id)
    assert done["status"] == "done"
    assert 0 <= done["result"]["value"] <= 120
    assert done["result"]["certificate"]["contributors"] == 12
    assert done["result"]["certificate"]["unit"] == "device"
    assert front.task(task_id) == done


def test_the_list_shows_open_tasks_with_what_a_person_needs(front: Front) -> None:
    task_id = front.post(AGES)
    front.fill(task_id, 3, {"age": 40})
    (shown,) = front.client.get("/api/task").json()
    checked = registry.check(AGES)
    assert shown["task_id"] == task_id
    assert shown["digest"] == checked.digest
    assert shown["document"] == checked.as_json()
    assert shown["explanation"] == registry.kind("basic").explain(checked)
    assert shown["price"] == {"epsilon": 1.0, "delta": 0.0, "unit": "device"}
    assert (shown["contributions"], shown["min_count"], shown["type"], shown["status"]) == (3, 12, "basic", "open")


def test_max_count_keeps_a_phase_open_until_then(front: Front) -> None:
    task_id = front.post({**AGES, "max_count": 14})
    front.fill(task_id, 13, {"age": 40})
    front.closing.step()
    assert front.task(task_id)["status"] == "open"
    front.fill(task_id, 1, {"age": 40})
    front.closing.step()
    assert front.task(task_id)["result"]["certificate"]["contributors"] == 14


def test_at_the_deadline_enough_is_enough(front: Front) -> None:
    task_id = front.post({**AGES, "max_count": 20, "expires_at": SOON})
    front.fill(task_id, 13, {"age": 40})
    front.clock.move(hours=1)
    front.closing.step()
    found = front.task(task_id)
    assert (found["status"], found["result"]["certificate"]["contributors"]) == ("done", 13)


def test_at_the_deadline_too_few_release_nothing(front: Front) -> None:
    task_id = front.post({**AGES, "expires_at": SOON})
    front.fill(task_id, 11, {"age": 40})
    front.clock.move(hours=1)
    front.closing.step()
    assert (front.task(task_id)["status"], front.task(task_id)["result"]) == ("expired", None)
    assert not list((front.home.folder / "keys").iterdir())


def test_nothing_is_taken_after_the_deadline_even_before_the_worker_looks(front: Front) -> None:
    task_id = front.post({**AGES, "expires_at": SOON})
    body = front.submission(task_id, {"age": 40})
    front.clock.move(hours=1)
    assert front.submit(task_id, body).status_code == 410
    assert front.client.get(f"/api/task/{task_id}/ask", params={"slot": "s"}).status_code == 410


def test_several_phases_follow_each_other(front: Front) -> None:
    task_id = front.post({**gradient(), "rounds": 2})
    first = front.ask(task_id)
    front.fill(task_id, 12, report(task_id, front))
    assert front.client.get(f"/api/task/{task_id}/ask", params={"slot": "s"}).json() == {"wait": 1.0}
    front.closing.step()
    second = front.ask(task_id)
    assert (first["part"], second["part"], second["phase"]) == ("phase-0", "phase-1", 1)
    assert front.task(task_id)["result"] is None
    late = {**front.submission(task_id, report(task_id, front)), "part": "phase-0", "ask_id": first["ask_id"]}
    assert front.submit(task_id, late).status_code == 410
    front.fill(task_id, 12, report(task_id, front))
    front.closing.step()
    done = front.task(task_id)
    assert done["status"] == "done"
    assert done["result"]["certificate"]["contributors"] == 24


def gradient() -> dict[str, Any]:
    torch = pytest.importorskip("torch")
    from thebes.torch import encode

    model, loss = encode(torch.nn.Linear(2, 1), torch.nn.MSELoss())
    return {
        "type": "gradient",
        "epsilon": 4.0,
        "server": "untrusted",
        "min_count": 12,
        "featurizer": "SELECT x0, x1, y FROM profile.example",
        "inputs": ["x0", "x1"],
        "outputs": ["y"],
        "clip": 1.0,
        "model": model,
        "loss": loss,
    }


def report(task_id: str, front: Front) -> dict[str, Any]:
    """A report in the domain, whatever it says: the largest number everywhere."""
    layout = registry.aggregator(registry.check(front.task(task_id)["document"]), setting()).layout("phase-0")
    return {
        name: base64.b64encode(np.full(slot.length, slot.high, dtype="<f4").tobytes()).decode()
        for name, slot in layout.items()
    }


def test_a_computation_that_cannot_end_fails_the_task_and_says_nothing_of_the_data(
    front: Front, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from thebes.tasks.basic.aggregator import BasicAggregator

    def broken(self: Any) -> None:
        raise ValueError(f"cannot use {self.columns()}")

    monkeypatch.setattr(BasicAggregator, "conclude", broken)
    task_id = front.post(AGES)
    front.fill(task_id, 12, {"age": 77.125})
    with caplog.at_level(logging.DEBUG):
        front.closing.step()
    assert (front.task(task_id)["status"], front.task(task_id)["result"]) == ("failed", None)
    assert "ValueError" in caplog.text
    assert "77.125" not in caplog.text
    assert not list((front.home.folder / "keys").iterdir())


# --- putting tasks up -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"min_count": 10}, "min_count"),
        ({"group": "friends"}, "group"),
        ({"group": "friends", "anonymity": "token"}, "group"),
        ({"expires_at": "2029-01-01T00:00:00+00:00"}, "expires_at"),
        ({"aggregator": "guess"}, "aggregator"),
        ({"surprise": 1}, "surprise"),
        ({"type": "unknown"}, "type"),
        ({"epsilon": 0}, "epsilon"),
        ({"server": "split", "bins": 10}, "helper"),
    ],
)
def test_a_document_that_cannot_work_here_is_refused_by_field(front: Front, change: dict, field: str) -> None:
    for path in ("/api/task", "/api/quote"):
        answer = front.client.post(path, json={**AGES, **change}, headers=front.admin)
        assert answer.status_code == 422
        assert field_of(answer) == field
    assert front.client.get("/api/task").json() == []
    assert not list((front.home.folder / "keys").iterdir())


def test_the_operator_may_lower_the_floor(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "coordinator.toml").write_text("min_count_floor = 3\n")
    with Front(home) as front:
        task_id = front.post({**AGES, "min_count": 3})
        front.fill(task_id, 3, {"age": 40})
        front.closing.step()
        assert front.task(task_id)["status"] == "done"


def test_an_operator_may_require_that_people_are_told_who_asks_and_what_for(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "coordinator.toml").write_text("require_purpose = true\n")
    said = {"purpose": "To plan.", "contact": "ana@example.org", "expires_at": SOON}
    with Front(home) as front:
        front.post({**AGES, **said})
        for missing in said:
            document = {**AGES, **{field: value for field, value in said.items() if field != missing}}
            answer = front.client.post("/api/task", json=document, headers=front.admin)
            assert answer.status_code == 422
            assert field_of(answer) == missing


def test_a_quote_costs_and_changes_nothing(front: Front) -> None:
    answer = front.client.post("/api/quote", json={**AGES, "expires_at": SOON})
    assert answer.json() == {"price": {"epsilon": 1.0, "delta": 0.0, "unit": "device"}, "expires_at": SOON}
    assert front.client.get("/api/task").json() == []


def test_every_task_stands_in_the_signed_list_and_a_changed_list_is_noticed(front: Front) -> None:
    tasks = [front.post(AGES), front.post(PETS), front.post(AGES)]
    body = front.client.get("/api/log").json()
    seen = task_log.verify(body)
    assert [entry.task_id for entry in seen.entries] == tasks
    assert seen.holds(tasks[1], registry.check(PETS).digest)
    later = front.client.get("/api/log", params={"after": 2}).json()
    assert [entry["index"] for entry in later["entries"]] == [2]
    for change in (
        {"entries": body["entries"][:2]},
        {"entries": body["entries"][::-1]},
        {"head": "0" * 64},
        {"signature": body["signature"][::-1]},
    ):
        with pytest.raises(BrokenLog):
            task_log.verify({**body, **change}, key=seen.key)


def test_cancelling_is_for_the_requestor_and_operators(front: Front) -> None:
    for name in ("ana", "ben"):
        front.service.accounts.add(name, "a long password", Role.REQUESTOR)
    ana, ben = (signed_in(front, name) for name in ("ana", "ben"))
    task_id = front.client.post("/api/task", json=AGES, headers=ana).json()["task_id"]
    other = front.client.post("/api/task", json=AGES, headers=ana).json()["task_id"]
    assert front.client.delete(f"/api/task/{task_id}").status_code == 401
    assert front.client.delete(f"/api/task/{task_id}", headers=ben).status_code == 403
    assert front.client.delete(f"/api/task/{task_id}", headers=ana).status_code == 204
    assert front.client.delete(f"/api/task/{other}", headers=front.admin).status_code == 204
    assert front.task(task_id)["status"] == "cancelled"
    assert front.client.get("/api/task").json() == []
    assert not list((front.home.folder / "keys").iterdir())


def test_who_asks_to_wait_for_a_task_is_answered_when_its_status_changes(front: Front) -> None:
    task_id = front.post(AGES)
    assert front.client.get(f"/api/task/{task_id}", params={"wait": 0.01}).json()["status"] == "open"
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(front.client.get, f"/api/task/{task_id}", params={"wait": 30})
        front.client.delete(f"/api/task/{task_id}", headers=front.admin)
        assert answer.result(20).json()["status"] == "cancelled"
    assert front.client.get(f"/api/task/{task_id}", params={"wait": 30}).json()["status"] == "cancelled"


@pytest.mark.parametrize("wait", ["31", "-1", "nan", "soon"])
def test_nobody_waits_longer_than_half_a_minute(front: Front, wait: str) -> None:
    answer = front.client.get(f"/api/task/{front.post(AGES)}", params={"wait": wait})
    assert (answer.status_code, field_of(answer)) == (422, "wait")


def test_a_done_task_is_not_cancelled(front: Front) -> None:
    task_id = front.post(PETS)
    front.fill(task_id, 12, {"species": 0})
    front.closing.step()
    assert front.client.delete(f"/api/task/{task_id}", headers=front.admin).status_code == 409
    assert front.task(task_id)["result"] is not None


# --- contributions --------------------------------------------------------------------------------------


def test_the_same_again_gives_the_same_receipt_and_another_body_a_conflict(front: Front) -> None:
    task_id = front.post(AGES)
    body = front.submission(task_id, {"age": 40})
    first = front.submit(task_id, body)
    spelled = json.dumps(body, indent=3).encode()
    again = front.client.post(
        f"/api/task/{task_id}/submit", content=spelled, headers={"Content-Type": "application/json; charset=utf-8"}
    )
    framed = frames.write(frames.split(body))
    as_frame = front.client.post(
        f"/api/task/{task_id}/submit", content=framed, headers={"Content-Type": frames.MEDIA_TYPE}
    )
    assert [a.status_code for a in (first, again, as_frame)] == [202, 202, 202]
    assert first.json() == again.json() == as_frame.json()
    for number in ("40.0", "4e1", "40.00"):
        spelled = json.dumps(body).replace('"age": 40', f'"age": {number}').encode()
        again = front.client.post(
            f"/api/task/{task_id}/submit", content=spelled, headers={"Content-Type": "application/json"}
        )
        assert (again.status_code, again.json()) == (202, first.json())
    assert front.submit(task_id, {**body, "payload": {"age": 41}}).status_code == 409
    assert front.submit(task_id, body).json() == first.json()
    assert front.task(task_id)["contributions"] == 1


def test_a_hundred_copies_at_once_are_one_contribution(front: Front) -> None:
    task_id = front.post(AGES)
    body = front.submission(task_id, {"age": 40})
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: front.submit(task_id, body), range(100)))
    assert {a.status_code for a in answers} == {202}
    assert len({a.json()["receipt"] for a in answers}) == 1
    assert front.task(task_id)["contributions"] == 1


def test_good_and_bad_submissions_that_come_together_are_each_told_their_own(front: Front) -> None:
    task_id = front.post({**AGES, "min_count": 1000})
    body = front.submission(task_id, {"age": 40})
    kinds = [({"age": 40}, 202), ({"age": "forty"}, 422), ({"age": 41}, 202), ({}, 422)] * 20

    def send(kind: tuple[dict, int]) -> bool:
        sent = {**body, "contributor": secrets.token_hex(8), "payload": kind[0]}
        return front.submit(task_id, sent).status_code == kind[1]

    with ThreadPoolExecutor(20) as pool:
        assert all(pool.map(send, kinds))
    assert front.task(task_id)["contributions"] == 40


def test_a_repeat_of_an_untrusted_contribution_is_known_even_when_the_task_is_done(front: Front) -> None:
    task_id = front.post(PETS)
    body = front.submission(task_id, {"species": 1})
    first = front.submit(task_id, body)
    front.fill(task_id, 11, {"species": 0})
    front.closing.step()
    assert front.submit(task_id, body).json() == first.json()
    assert front.submit(task_id, {**body, "payload": {"species": 0}}).status_code == 409
    assert front.submit(task_id, {**body, "contributor": "somebody-else"}).status_code == 410


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"payload": {"age": "secret-4711"}}, 422, "payload.age"),
        ({"payload": {"age": 1e999}}, 422, "payload.age"),
        ({"payload": {"age": True}}, 422, "payload.age"),
        ({"payload": {"age": [40]}}, 422, "payload.age"),
        ({"payload": {}}, 422, "payload.age"),
        ({"payload": {"age": 40, "secret-4711": 1}}, 422, "payload.secret-4711"),
        ({"payload": "secret-4711"}, 422, "payload"),
        ({"payload": None}, 422, "payload"),
        ({"ask_id": "forged"}, 422, "ask_id"),
        ({"part": "phase-7"}, 422, "part"),
        ({"part": ""}, 422, "part"),
        ({"contributor": ""}, 422, "contributor"),
        ({"contributor": "a\u0000b"}, 422, "contributor"),
        ({"contributor": "x" * 201}, 422, "contributor"),
        ({"contributor": 7}, 422, "contributor"),
        ({"token": "abc"}, 422, "token"),
        ({"surprise": 1}, 422, "surprise"),
    ],
)
def test_what_is_wrong_with_a_submission_is_named_and_nothing_is_taken(
    front: Front, change: dict, status: int, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    task_id = front.post(AGES)
    body = {**front.submission(task_id, {"age": 40}), **change}
    with caplog.at_level(logging.DEBUG, logger="thebes"):
        answer = front.client.post(
            f"/api/task/{task_id}/submit",
            content=json.dumps(body).replace("Infinity", "1e999"),
            headers={"Content-Type": "application/json"},
        )
    assert (answer.status_code, field_of(answer)) == (status, field)
    assert "secret" not in caplog.text
    assert "secret-4711" not in answer.text.replace("payload.secret-4711", "")
    assert front.task(task_id)["contributions"] == 0


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b"[]", "application/json", 422),
        (b"\xff\xfe", "application/json", 400),
        (b"{}" * 3, "application/json", 400),
        (b'{"payload": ' + b"[" * 100_000, "application/json", 413),
        (b'{"payload": ' + b"[" * 10_000, "application/json", 400),
        (b'{"ask_id": "\\ud800"}', "application/json", 400),
        (b"THBFRAME", frames.MEDIA_TYPE, 400),
        (b"a=b", "application/x-www-form-urlencoded", 415),
        (b"{}", "text/plain", 415),
    ],
)
def test_a_message_that_cannot_be_read_is_refused(front: Front, content: bytes, kind: str, status: int) -> None:
    task_id = front.post(AGES)
    answer = front.client.post(f"/api/task/{task_id}/submit", content=content, headers={"Content-Type": kind})
    assert answer.status_code == status
    assert answer.headers["content-type"] == MEDIA_TYPE


def test_a_submission_replayed_to_another_task_is_refused(front: Front) -> None:
    one, other = front.post(AGES), front.post({**AGES, "epsilon": 2.0})
    body = front.submission(one, {"age": 40})
    assert front.submit(one, body).status_code == 202
    answer = front.submit(other, body)
    assert (answer.status_code, field_of(answer)) == (422, "ask_id")


def test_every_ask_of_a_slot_is_the_same(front: Front) -> None:
    task_id = front.post(AGES)
    assert front.ask(task_id) == front.ask(task_id)
    missing = front.client.get(f"/api/task/{task_id}/ask")
    assert (missing.status_code, field_of(missing)) == (422, "slot")


def test_an_ask_comes_as_a_frame_where_one_is_wanted(front: Front) -> None:
    task_id = front.post(AGES)
    answer = front.client.get(
        f"/api/task/{task_id}/ask", params={"slot": "s"}, headers={"Accept": f"{frames.MEDIA_TYPE}, application/json"}
    )
    kind = answer.headers["content-type"]
    body = frames.decode(answer.content) if kind == frames.MEDIA_TYPE else answer.json()
    assert body == front.ask(task_id)


def test_a_contribution_is_withdrawn_with_its_receipt_until_its_phase_closes(front: Front) -> None:
    task_id = front.post(AGES)
    body = front.submission(task_id, {"age": 40})
    receipt = front.submit(task_id, body).json()["receipt"]
    kept = front.fill(task_id, 1, {"age": 40})[0]
    path = f"/api/task/{task_id}/submit"
    assert front.client.delete(path, params={"receipt": "unknown"}).status_code == 404
    assert front.client.delete(path, params={"receipt": receipt}).status_code == 204
    assert front.client.delete(path, params={"receipt": receipt}).status_code == 204
    assert front.submit(task_id, body).status_code == 410
    assert front.task(task_id)["contributions"] == 1
    front.fill(task_id, 11, {"age": 40})
    assert front.client.delete(path, params={"receipt": kept}).status_code == 410
    front.closing.step()
    assert front.task(task_id)["result"]["certificate"]["contributors"] == 12


def test_unknown_tasks_are_not_found_everywhere(front: Front) -> None:
    for method, path in (
        ("GET", "/api/task/nothing"),
        ("GET", "/api/task/nothing/ask?slot=s"),
        ("DELETE", "/api/task/nothing/submit?receipt=r"),
        ("DELETE", "/api/task/nothing"),
    ):
        assert front.client.request(method, path, headers=front.admin).status_code == 404
    body = {"ask_id": "a", "part": "p", "contributor": "c", "payload": {}}
    assert front.submit("nothing", body).status_code == 404


def test_a_contribution_longer_than_any_is_not_read(front: Front) -> None:
    task_id = front.post(AGES)
    body = {**front.submission(task_id, {"age": 40}), "payload": {"age": "x" * 100_000}}
    assert front.submit(task_id, body).status_code == 413


def test_a_body_over_the_limit_is_refused_however_it_is_sent(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "coordinator.toml").write_text("largest_body = 2000\n")
    with Front(tmp_path / "home") as front:
        large = json.dumps({**AGES, "purpose": "x" * 1900}).encode()
        headers = {**front.admin, "Content-Type": "application/json"}
        for content in (large, iter([large[:1000], large[1000:]])):
            answer = front.client.post("/api/task", content=content, headers=headers)
            assert answer.status_code == 413


# --- who may do what ------------------------------------------------------------------------------------


def signed_in(front: Front, name: str) -> dict[str, str]:
    answer = front.client.post("/api/login", json={"username": name, "password": "a long password"})
    assert answer.status_code == 200, answer.text
    return {"Authorization": f"Bearer {answer.json()['token']}"}


def test_roles_allow_what_they_say(front: Front) -> None:
    for name in ("requestor", "operator", "auditor"):
        front.service.accounts.add(name, "a long password", Role(name))
    schema = {"app": "profile", "tables": {"t": {"description": "d", "columns": {"c": {"type": "float"}}}}}
    allowed = {"requestor": (201, 403), "operator": (201, 201), "auditor": (403, 403)}
    for name, statuses in allowed.items():
        headers = signed_in(front, name)
        answers = [
            front.client.post("/api/task", json=AGES, headers=headers),
            front.client.post("/api/schema", json=schema, headers=headers),
        ]
        assert tuple(a.status_code for a in answers) == statuses
    assert front.client.get("/api/schema").json()["profile"]["tables"]["t"]["columns"]["c"]["type"] == "float"


@pytest.mark.parametrize("header", [None, "Bearer ", "Bearer wrong", "Basic YTpi", "Bearer \xe9"])
def test_without_a_good_token_nothing_is_put_up(front: Front, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    answer = front.client.post("/api/task", json=AGES, headers=headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert front.client.get("/api/task").json() == []


def test_two_tokens_in_one_request_are_refused(front: Front) -> None:
    headers = [("Authorization", "Bearer a"), ("Authorization", front.admin["Authorization"])]
    assert front.client.post("/api/task", json=AGES, headers=headers).status_code == 400


@pytest.mark.slow
def test_a_wrong_password_and_an_unknown_name_are_told_the_same(front: Front) -> None:
    front.service.accounts.add("ana", "a long password", Role.REQUESTOR)
    wrong = front.client.post("/api/login", json={"username": "ana", "password": "wrong"})
    unknown = front.client.post("/api/login", json={"username": "nobody", "password": "wrong"})
    assert wrong.status_code == unknown.status_code == 401
    assert wrong.json() == unknown.json()


# --- everything else ------------------------------------------------------------------------------------


def test_figures_are_counts_only(front: Front) -> None:
    task_id = front.post(AGES)
    front.fill(task_id, 2, {"age": 63.5})
    text = front.client.get("/metrics").text
    assert 'thebes_tasks{status="open"} 1.0' in text
    assert "thebes_submissions_total 2.0" in text
    assert task_id not in text
    assert "63.5" not in text


def test_the_page_shows_what_requestors_wrote_as_plain_text(front: Front) -> None:
    front.post({**AGES, "name": "<script>alert(1)</script>\u202e"})
    answer = front.client.get("/")
    assert "<script>" not in answer.text
    assert "\u202e" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_there_are_no_sites_yet_and_no_interactive_pages(front: Front) -> None:
    assert front.client.get("/api/site").json() == []
    for path in ("/api/health", "/api/live", "/api/ready"):
        assert front.client.get(path).json() == {"status": "ok"}
    for path in ("/docs", "/redoc", "/api/group/friends"):
        answer = front.client.get(path)
        assert answer.status_code == 404
        assert type(from_problem(404, answer.json())).__name__ == "NotFound"


def test_a_fault_tells_a_stranger_and_the_log_nothing_of_what_was_sent(
    front: Front, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(deliveries: object) -> None:
        raise RuntimeError("value 4711.25")

    task_id = front.post(AGES)
    body = front.submission(task_id, {"age": 47.1125})
    monkeypatch.setattr(front.service.store, "take", broken)
    with caplog.at_level(logging.DEBUG):
        answer = front.submit(task_id, body)
    assert answer.status_code == 500
    assert "RuntimeError" in caplog.text
    for said in (caplog.text, answer.text):
        assert "4711.25" not in said
        assert "47.1125" not in said


def test_a_database_that_does_not_answer_is_said_and_survived(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*asked: object, **values: object) -> None:
        raise StoreUnavailable("gone")

    task_id = front.post(AGES)
    addresses = ("/api/task", f"/api/task/{task_id}", f"/api/task/{task_id}/ask?slot=test", "/api/group")
    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(front.database, "read", away)
            patched.setattr(front.database, "quick", away)
            assert {front.client.get(address).status_code for address in addresses} == {503}
        assert {front.client.get(address).status_code for address in addresses} == {200}


def test_whoever_comes_to_a_long_queue_is_told_when_to_come_again_and_nothing_is_lost(front: Front) -> None:
    task_id, moment = front.post({**AGES, "min_count": 1000}), [0.0]
    body = front.submission(task_id, {"age": 40})
    intake, contributions = front.service._intake, front.service.contributions
    intake._clock = lambda: moment[0]
    free = threading.Event()

    async def crowd() -> list[str]:
        """One transaction that takes a minute, and behind it more than fit into the next."""
        first = asyncio.ensure_future(contributions.submit(task_id, sent()))
        await asyncio.sleep(0)
        moment[0] += 60.0
        await first
        intake.writer.submit(free.wait)
        rest = [asyncio.ensure_future(contributions.submit(task_id, sent())) for _ in range(300)]
        while len(intake._waiting) < 299:
            await asyncio.sleep(0)
        try:
            late = asyncio.to_thread(front.submit, task_id, {**body, "contributor": "late"})
            told.append(await asyncio.wait_for(late, 60))
            told.append(await asyncio.to_thread(front.client.get, "/api/health"))
        finally:
            free.set()
        return await asyncio.gather(*rest)

    def sent() -> Sent:
        return Sent(body["ask_id"], body["part"], {"age": 40}, secrets.token_hex(16))

    told: list[httpx.Response] = []
    assert front.client.portal is not None
    receipts = front.client.portal.call(crowd)
    late, health = told
    assert health.status_code == 200
    assert late.status_code == 429
    assert late.json()["error"] == "Busy"
    seconds = late.json()["seconds"]  # for two transactions, of which one took twelve lately
    assert int(late.headers["retry-after"]) >= seconds >= 24
    assert len({*receipts}) == 300
    assert front.task(task_id)["contributions"] == 301  # everybody who was given a receipt, and nobody else
    assert front.submit(task_id, {**body, "contributor": "late"}).status_code == 202


def test_lists_polls_and_asks_wait_for_no_thread(front: Front) -> None:
    task_id = front.post(AGES)
    addresses = ("/api/task", f"/api/task/{task_id}", f"/api/task/{task_id}/ask?slot=test")
    before = [front.client.get(address).json() for address in addresses]
    free = threading.Event()
    busy = [front.service._readers.submit(free.wait) for _ in range(8)]
    try:
        assert [front.client.get(address).json() for address in addresses] == before
        assert not any(each.done() for each in busy)
    finally:
        free.set()


def test_a_task_that_ended_elsewhere_is_forgotten_here(tmp_path: Path) -> None:
    with Front(tmp_path / "home") as front:
        task_id = front.post(AGES)
        front.fill(task_id, 1, {"age": 40})
        assert front.client.portal is not None
        front.service.store.cancel(task_id)
        front.client.portal.call(front.service.contributions.forget_ended)
        assert not front.service.contributions._phases


def test_another_process_in_the_same_home_goes_on_with_what_the_first_began(tmp_path: Path) -> None:
    clock = HandClock()
    with Front(tmp_path / "home", clock=clock) as first:
        task_id = first.post(AGES)
        body = first.submission(task_id, {"age": 40})
        receipt = first.submit(task_id, body).json()
        with Front(tmp_path / "home", clock=clock) as second:
            assert second.admin_token == first.admin_token
            assert second.submit(task_id, body).json() == receipt
            for count in range(2, 12):  # what one process has written, the other one says at once
                second.fill(task_id, 1, {"age": 40})
                assert first.task(task_id)["contributions"] == count
                assert [task["contributions"] for task in first.client.get("/api/task").json()] == [count]
            second.fill(task_id, 1, {"age": 40})
            assert first.task(task_id)["status"] == "running"
            second.closing.step()
            assert first.client.get(f"/api/task/{task_id}/ask", params={"slot": "late"}).status_code == 410
        assert first.task(task_id)["status"] == "done"
        assert first.client.get("/api/task").json() == []
        assert first.submit(task_id, {**body, "contributor": "late"}).status_code == 410
