"""Mixed answers between a home and a coordinator: what is charged, when it leaves, and what is told at the end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.coordinator import Front
from tests.support.peers import Peer, group_of
from thebes.person.participation.schedule import Pacing, delay_of, left_of_mixed, limits_of
from thebes.tasks import registry
from thebes.tokens import Context

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
    return group_of(front.reception.register, front.client, MEMBERS)


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
