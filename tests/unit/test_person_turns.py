"""Taking part again in a task that is trained without end: each time a claim, a part and a slot of its own."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator_in_memory import CoordinatorInMemory
from thebes.person.home import TASK_STORE, Person
from thebes.person.participation import worker
from thebes.simulation import example
from thebes.wire import frames
from thebes.wire.refusals import Conflict, Unreachable


def events(**more: Any) -> dict[str, Any]:
    return {
        "type": "draw-discard",
        "epsilon": 3.0,
        "min_count": 20,
        "featurizer": "SELECT species, age FROM profile.pets",
        "family": "linear",
        "inputs": ["species"],
        "output": "age",
        "bounds": {
            "species": {"type": "set", "values": ["cat", "dog"], "default": "dog"},
            "age": {"type": "range", "low": 0.0, "high": 100.0},
        },
        "learning_rate": 0.01,
        "max_participations": 3,
        **more,
    }


@pytest.fixture
def server() -> CoordinatorInMemory:
    return CoordinatorInMemory()


@pytest.fixture
def me(tmp_path: Path, server: CoordinatorInMemory) -> Iterator[Person]:
    person = Person(tmp_path / "home", client=server, delay=False)  # type: ignore[arg-type]
    example.fill(person, seed=4)
    yield person
    person.close()


def spent(person: Person) -> float:
    return float(person.ledger()["local"]["overall"]["spent"]["epsilon"])


def test_each_turn_costs_an_equal_share_and_answers_a_part_of_its_own(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(events())
    for turn in range(3):
        assert me.task(task)["turns_left"] == 3 - turn
        me.accept(task)
        assert me.wait(task)["state"] == "sent"
        assert spent(me) == pytest.approx(turn + 1)
    with pytest.raises(Conflict, match="takes 3 participations of one person"):
        me.accept(task)
    assert me.task(task)["turns_left"] == 0
    sent = [json.loads(body) for body in server.bodies]
    assert [message["part"] for message in sent] == [f"phase-0.packet-{turn}" for turn in range(3)]
    assert len({message["contributor"] for message in sent}) == 3  # nobody can tell that they are one person's


def test_an_earlier_turn_has_to_be_finished_first(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(events())
    me.accept(task)
    with pytest.raises(Conflict, match="not finished"):
        me.accept(task)
    assert me.task(task)["turns_left"] == 3


def test_a_turn_that_never_began_leaves_its_part_to_the_next(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(events())
    me.accept(task)
    me.withdraw(task)
    me.accept(task)
    assert me.wait(task)["state"] == "sent"
    assert spent(me) == pytest.approx(1)
    assert [json.loads(body)["part"] for body in server.bodies] == ["phase-0.packet-0"]


def test_a_turn_that_was_refused_has_used_its_part(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(events())

    def refuse(what: str) -> None:
        if what == "submit":
            raise Conflict("no")

    server.before = refuse
    me.accept(task)
    assert me.wait(task)["state"] == "refused"
    server.before = lambda what: None
    me.accept(task)
    assert me.wait(task)["state"] == "sent"
    assert spent(me) == pytest.approx(2)
    assert [json.loads(body)["part"] for body in server.bodies] == ["phase-0.packet-1"]


def test_a_retry_of_a_turn_sends_the_same_bytes(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(events())
    me.accept(task)
    me.wait(task)

    def lose(what: str) -> None:
        if what == "submit":
            server.after = lambda what: None
            raise Unreachable("the server", "gone")

    server.after = lose
    me.accept(task)
    assert me.wait(task)["state"] == "sent"
    assert server.bodies[1] == server.bodies[2] != server.bodies[0]
    assert spent(me) == pytest.approx(2)


def test_what_was_mixed_in_is_not_taken_back_and_it_is_said_why(me: Person, server: CoordinatorInMemory) -> None:
    task = server.post(events())
    assert me.task(task)["returnable"]
    me.accept(task)
    me.wait(task)
    assert not me.task(task)["returnable"]
    assert not me.participations()[0]["returnable"]
    with pytest.raises(Conflict, match="mixed in at once and cannot be taken back"):
        me.withdraw(task)
    assert me.wait(task)["state"] == "sent"


def test_a_model_is_fetched_when_it_is_to_be_answered_and_not_before(
    tmp_path: Path, server: CoordinatorInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be old, and maybe refused, once the delay that was drawn at consent is over."""
    now = [1_000_000.0]
    asked: list[float] = []
    monkeypatch.setattr(worker, "COMPUTING_SECONDS", 0.0)  # which would pass by another clock than the one in hand
    server.before = lambda what: asked.append(now[0]) if what == "ask" else None
    with Person(tmp_path / "home", client=server, delay=True, clock=lambda: now[0]) as me:  # type: ignore[arg-type]
        example.fill(me, seed=4)
        me.set_settings({"delay_seconds": 600})
        task = server.post(events())
        me.accept(task)
        with closing(sqlite3.connect(tmp_path / "home" / TASK_STORE)) as file:
            ((due,),) = file.execute("SELECT due_at FROM participation WHERE task_id = ?", [task])
        for _ in range(800):
            if me.participations()[0]["state"] == "sent":
                break
            now[0] += 1
            me.turn()
        assert me.participations()[0]["state"] == "sent"
        assert min(asked) >= due


def test_a_large_model_travels_as_a_frame(me: Person, server: CoordinatorInMemory) -> None:
    values = [f"v{number}" for number in range(10_000)]
    bounds = {**events()["bounds"], "species": {"type": "set", "values": values, "default": "v0"}}
    task = server.post(events(bounds=bounds, mechanism="gaussian", delta=1e-6, instances=3))
    me.accept(task)
    assert me.wait(task)["state"] == "sent"
    (body,) = server.bodies
    assert len(frames.decode(body)["payload"]["weights"]) == 10_000
