"""The place of contributions in releases: a release commits to receipts, and a machine finds its own among them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from tests.support.command import exit_status
from tests.support.coordinator import AGES, EVENTS, Front
from thebes.person.home import Person
from thebes.person.participation.lineage import Place, ReceiptVerdict
from thebes.person.rest import guarded
from thebes.simulation import example
from thebes.web.person.lineage import found as words
from thebes.web.person.pages import put_on
from thebes.wire import receipts, release_record, task_log
from thebes.wire.access import Access, make_token, read_secret
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import BrokenLog, NotFound

AGE = {"age": 40}


class Wire(httpx.BaseTransport):
    """Requests to a coordinator of this process, and what somebody makes of its answers."""

    def __init__(self, front: Front) -> None:
        self._inner = front.transport
        self.asked: list[str] = []
        self.change: Callable[[str, bytes], bytes] = lambda path, body: body

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._inner.handle_request(request)
        self.asked.append(f"{request.method} {request.url.raw_path.decode()}")
        body = self.change(request.url.path, answer.read())
        headers = {"content-type": answer.headers.get("content-type", "")}
        return httpx.Response(answer.status_code, content=body, headers=headers)


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "coordinator") as made:
        yield made


@pytest.fixture
def wire(front: Front) -> Wire:
    return Wire(front)


@pytest.fixture
def me(tmp_path: Path, wire: Wire) -> Iterator[Person]:
    client = CoordinatorClient("https://test", transport=wire)
    with Person(tmp_path / "me", client=client, delay=False) as person:
        example.fill(person, seed=4)
        yield person


def sent(front: Front, me: Person) -> str:
    """Put a task up to which this person has contributed."""
    task = front.post(AGES)
    me.accept(task)
    me.wait(task, state="sent")
    return task


def answered(front: Front, me: Person) -> str:
    task = sent(front, me)
    front.fill(task, 11, AGE)
    front.closing.step()
    return task


def found(me: Person, task: str) -> dict[str, Any]:
    """Return what the machine finds by itself."""
    me.poll()
    return dict(next(each for each in me.lineage() if each["task_id"] == task)["receipts"])


def hashes(front: Front, task: str) -> bytes:
    answer = front.client.get(f"/api/task/{task}/receipts")
    assert answer.status_code == 200, answer.text
    return answer.content


def test_a_task_that_its_coordinator_has_forgotten_is_not_called_forged(front: Front, me: Person) -> None:
    looked, unlooked = answered(front, me), sent(front, me)
    assert found(me, looked)["place"] == "included"
    me.withdraw(unlooked)
    front.fill(unlooked, 12, AGE)
    for _ in range(3):  # what is left of a task that has ended is done a step later
        front.closing.step()
    for task in (looked, unlooked):
        assert exit_status("forget", task, "--home", front.home.folder) == 0
    for task, place in ((looked, "included"), (unlooked, "unlooked")):
        (told,) = me.look_for_receipts(task)
        assert (told["receipts"]["place"], told["receipts"]["warning"]) == (place, False)
    assert "it has forgotten this task" in told["receipts"]["why"]


# --- the commitment -----------------------------------------------------------------------------------------


def test_a_release_commits_to_its_receipts_and_the_signed_list_to_the_release(front: Front, me: Person) -> None:
    task = answered(front, me)
    release = front.task(task)["result"]
    assert release["receipts"]["count"] == 12 == len(hashes(front, task)) / receipts.SIZE
    assert len(receipts.read(hashes(front, task), release["receipts"])) == 12
    listed = {e.task_id: e.digest for e in task_log.verify(front.client.get("/api/log").json()).entries}
    assert listed[release_record.listed_release(task, 0)] == release_record.digest(release)


def test_the_list_tells_nothing_but_how_many_there_are(front: Front, me: Person) -> None:
    task = answered(front, me)
    listed, (mine,) = hashes(front, task), me.participations()
    pieces = [listed[place : place + receipts.SIZE] for place in range(0, len(listed), receipts.SIZE)]
    assert pieces == sorted(pieces)  # not in the order of arrival
    for receipt in mine["receipts"]:
        assert bytes.fromhex(receipt) not in listed
    # whoever knows a pseudonym, but not its receipt, cannot find it
    assert receipts.leaf(task, "phase-0", "somebody", "0" * 32) not in pieces


def test_no_list_is_given_before_there_is_a_release(front: Front, me: Person) -> None:
    task = sent(front, me)
    assert front.client.get(f"/api/task/{task}/receipts").status_code == 404
    assert found(me, task)["place"] == "waiting"


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7, 8])
def test_the_root_covers_every_leaf(count: int) -> None:
    leaves = [receipts.leaf("task", "phase-0", str(number), "r") for number in range(count)]
    told = receipts.committed(receipts.ordered(leaves))
    assert receipts.read(receipts.ordered(leaves), told) == frozenset(leaves)
    other = receipts.leaf("task", "phase-0", "other", "r")
    for changed in [[*leaves, other], *([*leaves[:at], other, *leaves[at + 1 :]] for at in range(count))]:
        with pytest.raises(BrokenLog):
            receipts.read(receipts.ordered(changed), told)


def test_a_list_that_names_a_contribution_twice_is_refused() -> None:
    twice = receipts.leaf("task", "phase-0", "me", "r") * 2
    with pytest.raises(BrokenLog):
        receipts.read(twice, receipts.committed(twice))


# --- what a person's machine finds --------------------------------------------------------------------------


def test_the_own_receipt_is_found_and_nothing_that_is_asked_names_it(front: Front, me: Person, wire: Wire) -> None:
    task = answered(front, me)
    assert (found(me, task)["place"], found(me, task)["warning"]) == ("included", False)
    (mine,) = me.participations()
    assert f"GET /api/task/{task}/receipts" in wire.asked
    assert not [line for line in wire.asked if mine["receipts"][0] in line]
    (told,) = me.lineage()
    assert told["tables"] == ["profile.demographics"]
    assert told["release"] == release_record.digest(front.task(task)["result"])


def test_it_looks_once_by_itself_whatever_it_finds(front: Front, me: Person, wire: Wire) -> None:
    task = answered(front, me)
    wire.change = lambda path, body: body[receipts.SIZE :] if path.endswith("/receipts") else body
    for _ in range(3):
        me.poll()
    assert wire.asked.count(f"GET /api/task/{task}/receipts") == 1


def test_what_was_taken_back_is_not_in_the_release(front: Front, me: Person) -> None:
    task = sent(front, me)
    me.withdraw(task)
    front.fill(task, 12, AGE)
    front.closing.step()
    assert (found(me, task)["place"], found(me, task)["count"]) == ("left_out", 12)


def test_of_a_task_without_an_answer_there_is_nothing_to_find(front: Front, me: Person) -> None:
    task = sent(front, me)
    front.client.delete(f"/api/task/{task}", headers=front.admin)
    assert found(me, task)["place"] == "none"


def test_a_removed_receipt_is_warned_of(front: Front, me: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    task = sent(front, me)
    front.fill(task, 11, AGE)
    (mine,) = me.participations()
    honest = receipts.leaf

    def without_mine(task_id: str, part: str, contributor: str, receipt: str) -> bytes:
        """A coordinator that commits to somebody else in this person's place."""
        return honest(task_id, part, contributor, "0" * 32 if receipt == mine["receipts"][0] else receipt)

    with monkeypatch.context() as changed:
        changed.setattr(receipts, "leaf", without_mine)
        front.closing.step()
        kept = hashes(front, task)
    assert receipts.read(kept, front.task(task)["result"]["receipts"])  # for everybody else it is as it should be
    assert (found(me, task)["place"], found(me, task)["warning"]) == ("removed", True)


def test_one_receipt_given_to_two_people_is_in_the_list_for_one(front: Front, me: Person) -> None:
    task = sent(front, me)
    (mine,) = me.participations()
    receipt = mine["receipts"][0]
    assert receipts.leaf(task, "phase-0", "me", receipt) != receipts.leaf(task, "phase-0", "somebody else", receipt)


def test_a_withdrawn_one_that_was_kept_is_warned_of(front: Front, me: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    task = sent(front, me)
    monkeypatch.setattr(front.service.contributions, "withdraw", _deaf)
    me.withdraw(task)
    front.fill(task, 11, AGE)
    front.closing.step()
    assert (found(me, task)["place"], found(me, task)["warning"]) == ("kept", True)


async def _deaf(task_id: str, receipt: str) -> None:
    """Say that it was taken back, and keep it."""


def forged_list(front: Front, task: str) -> Callable[[str, bytes], bytes]:
    """Another list than the release commits to, made for one person."""
    return lambda path, body: receipts.ordered([body[:32], b"\1" * 32]) if path.endswith("/receipts") else body


def other_release(front: Front, task: str) -> Callable[[str, bytes], bytes]:
    """Another release, with the root of another list, shown to one person."""

    def change(path: str, body: bytes) -> bytes:
        if path != f"/api/task/{task}":
            return body
        told = json.loads(body)
        if told["result"] is not None:
            told["result"]["receipts"] |= receipts.committed(b"\1" * 32)
        return json.dumps(told).encode()

    return change


def other_value(front: Front, task: str) -> Callable[[str, bytes], bytes]:
    """Another answer under the same root."""

    def change(path: str, body: bytes) -> bytes:
        if path != f"/api/task/{task}":
            return body
        told = json.loads(body)
        if told["result"] is not None:
            told["result"]["value"] += 1
        return json.dumps(told).encode()

    return change


def cut_off(front: Front, task: str) -> Callable[[str, bytes], bytes]:
    return lambda path, body: body[:-1] if path.endswith("/receipts") else body


def of_another_task(front: Front, task: str) -> Callable[[str, bytes], bytes]:
    """The list of an earlier release, played again."""
    earlier = front.post(AGES)
    front.fill(earlier, 12, AGE)
    front.closing.step()
    replayed = hashes(front, earlier)
    return lambda path, body: replayed if path.endswith("/receipts") else body


@pytest.mark.parametrize("forgery", [forged_list, other_release, other_value, cut_off, of_another_task])
def test_every_forgery_is_warned_of(front: Front, me: Person, wire: Wire, forgery: Any) -> None:
    task = answered(front, me)
    wire.change = forgery(front, task)
    assert (found(me, task)["place"], found(me, task)["warning"]) == ("forged", True)


def test_a_release_that_changes_after_it_was_seen_is_warned_of(front: Front, me: Person, wire: Wire) -> None:
    task = answered(front, me)
    assert found(me, task)["place"] == "included"
    wire.change = forged_list(front, task)
    (told,) = me.look_for_receipts(task)
    assert told["receipts"]["place"] == "forged"


def test_an_older_coordinator_is_said_to_tell_nothing(front: Front, me: Person, wire: Wire) -> None:
    task = answered(front, me)

    def change(path: str, body: bytes) -> bytes:
        if path != f"/api/task/{task}":
            return body
        told = json.loads(body)
        told["result"].pop("receipts")
        return json.dumps(told).encode()

    wire.change = change
    assert (found(me, task)["place"], found(me, task)["warning"]) == ("untold", False)


def test_a_task_without_end_says_why_there_is_nothing_to_find(front: Front, me: Person) -> None:
    me.register("app", {"event": {"columns": {c: {"type": "integer", "description": c} for c in "bo"} | {
        "d": {"type": "float", "description": "d"}}}})  # fmt: skip
    me.insert("app", "event", [{"b": 1, "d": 1.0, "o": 1}])
    task = front.post(EVENTS)
    me.accept(task)
    me.wait(task, state="sent")
    assert found(me, task)["place"] == "untold"
    assert "mixed in" in found(me, task)["why"]


def test_nothing_left_is_nothing_to_look_for(front: Front, me: Person) -> None:
    task = front.post(AGES)
    assert me.lineage() == []
    with pytest.raises(NotFound):
        me.look_for_receipts(task)


# --- as it is told ------------------------------------------------------------------------------------------


def test_a_model_begun_from_what_was_released_is_told(front: Front, me: Person) -> None:
    me.register("app", {"event": {"columns": {c: {"type": "float", "description": c} for c in "bdo"}}})
    me.insert("app", "event", [{"b": 1, "d": 1.0, "o": 1}])
    task = front.post(EVENTS)
    me.accept(task)
    me.wait(task, state="sent")
    front.train(task, 11)
    assert front.close_task(task).status_code == 204
    front.closing.step()
    me.poll()
    weights = list(front.task(task)["result"]["value"]["weights"].values())
    later, other = front.post({**EVENTS, "start": weights}), front.post({**EVENTS, "start": [0.5, *weights[1:]]})
    me.tasks()
    (told,) = me.lineage()
    assert told["models"] == [later] != [other]


def test_the_command_says_it_and_ends_with_1_where_something_is_missing(
    front: Front, me: Person, wire: Wire, capsys: pytest.CaptureFixture[str]
) -> None:
    task = answered(front, me)
    assert found(me, task)["place"] == "included"
    me.close()
    with Person(me.home, coordinator="https://test"):
        pass
    assert exit_status("lineage", "--home", me.home) == 0
    assert "profile.demographics" in (said := capsys.readouterr().out)
    assert "in the answer" in said
    with Person(me.home, client=CoordinatorClient("https://test", transport=wire), delay=False) as again:
        wire.change = forged_list(front, task)
        again.look_for_receipts(task)
    assert exit_status("lineage", "--home", me.home) == 1
    assert "not what others see" in capsys.readouterr().out


def test_the_page_keeps_itself_fresh_and_looks_again_when_it_is_asked(front: Front, me: Person) -> None:
    task = answered(front, me)
    me.poll()
    make_token(me.home)
    app: Any = guarded(me, Access(me.home), port=8766, stop=lambda: None, pages=put_on)
    with TestClient(app, base_url="http://127.0.0.1:8766") as browser:
        browser.headers.update(
            {"Authorization": f"Bearer {read_secret(me.home / 'token')}", "hx-request-type": "partial"}
        )
        fresh = browser.get("/lineage/now")
        assert (fresh.status_code, "Look again" in fresh.text) == (200, True)
        again = browser.post(f"/lineage/{task}/look", json={})
        assert (again.status_code, "Your machine has looked again." in again.text) == (200, True)


@pytest.mark.parametrize("place", list(Place))
def test_every_place_has_a_sentence(place: Place) -> None:
    told = ReceiptVerdict(place, "why", 12).as_json()
    word, _, sentence = words(told)
    assert word
    assert sentence.endswith(".")
    assert told["warning"] == (words(told)[1] == "bad")
