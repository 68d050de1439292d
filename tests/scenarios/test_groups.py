"""A group from its authority's first command to certified answers, over real processes; and what happens to a token
when two coordinators hear it at once, or one is killed."""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

import thebes

sys.path.insert(0, str(Path(__file__).parent))
from processes import PATIENCE, PersonProcess, stopped

from tests.support.coordinator import PETS, Server
from tests.support.peers import Peer, group_of
from tests.support.postgres import new_database
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.people.groups import ContributorGroups
from thebes.coordinator.storage.database import Database
from thebes.person.home import Person
from thebes.simulation import example
from thebes.testing.command import typed
from thebes.wire.refusals import NotAllowed

pytestmark = pytest.mark.slow
MEMBERS, IN_PROCESSES = 14, 2
AGE = {"age": {"type": "range", "low": 0.0, "high": 100.0}}
TOKENS = {"group": "city", "anonymity": "token", "min_count": MEMBERS}
ROWS = {**PETS, "group": "city", "anonymity": "token"}


def test_fourteen_people_answer_with_tokens_and_nobody_can_tell_who(tmp_path: Path) -> None:
    home, names = tmp_path / "coordinator", tmp_path / "people.txt"
    people = [f"citizen-{number:02}" for number in range(MEMBERS)]
    names.write_text("\n".join(people) + "\n")
    with Server(home, log=tmp_path / "log") as server:
        url = server.ready["url"]
        made = typed("group", "create", "city", "--minimum", "10", "--members", names, "--home", home, "--json")
        assert made.returncode == 0, made.stderr
        told = json.loads(made.stdout)
        codes, pin = told["codes"], told["digest"]
        processes = [PersonProcess(tmp_path / f"person-{i}", url, "--example") for i in range(IN_PROCESSES)]
        together = [Person(tmp_path / f"together-{i}", coordinator=url, delay=False) for i in range(MEMBERS - 2)]
        for number, person in enumerate(together):
            example.fill(person, seed=number)
        for process in processes:
            process.ready()
        for process, name in zip(processes, people, strict=False):
            joined = typed("group", "join", "city", "--home", process.home, "--code", codes[name], "--pin", pin)
            assert joined.returncode == 0, joined.stderr
            assert pin in joined.stdout
        for person, name in zip(together, people[IN_PROCESSES:], strict=True):
            assert person.enrol("city", codes[name], pin)["enrolled"]
        early = server.client.post("/api/task", json={**PETS, **TOKENS}, headers=server.admin)
        assert (early.status_code, early.json()["field"]) == (422, "group")  # not published yet
        published = typed("group", "publish", "city", "--home", home)
        assert published.returncode == 0, published.stderr
        late = typed("group", "enrol", "city", "somebody", "--home", home)
        assert (late.returncode, "frozen" in late.stderr) == (1, True)
        shown = typed("group", "show", "city", "--coordinator", url)
        assert pin in shown.stdout
        assert f"{MEMBERS}, at least 10" in shown.stdout

        requestor = thebes.connect(url, token=server.admin_token, timeout=PATIENCE)
        median = requestor.submit(
            {
                "type": "basic",
                "epsilon": 5.0,
                "featurizer": "SELECT age FROM profile.demographics",
                "aggregator": "median",
                "bounds": AGE,
                **TOKENS,
            }
        )
        rows = requestor.submit(
            {
                "type": "bounded",
                "epsilon": 2.0,
                "featurizer": "SELECT species FROM profile.pets",
                "bounds": {"species": {"type": "set", "default": "dog", "values": ["cat", "dog"]}},
                **TOKENS,
            }
        )
        assert [task["document"]["anonymity"] for task in requestor.tasks()] == ["token", "token"]

        # Somebody without a credential cannot even agree, and no made-up body is taken.
        with Person(tmp_path / "fifteenth", coordinator=url, delay=False) as stranger:
            example.fill(stranger, seed=99)
            with pytest.raises(NotAllowed, match="not a member"):
                stranger.accept(median.task_id)
        asked = server.ask(rows.task_id)
        body = {"ask_id": asked["ask_id"], "part": asked["part"], "payload": {"species": 1}}
        assert server.submit(rows.task_id, {**body, "contributor": "somebody"}).status_code == 422
        assert server.submit(rows.task_id, {**body, "token": "A" * 514}).status_code == 403

        for handle in (median, rows):
            for process in processes:
                assert process.accept(handle.task_id) == 202

            def answer(person: Person, task_id: str = handle.task_id) -> str:
                person.accept(task_id)
                return str(person.wait(task_id, timeout=PATIENCE)["state"])

            with ThreadPoolExecutor(4) as pool:
                assert set(pool.map(answer, together)) <= {"sent", "done"}
            for process in processes:
                process.wait(handle.task_id, "sent", "done")
            release = handle.wait(timeout=PATIENCE)
            assert release.certificate.contributors == MEMBERS
            assert str(release.certificate.unit) == "person"
            assert f"hidden among the {MEMBERS} members of the group city" in release.certificate.text
        assert stopped([process.process for process in processes]) == [0] * IN_PROCESSES
        for person in together:
            person.close()
        requestor.close()
    _nothing_links(home / "coordinator.db", people, (tmp_path / "log").read_text())


def _nothing_links(database: Path, people: list[str], logged: str) -> None:
    """No row that has an identity has anything that a row with a pseudonym has, and neither was logged."""
    with closing(sqlite3.connect(database)) as db:
        members = db.execute("SELECT identity, code, request FROM coordinator_member").fetchall()
        taken = db.execute("SELECT task, part, contributor, receipt FROM coordinator_contribution").fetchall()
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        holding = [t for t in tables if people[0] in repr(db.execute(f'SELECT * FROM "{t}"').fetchall())]
    assert sorted(row[0] for row in members) == people
    assert len(taken) == 2 * len(people)
    assert len({row[2] for row in taken}) == 2 * len(people)  # nobody has a name that two tasks share
    assert holding == ["coordinator_member"]
    known = {value for row in members for value in row}
    assert not known & {value for row in taken for value in row}
    assert not [value for row in (*members, *taken) for value in row if value in logged and len(value) > 7]


# --- two at once, and killed --------------------------------------------------------------------------------


@pytest.mark.postgres
def test_two_coordinators_that_hear_one_pseudonym_at_once_store_one_contribution(tmp_path: Path) -> None:
    home, store = tmp_path / "home", new_database()
    with Server(home, store=store) as one, Server(home, store=store) as two:
        peers = _group(home, store, one.client, 14)
        task_id = one.post(ROWS)
        task, asked = one.task(task_id), one.ask(task_id)
        for round_ in range(6):
            peer = peers[round_]
            bodies = [peer.body(task, asked, {"species": number % 2}) for number in range(8)]
            together = threading.Barrier(8)

            def send(place: int, bodies: list[dict[str, Any]] = bodies, together: threading.Barrier = together) -> Any:
                together.wait()
                with httpx.Client(base_url=(one, two)[place // 2 % 2].ready["url"], timeout=PATIENCE) as own:
                    return own.post(f"/api/task/{task_id}/submit", json=bodies[place])

            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(send, range(8)))
            assert sorted(a.status_code for a in answers) == [202] * 4 + [409] * 4
            assert len({a.json()["receipt"] for a in answers if a.status_code == 202}) == 1
        assert one.task(task_id)["contributions"] == 6
        code_holders = [peer.pseudonym(task) for peer in peers[:6]]
        assert len(set(code_holders)) == 6


@pytest.mark.postgres
def test_a_code_used_at_two_coordinators_at_once_gives_one_credential(tmp_path: Path) -> None:
    from tests.support.peers import enrolment

    home, store = tmp_path / "home", new_database()
    with Server(home, store=store) as one, Server(home, store=store) as two:
        database = Database(store)
        register = ContributorGroups(database, CoordinatorHome(home), SystemClock())
        register.create("city", minimum=2, epoch="one")
        for identity in ("ana", "bob", "carla"):
            code = register.admit("city", [identity])[identity]
            together = threading.Barrier(6)

            def enrol(place: int, code: str = code, together: threading.Barrier = together) -> int:
                together.wait()
                with httpx.Client(base_url=(one, two)[place % 2].ready["url"], timeout=PATIENCE) as own:
                    return enrolment(own, "city", code)[1].status_code

            with ThreadPoolExecutor(6) as pool:
                assert sorted(pool.map(enrol, range(6))) == [200] + [409] * 5
        assert register.record("city").size == 3
        database.close()


def test_a_coordinator_killed_between_verifying_and_storing_loses_no_token_and_counts_none_twice(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    server = Server(home)
    peers = _group(home, None, server.client, 40)
    task_id = server.post({**ROWS, "min_count": 40})
    task, asked = server.task(task_id), server.ask(task_id)
    bodies = [peer.body(task, asked, {"species": 1}) for peer in peers]
    receipts: dict[int, str] = {}
    for round_ in range(3):
        url = server.ready["url"]
        timer = threading.Timer(0.02 + 0.03 * round_, server.process.send_signal, [signal.SIGKILL])
        timer.start()

        def send(place: int, url: str = url) -> None:
            try:
                with httpx.Client(base_url=url, timeout=PATIENCE) as own:
                    answer = own.post(f"/api/task/{task_id}/submit", json=bodies[place])
            except httpx.TransportError:
                return
            assert answer.status_code == 202, answer.text
            assert receipts.setdefault(place, answer.json()["receipt"]) == answer.json()["receipt"]

        with ThreadPoolExecutor(12) as pool:
            list(pool.map(send, range(39)))
        timer.join()
        server.kill()
        server = Server(home)
    with server:
        for place in range(39):
            answer = server.submit(task_id, bodies[place])
            assert answer.status_code == 202
            assert receipts.setdefault(place, answer.json()["receipt"]) == answer.json()["receipt"]
        assert server.task(task_id)["contributions"] == 39
        server.submit(task_id, bodies[39])
        assert server.wait_for(task_id, "done")["result"]["certificate"]["contributors"] == 40


def _group(home: Path, store: str | None, client: httpx.Client, count: int) -> list[Peer]:
    place = CoordinatorHome(home)
    database = Database(store or place.store)
    peers = group_of(ContributorGroups(database, place, SystemClock()), client, count)
    database.close()
    return peers


@pytest.fixture(autouse=True)
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
