"""A person's machine in a task of several packets: each under its own slot, all under one claim."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator_in_memory import CoordinatorInMemory
from thebes.data.rows import Rows
from thebes.person.home import TASK_STORE, Person
from thebes.person.tasks.task_feed import NotListed
from thebes.privacy.randomness import system
from thebes.simulation import example
from thebes.tasks import registry
from thebes.tasks.aggregation.packets import slot_of
from thebes.tasks.protocols import Closed
from thebes.wire.refusals import Unreachable

EXAMPLE = {
    "type": "ensemble",
    "epsilon": 1.0,
    "featurizer": "SELECT x0, x1, y FROM profile.example",
    "label": "y",
    "bounds": {
        "x0": {"type": "range", "low": -3.0, "high": 3.0, "default": 0.0},
        "x1": {"type": "range", "low": -3.0, "high": 3.0, "default": 0.0},
        "y": {"type": "set", "values": [0, 1], "default": 0},
    },
    "bins": {"x0": [0.0], "x1": [0.0]},
    "partitions": 3,
    "subsets": 2,
}


@pytest.fixture
def server() -> CoordinatorInMemory:
    return CoordinatorInMemory()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def me(home: Path, server: CoordinatorInMemory) -> Iterator[Person]:
    with Person(home, client=server, delay=False) as person:  # type: ignore[arg-type]
        example.fill(person, seed=4)
        yield person


def sent(server: CoordinatorInMemory) -> list[dict[str, Any]]:
    return [json.loads(body) for body in server.bodies]


def spent(person: Person) -> dict[str, Any]:
    return dict(person.ledger()["local"]["period"]["spent"])


def nothing_reserved(person: Person) -> bool:
    return person.ledger()["local"]["period"]["reserved"] == {"epsilon": 0.0, "delta": 0.0}


def test_every_packet_goes_to_its_own_part_under_its_own_slot_and_they_cost_the_price(
    me: Person, server: CoordinatorInMemory
) -> None:
    task = server.post(EXAMPLE)
    me.accept(task)
    assert me.wait(task)["state"] == "sent"
    packets = sent(server)
    assert [packet["part"] for packet in packets] == ["phase-0.packet-0", "phase-0.packet-1"]
    slots = [packet["contributor"] for packet in packets]
    with closing(sqlite3.connect(me.home / TASK_STORE)) as file:
        ((pseudonym,),) = file.execute("SELECT name FROM slot WHERE task_id = ?", [task])
    assert slots == [slot_of(pseudonym, 1), slot_of(pseudonym, 2)]
    # whoever hears one of them can neither work out the other nor the pseudonym that both come from
    assert slots[1] not in [slot_of(slots[0], number) for number in range(10)]
    assert pseudonym not in slots
    aggregator = server.aggregators[task]
    for number, packet in enumerate(packets):
        ask = aggregator.ask(packet["contributor"], number)
        assert packet["ask_id"] == ask.ask_id  # type: ignore[union-attr]
    assert aggregator.counts == [1, 1]  # type: ignore[attr-defined]
    assert spent(me)["epsilon"] == 1.0
    assert nothing_reserved(me)


def test_a_crash_between_packets_sends_each_of_them_once(home: Path, server: CoordinatorInMemory) -> None:
    def lose(what: str) -> None:
        if what == "submit" and len(server.bodies) == 1:
            raise Unreachable(server.url, "the machine stopped here")

    with Person(home, client=server, delay=False) as person:  # type: ignore[arg-type]
        example.fill(person, seed=4)
        task = server.post(EXAMPLE)
        person.accept(task)
        server.after = lose
        person.turn()
        assert len(server.heard) == 1
    server.after = lambda what: None
    with Person(home, client=server, delay=False) as again:  # type: ignore[arg-type]
        assert again.wait(task)["state"] == "sent"
        assert sorted(part for _, part, _ in server.heard) == ["phase-0.packet-0", "phase-0.packet-1"]
        assert server.bodies[0] == server.bodies[1]  # the lost receipt was fetched with the same bytes
        assert spent(again)["epsilon"] == 1.0


def test_taking_back_between_packets_takes_back_what_was_sent_and_sends_nothing_more(
    me: Person, server: CoordinatorInMemory
) -> None:
    def away(what: str) -> None:
        if what == "ask" and server.bodies:
            raise Unreachable(server.url, "between two packets")

    server.before = away
    task = server.post(EXAMPLE)
    me.accept(task)
    me.turn()
    assert me.participations()[-1]["state"] == "reserved"
    assert [part for _, part, _ in server.heard] == ["phase-0.packet-0"]
    taken = me.withdraw(task)
    assert taken["state"] == "withdrawn"
    assert "the server destroyed it" in taken["note"]
    assert not server.heard
    server.before = lambda what: None
    me.turn()
    assert not server.heard
    assert spent(me)["epsilon"] == 0.5
    assert nothing_reserved(me)


def test_taking_back_several_packets_says_what_that_shows_and_one_says_nothing_of_it(
    me: Person, server: CoordinatorInMemory
) -> None:
    task = server.post(EXAMPLE)
    assert (me.task(task)["packets_sent"], me.tasks()[0]["packets_sent"]) == (0, 0)
    me.accept(task)
    me.wait(task)
    assert (me.task(task)["packets_sent"], me.tasks()[0]["packets_sent"]) == (2, 2)
    assert "its 2 packets went back at once showed the server that they belong together" in me.withdraw(task)["note"]
    assert not server.heard
    single = server.post({**EXAMPLE, "subsets": 1})
    me.accept(single)
    me.wait(single)
    assert me.task(single)["packets_sent"] == 1
    assert me.withdraw(single)["note"] == "the server destroyed it; what it cost stays spent"


def test_a_phase_that_closes_between_packets_keeps_what_was_sent_and_gives_the_rest_back(
    me: Person, server: CoordinatorInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = server.post(EXAMPLE)
    aggregator = server.aggregators[task]

    def close(what: str) -> None:
        if what == "submit":
            monkeypatch.setattr(aggregator, "ask", lambda slot, packet=0: Closed())

    server.after = close
    me.accept(task)
    ended = me.wait(task)
    assert ended["state"] == "sent"
    assert "closed before every packet" in ended["note"]
    assert len(server.bodies) == 1
    assert spent(me)["epsilon"] == 0.5
    assert nothing_reserved(me)


def test_one_answer_about_a_threshold_is_the_whole_of_a_participation(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post({**{k: v for k, v in EXAMPLE.items() if k != "bins"}, "min_count": 1})
    me.accept(task)
    assert me.wait(task)["state"] == "sent"
    (answer,) = sent(server)
    assert answer["part"] == "phase-0"
    assert set(answer["payload"]) == {"report"}
    assert spent(me)["epsilon"] == 1.0
    assert nothing_reserved(me)


def test_who_scores_a_classifier_sends_nothing_else_and_pays_the_price(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post({**EXAMPLE, "min_count": 1, "scoring_share": 0.5})
    aggregator: Any = server.aggregators[task]
    rows = Rows.one_each({"x0": [1.0], "x1": [1.0], "y": [1]})
    for packet in range(2):  # somebody else's packets
        ask = aggregator.ask("somebody", packet)
        made = registry.owner(aggregator.document).contribute(
            aggregator.document, ask, rows, _Free(), randomness=system()
        )
        aggregator.accept(made)
    aggregator.advance(datetime.now(UTC))
    me.accept(task)
    assert me.wait(task)["state"] in ("sent", "done")
    (answer,) = sent(server)
    assert (answer["part"], set(answer["payload"])) == ("phase-1", {"report"})
    assert spent(me)["epsilon"] == 1.0
    assert nothing_reserved(me)
    assert aggregator.release().certificate.parameters["scoring"]["reports"] == 1


class _Free:
    def consume(self, *, epsilon: Any, delta: Any) -> None:
        return None


def test_packets_end_when_the_scores_begin_and_what_was_not_needed_goes_back(
    me: Person, server: CoordinatorInMemory
) -> None:
    """Between the packets of one person others fill the phase: the second is not sent, and who sent the first scores
    nothing."""
    task = server.post({**EXAMPLE, "min_count": 1, "scoring_share": 0.5})
    aggregator: Any = server.aggregators[task]

    def close(what: str) -> None:
        if what == "submit" and aggregator.phase == 0:
            aggregator.counts = [1, 1]
            aggregator.advance(datetime.now(UTC))

    server.after = close
    me.accept(task)
    ended = me.wait(task)
    assert ended["state"] == "sent"
    assert "closed before every packet" in ended["note"]
    assert [packet["part"] for packet in sent(server)] == ["phase-0.packet-0"]
    assert spent(me)["epsilon"] == 0.5
    assert nothing_reserved(me)


def test_a_server_that_asks_for_a_part_the_task_does_not_have_gets_nothing(
    me: Person, server: CoordinatorInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    task = server.post(EXAMPLE)
    honest = server.aggregators[task].ask
    for part, phase in (("phase-0.packet-1", 0), ("phase-7", 7), ("phase-0", 0), ("elsewhere", 0)):
        asked = replace(honest("x"), part=part, phase=phase)  # type: ignore[type-var]
        monkeypatch.setattr(server.aggregators[task], "ask", lambda slot, packet=0, asked=asked: asked)
        fresh = server.post({**EXAMPLE, "name": part})
        monkeypatch.setattr(server.aggregators[fresh], "ask", lambda slot, packet=0, asked=asked: asked)
        me.accept(fresh)
        assert me.wait(fresh)["state"] == "failed"
    assert server.bodies == []
    assert spent(me)["epsilon"] == 0


def test_a_document_without_noise_is_not_answered(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post({**EXAMPLE, "perturbation": "none"})
    with pytest.raises(NotListed, match="simulations only"):
        me.accept(task)
    assert (server.bodies, spent(me)["epsilon"]) == ([], 0)
