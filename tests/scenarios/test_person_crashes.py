"""Coordinator and people killed without warning, again and again, over real sockets: nothing is lost, counted twice
or overspent."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

import thebes

sys.path.insert(0, str(Path(__file__).parent))
from processes import PATIENCE, PersonProcess, coordinator, stopped

from tests.support.ports import free_port
from thebes.ledger import Ledger
from thebes.person.home import Person
from thebes.privacy.faults import ThebesError
from thebes.simulation import example
from thebes.wire.refusals import Conflict

pytestmark = pytest.mark.slow
PROCESSES, TOGETHER = 4, 7
PEOPLE = PROCESSES + TOGETHER
KILLS = 8
AGE = {"age": {"type": "range", "low": 0.0, "high": 100.0}}
DOCUMENTS: list[dict[str, Any]] = [
    {
        "type": "basic" if number % 2 else "bounded",
        "name": f"task {number}",
        "epsilon": 0.5,
        "min_count": PEOPLE,
        **(
            {"featurizer": "SELECT age FROM profile.demographics", "aggregator": "median", "bounds": AGE}
            if number % 2
            else {
                "server": "untrusted",
                "featurizer": "SELECT species, age FROM profile.pets",
                "bounds": {"species": {"type": "set", "values": ["cat", "dog"], "default": "dog"}, **AGE},
            }
        ),
    }
    for number in range(4)
]


class World:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.coordinator = coordinator(folder / "coordinator", port)
        self.coordinator.ready()
        token = (folder / "coordinator" / "admin.token").read_text().strip()
        self.server = thebes.connect(self.url, token=token, timeout=PATIENCE)
        self.processes = [PersonProcess(folder / f"person-{i}", self.url, "--example") for i in range(PROCESSES)]
        self.people = [Person(folder / f"together-{i}", coordinator=self.url, delay=False) for i in range(TOGETHER)]
        for place, person in enumerate(self.people):
            example.fill(person, seed=place)
            person.start(poll_seconds=0.5)
        for process in self.processes:
            process.ready()

    def strike(self, dice: random.Random) -> None:
        """Kill somebody, and start them again."""
        victim = dice.randrange(PROCESSES + 2)
        if victim >= PROCESSES:  # the coordinator twice as often as any one person
            self.coordinator.kill()
            time.sleep(dice.random() * 0.3)
            self.coordinator.launch().ready()
        else:
            self.processes[victim].process.kill()
            self.processes[victim].process.launch()
            self.processes[victim].ready()

    def close(self) -> None:
        for person in self.people:
            person.close()
        self.server.close()
        stopped([*(process.process for process in self.processes), self.coordinator])


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()


def persist(world: World, place: int, task_id: str, deadline: float) -> None:
    """Accept as a person would who tries again whenever nothing answers."""
    while time.monotonic() < deadline:
        try:
            if place < PROCESSES:
                status = world.processes[place].accept(task_id)
                if status in (202, 409):
                    return
                assert status in (404, 502, 429, 503), status
            else:
                world.people[place - PROCESSES].accept(task_id)
                return
        except Conflict:
            return
        except (httpx.HTTPError, ThebesError):
            pass
        time.sleep(0.1)
    raise AssertionError("nothing answered in time")


def test_killed_again_and_again_everything_is_answered_once_and_paid_once(world: World) -> None:
    dice = random.Random(20261120)
    tasks = [world.server.submit(document) for document in DOCUMENTS]
    deadline = time.monotonic() + 4 * PATIENCE
    failures: list[BaseException] = []

    def live(place: int) -> None:
        try:
            own = random.Random(place)
            for task in own.sample(tasks, len(tasks)):
                persist(world, place, task.task_id, deadline)
                time.sleep(own.random() * 0.5)
        except BaseException as error:
            failures.append(error)

    lives = [threading.Thread(target=live, args=(place,), daemon=True) for place in range(PEOPLE)]
    for life in lives:
        life.start()
    for _ in range(KILLS):
        time.sleep(dice.random() * 0.4)
        world.strike(dice)
    for life in lives:
        life.join(timeout=max(0.0, deadline - time.monotonic()))
    assert failures == []

    for task in tasks:  # nothing is lost
        release = task.wait(timeout=max(1.0, deadline - time.monotonic()))
        assert release.certificate.contributors == PEOPLE  # nothing is counted twice
        assert release.certificate.epsilon == 0.5

    price = Decimal("0.5") * len(tasks)
    for process in world.processes:
        for task in tasks:
            process.wait(task.task_id, "done", "closed")  # closed: counted, but the receipt was lost
        assert spent(process.get("/api/ledger")) == price
    for person in world.people:
        for task in tasks:
            person.wait(task.task_id, state="done", timeout=PATIENCE)
        assert spent(person.ledger()) == price
    for place in range(PROCESSES):
        with Ledger(f"sqlite:///{world.folder / f'person-{place}' / 'ledger.db'}", create=False) as ledger:
            ledger.verify()


def spent(view: dict[str, Any]) -> Decimal:
    """Over both contexts; nothing may be left set aside."""
    overall = [view[trust]["overall"] for trust in ("local", "trusted")]
    assert all(o["reserved"]["epsilon"] == 0 for o in overall)
    return sum((Decimal(str(o["spent"]["epsilon"])) for o in overall), Decimal(0))
