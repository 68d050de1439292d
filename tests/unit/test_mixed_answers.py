"""Mixed answers between a home and a coordinator: what is charged, when it leaves, and what is told at the end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.coordinator import Front
from tests.support.peers import Peer, group_of
from thebes.person.participation.schedule import Pacing, delay_of, left_of_mixed, limits_of
from thebes.requestor.known_keys import KnownKeys
from thebes.requestor.verification import verify
from thebes.tasks import registry
from thebes.tokens import Context
from thebes.wire import task_log
from thebes.wire.refusals import BrokenRecord
from thebes.wire.release_record import ReleaseRecord, listed_release

MEMBERS = 12
ASKED: dict[str, Any] = {
    "type": "bounded",
    "featurizer": "SELECT species FROM profile.pets",
    "bounds": {"species": {"type": "set", "values": ["cat", "dog"], "default": "dog"}},
    "anonymity": "token",
    "group": "city",
    "min_count": MEMBERS,
    "mixed": {"epsilon": 0.5, "delta": 0.008, "colluding": 0},
}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "coordinator") as opened:
        yield opened


@pytest.fixture
def peers(front: Front) -> list[Peer]:
    return group_of(front.service.register, front.client, MEMBERS)


def sent(front: Front, task_id: str, peer: Peer) -> httpx.Response:
    return front.submit(task_id, peer.body(front.task(task_id), front.ask(task_id), {"species": 0}))


def test_the_filled_document_is_what_is_signed_and_shown(front: Front, peers: list[Peer]) -> None:
    task = front.task(front.post(ASKED))
    document = registry.posted(task["document"])
    assert document.digest == task["digest"]
    assert document.epsilon > 0.5
    assert "Mixed with the others'" in task["explanation"]


def test_a_quote_says_both_and_a_document_without_tokens_is_refused_by_name(front: Front, peers: list[Peer]) -> None:
    quoted = front.client.post("/api/quote", json=ASKED, headers=front.admin).json()
    assert quoted["mixed"]["epsilon"] <= 0.5 < quoted["price"]["epsilon"]
    plain = {name: value for name, value in ASKED.items() if name not in ("anonymity", "group")}
    refused = front.client.post("/api/task", json=plain, headers=front.admin)
    assert (refused.status_code, refused.json()["field"]) == (422, "mixed")


def test_a_report_that_is_sent_twice_is_one_and_taken_back_is_none(front: Front, peers: list[Peer]) -> None:
    task_id = front.post(ASKED)
    body = peers[0].body(front.task(task_id), front.ask(task_id), {"species": 0})
    first, again = (front.submit(task_id, body) for _ in range(2))
    assert first.json() == again.json()
    assert front.task(task_id)["contributions"] == 1
    for peer in peers[1:]:
        assert sent(front, task_id, peer).status_code == 202
    front.closing.step()
    told = front.task(task_id)["result"]["certificate"]["parameters"]["mixed"]
    assert (told["n"], told["honest"], told["as_accepted"]) == (MEMBERS, MEMBERS, True)


def test_a_better_promise_than_follows_is_refused_though_it_is_signed(
    front: Front, peers: list[Peer], tmp_path: Path
) -> None:
    task_id = front.post(ASKED)
    for peer in peers:
        assert sent(front, task_id, peer).status_code == 202
    front.closing.step()
    body = front.client.get(f"/api/task/{task_id}/record").json()
    key = task_log.fingerprint(task_log.public_key(front.home.log_key))
    known = KnownKeys(tmp_path / "settings")
    verify(ReleaseRecord.read(json.dumps(body).encode()), key=key, known=known)

    certificate = json.loads(body["certificate"])
    certificate["parameters"]["mixed"]["epsilon"] = 0.01
    lie = {**body, "certificate": json.dumps(certificate)}
    record = ReleaseRecord.read(json.dumps(lie).encode())
    listed: list[task_log.TaskLogEntry] = []
    for name, digest in ((task_id, record.document_digest), (listed_release(task_id, 0), record.digest)):
        listed.append(task_log.TaskLogEntry.after(listed[-1] if listed else None, name, digest))
    lie["list"] = task_log.published(front.home.log_key, listed)
    with pytest.raises(BrokenRecord, match=r"mixed answers: its epsilon is 0\.01"):
        verify(ReleaseRecord.read(json.dumps(lie).encode()), key=key, known=known)


def test_whatever_is_cancelled_has_no_answer_and_so_no_figure(front: Front, peers: list[Peer]) -> None:
    task_id = front.post(ASKED)
    for peer in peers[:-1]:
        sent(front, task_id, peer)
    assert front.client.delete(f"/api/task/{task_id}", headers=front.admin).status_code in (200, 202, 204)
    assert front.task(task_id).get("result") is None
    assert "its own noise alone" in left_of_mixed(registry.check({**ASKED, "epoch": "one"}))


def test_the_pseudonyms_of_two_parts_have_nothing_in_common(peers: list[Peer]) -> None:
    names = [peers[0].credential.pseudonym(Context("task", "00" * 32, part)) for part in ("phase-0", "phase-1")]
    assert names[0] != names[1]


def test_the_range_of_delays_is_the_documents_and_not_the_machines() -> None:
    mixed = registry.check({**ASKED, "mixed": {**ASKED["mixed"], "delay_seconds": 600}})
    plain = registry.check({**{n: v for n, v in ASKED.items() if n != "mixed"}, "epsilon": 1.0})
    assert (delay_of(mixed), delay_of(plain)) == (600, None)
    pacing = Pacing(lambda: 0.0, lambda: 0.0)  # this machine would send at once
    waits = [pacing.wait((number, 0), **limits_of(mixed)) for number in range(400)]
    assert max(waits) <= 600
    assert max(waits) > 400  # by luck less than once in 10^70
    assert pacing.wait((1_000, 0), **limits_of(plain)) == 0
    hurried = Pacing(lambda: 120.0, lambda: 0.0, waits=False)
    assert hurried.wait((1, 0), **limits_of(mixed)) == 0


def test_a_delay_never_reaches_past_the_deadline() -> None:
    ends = datetime(2030, 1, 1, tzinfo=UTC)
    mixed = registry.check(
        {**ASKED, "expires_at": ends.isoformat(), "mixed": {**ASKED["mixed"], "delay_seconds": 86_400}}
    )
    now = ends.timestamp() - 100
    pacing = Pacing(lambda: 0.0, lambda: now)
    assert max(pacing.wait((number, 0), **limits_of(mixed)) for number in range(50)) <= 70
