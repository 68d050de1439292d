"""Training in real processes: killed while people send, stopped, and two of them on one database."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.support.coordinator import EVENTS, Server
from tests.support.postgres import new_database
from thebes.coordinator.training.single_process import MOST_AT_RISK, WRITE_SECONDS

PATIENCE = 240.0  #: seconds for what takes a few on an idle machine
TASK = {**EVENTS, "stale_after": 10**6}


class Trainers:
    """People who send updates until their server dies, and remember every word they got, and when."""

    def __init__(self) -> None:
        self.bodies: dict[str, dict[str, Any]] = {}
        self.receipts: dict[str, str] = {}
        self.heard_at: dict[str, float] = {}
        self.changed: list[str] = []  # words that were not kept
        self.stopped = threading.Event()

    def talk(self, server: Server, task_id: str, names: Iterator[str]) -> None:
        url = str(server.client.base_url)
        with suppress(httpx.TransportError), httpx.Client(base_url=url, timeout=120) as client:
            for name in names:
                if self.stopped.is_set():
                    return
                asked = client.get(f"/api/task/{task_id}/ask", params={"slot": name}).json()
                body = {key: asked[key] for key in ("ask_id", "part", "payload")} | {"contributor": name}
                self.bodies.setdefault(name, body)
                self.send(client, task_id, name)

    def send(self, client: httpx.Client, task_id: str, name: str) -> int:
        answer = client.post(f"/api/task/{task_id}/submit", json=self.bodies[name])
        if answer.status_code == 202:
            if self.receipts.setdefault(name, answer.json()["receipt"]) != answer.json()["receipt"]:
                self.changed.append(name)
            self.heard_at.setdefault(name, time.monotonic())
        return answer.status_code

    @contextmanager
    def talking(self, servers: list[Server], task_id: str, life: int, people: int = 4) -> Iterator[None]:
        self.stopped.clear()
        threads = [
            threading.Thread(target=self.talk, args=(servers[n % len(servers)], task_id, _names(life, n)))
            for n in range(people)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:  # else those who talk would keep the whole run from its end
            self.stopped.set()
            for thread in threads:
                thread.join()

    def hear(self, more: int) -> None:
        """Wait until so many more words have come, however slow the machine is."""
        end, wanted = time.monotonic() + PATIENCE, len(self.receipts) + more
        while len(self.receipts) < wanted:
            assert time.monotonic() < end, "nobody is answered"
            time.sleep(0.05)


def _names(life: int, person: int) -> Iterator[str]:
    number = 0
    while True:
        yield f"{life}-{person}-{number}"
        number += 1


def kept_in_file(home: Path) -> tuple[dict[str, str], int]:
    """Receipts by contributor, and how many updates the models have had."""
    with closing(sqlite3.connect(home / "coordinator.db")) as connection:
        receipts = dict(connection.execute("SELECT contributor, receipt FROM coordinator_contribution").fetchall())
        (updates,) = connection.execute("SELECT sum(updates) FROM coordinator_instance").fetchone()
    return receipts, int(updates)


def kept_in_server(store: str) -> tuple[dict[str, str], int]:
    engine = sa.create_engine(store.replace("postgresql://", "postgresql+psycopg://", 1))
    with engine.connect() as connection:
        rows = connection.execute(sa.text("SELECT contributor, receipt FROM coordinator_contribution")).all()
        updates = connection.execute(sa.text("SELECT sum(updates) FROM coordinator_instance")).scalar()
    engine.dispose()
    return {row[0]: row[1] for row in rows}, int(updates or 0)


@pytest.mark.slow
def test_a_killed_process_forgets_at_most_the_last_moment_and_counts_nothing_twice(tmp_path: Path) -> None:
    home, trainers = tmp_path / "home", Trainers()
    task_id = ""
    for life in range(3):
        server = Server(home, log=tmp_path / "log")
        task_id = task_id or server.post(TASK)
        before, _ = kept_in_file(home)
        with trainers.talking([server], task_id, life):
            trainers.hear(30)
            end = time.monotonic() + PATIENCE
            while len(kept_in_file(home)[0]) == len(before):
                assert time.monotonic() < end, "nothing is written down"
            time.sleep(1.7 + 0.3 * life)
            server.kill()
            died = time.monotonic()
        receipts, updates = kept_in_file(home)
        assert len(receipts) == updates  # a receipt is there exactly if its update is
        assert len(receipts) > len(before)
        assert before.items() <= receipts.items()
        told = {name: at for name, at in trainers.heard_at.items() if name.startswith(f"{life}-")}
        lost = [name for name in told if name not in receipts]
        assert len(lost) <= MOST_AT_RISK
        # What was forgotten is the end of what each of them was told: written within half a second, and what writing
        # itself took on this machine.
        for person in {name.rpartition("-")[0] for name in lost}:
            theirs = [name for name in told if name.rpartition("-")[0] == person]  # in the order in which they heard
            assert all(name not in receipts for name in theirs[min(theirs.index(n) for n in lost if n in theirs) :])
        assert all(died - told[name] < WRITE_SECONDS + PATIENCE for name in lost)
        assert {name: receipts[name] for name in told if name in receipts}.items() <= trainers.receipts.items()
    with Server(home, log=tmp_path / "log") as server:
        receipts, updates = kept_in_file(home)
        again = [name for name in trainers.receipts if name in receipts][:50]
        assert {trainers.send(server.client, task_id, name) for name in again} == {202}
        assert server.progress(task_id)["contributions"] == updates
        server.train(task_id, 12)
        assert server.progress(task_id)["contributions"] == updates + 12
        assert server.close_task(task_id).status_code == 204
        done = server.wait_for(task_id, "done")
    assert done["result"]["certificate"]["contributors"] == updates + 12
    assert trainers.changed == []
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.slow
def test_a_stopped_process_forgets_nothing(tmp_path: Path) -> None:
    home, trainers = tmp_path / "home", Trainers()
    server = Server(home, log=tmp_path / "log")
    task_id = server.post(TASK)
    with trainers.talking([server], task_id, 0):
        trainers.hear(10)
        time.sleep(0.8)
        assert server.stop() == 0
    receipts, updates = kept_in_file(home)
    assert receipts.items() >= trainers.receipts.items()
    assert len(receipts) == updates >= len(trainers.receipts) > 0
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.slow
@pytest.mark.postgres
def test_two_processes_share_one_training_and_a_killed_one_forgets_nothing(tmp_path: Path) -> None:
    home, store, trainers = tmp_path / "home", new_database(), Trainers()
    with Server(home, store=store, log=tmp_path / "log") as one:
        two = Server(home, store=store, log=tmp_path / "log")
        task_id = one.post(TASK)
        with trainers.talking([one, two], task_id, 0):
            trainers.hear(30)
            time.sleep(1)
            two.kill()
            time.sleep(0.5)
        receipts, updates = kept_in_server(store)
        assert receipts.items() >= trainers.receipts.items()  # nothing that was acknowledged is missing
        assert len(receipts) == updates
        with Server(home, store=store, log=tmp_path / "log") as three:
            again = list(trainers.receipts)[:30]
            for server in (one, three):  # what one process took the others know
                assert {trainers.send(server.client, task_id, name) for name in again} == {202}
            both = [f"both-{number}" for number in range(30)]
            for name in both:
                trainers.bodies[name] = one.update(task_id, name)
            threads = [
                threading.Thread(target=lambda s=server: [trainers.send(s.client, task_id, name) for name in both])
                for server in (one, three)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert set(both) <= set(trainers.receipts)
            after, total = kept_in_server(store)
            assert len(after) == total == updates + 30
            assert three.close_task(task_id).status_code == 204
            done = [server.wait_for(task_id, "done") for server in (one, three)]
        assert done[0]["result"] == done[1]["result"]
        assert done[0]["result"]["updates"] == total
        assert done[0]["contributions"] == total
    assert trainers.changed == []
    assert "Traceback" not in (tmp_path / "log").read_text()
