"""A world's databases tell of no broken promise when all went well, and of each one that was broken."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator import Front, HandClock
from tests.support.federation import Gathering
from tests.support.site_home import site_home
from thebes.coordinator.people.groups import ContributorGroups
from thebes.person.home import Person
from thebes.simulation import example
from thebes.site.algorithm_process import Office
from thebes.site.helping.keys import HelperKeys
from thebes.site.helping.second_server import DATABASE
from thebes.site.helping.store import HelpedTasks
from thebes.site.steward.audit_log import Audit
from thebes.wire.client import CoordinatorClient
from thebes.wire.link import Word

sys.path.insert(0, str(Path(__file__).parents[2]))
from evidence.chaos.invariants import World, broken

PEOPLE = ("person-0", "person-1")
SITE = "site-0"
AGE = {"age": {"type": "range", "low": 0.0, "high": 100.0}}
FEATURIZER = "SELECT age FROM profile.demographics"
DOCUMENTS: list[dict[str, Any]] = [
    {"type": "basic", "epsilon": 0.5, "min_count": 2, "featurizer": FEATURIZER, "aggregator": "median", "bounds": AGE},
    {"type": "bounded", "epsilon": 0.5, "min_count": 2, "featurizer": FEATURIZER, "bounds": AGE},
]
TOKEN = {**DOCUMENTS[1], "name": "with tokens", "anonymity": "token", "group": "friends", "epoch": "first"}
COUNT = {"type": "query", "dataset": "patients", "statistic": "count", "epsilon": 0.5}


async def ask_the_site(folder: Path, office: Office) -> None:
    async def answer(message: dict[str, Any]) -> dict[str, Any]:
        return {"kind": "pong"} if message["kind"] == Word.PING else office.answer(message)

    async with Gathering(folder / "coordinator") as there:
        await there.near(**{SITE: answer})
        assert (await there.asked(COUNT))["status"] == "done"
        assert (await there.asked({**COUNT, "name": "again"}))["result"]["source"] == "cache"


def ask_people(folder: Path) -> dict[str, Any]:
    """Return what was served of each task."""
    with Front(folder / "coordinator", clock=HandClock(datetime.now(UTC))) as front:
        people = []
        for number, name in enumerate(PEOPLE):
            client = CoordinatorClient("http://127.0.0.1:1", transport=front.transport)
            people.append(Person(folder / name, coordinator="http://127.0.0.1:1", client=client, delay=False))
            example.fill(people[-1], seed=number)
        groups = ContributorGroups(front.database, front.home, front.clock)
        groups.create("friends", minimum=2, epoch="first")
        codes = groups.admit("friends", PEOPLE, epoch="first")
        for person in people:
            assert person.enrol("friends", codes[person.home.name])["enrolled"]
        groups.publish("friends", epoch="first")
        tasks = [front.post(document) for document in (*DOCUMENTS, TOKEN)]
        for person in people:
            for task in tasks:
                person.accept(task)
            person.turn()
        while front.closing.step():
            pass
        for person in people:
            person.poll()
            person.close()
        return {task: front.task(task)["result"] for task in tasks}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("healthy")
    (folder / "coordinator").mkdir(mode=0o700)
    (folder / "coordinator" / "coordinator.toml").write_text("min_count_floor = 1\n")
    office = Office(site_home(folder / SITE), SITE)
    asyncio.run(ask_the_site(folder, office))
    for each in (office.ledger, office.outbox, office.audit):
        each.close()
    (folder / "witnessed.json").write_text(json.dumps(ask_people(folder)))
    return folder


def world(folder: Path) -> World:
    witnessed = json.loads((folder / "witnessed.json").read_text())
    return World(folder / "coordinator", [folder / name for name in PEOPLE], [folder / SITE], witnessed)


def told(folder: Path) -> dict[str, set[str]]:
    """Return where, by the invariant that is broken."""
    found: dict[str, set[str]] = {}
    for each in broken(world(folder)):
        found.setdefault(each.rule, set()).add(each.where)
    return found


@pytest.mark.slow
def test_a_healthy_world_keeps_every_promise_and_is_no_empty_one(healthy: Path) -> None:
    there = world(healthy)
    assert len(there.registry.tasks) == len(there.registry.latest) == 5
    assert len(there.registry.contributions) == 6
    assert [len(diary.results) for diary in there.diaries] == [3, 3]
    assert len(there.cabinets[0].answers) == 2
    assert len(there.witnessed) == 3
    assert [str(each) for each in broken(there)] == []


C, P, L = "coordinator/coordinator.db", "person-0/person.db", "person-0/ledger.db"
O, A, S = "site-0/outbox.db", "site-0/audit.db", "site-0/ledger.db"  # noqa: E741
BASIC = "(SELECT id FROM coordinator_task WHERE json_extract(document, '$.type') = 'basic')"
UNLOCKED = "DROP TRIGGER no_change; DROP TRIGGER no_removal;"
ATTEMPTED = "UPDATE ledger_claim SET key = 'pipeline task-' || substr(key, 6) || ' run/1' WHERE key LIKE 'task %'"


def certificate(field: str, value: str) -> str:
    """Another value in every certificate."""
    return f"UPDATE coordinator_release SET body = json_set(body, '$.certificate.{field}', {value})"


BREAKS: list[tuple[str, str, str, str]] = [
    # I1: nothing leaves but with consent and a charge
    ("I1", "coordinator", C, "UPDATE coordinator_contribution SET contributor = 'nobody' || substr(contributor, 7)"),
    ("I1", "coordinator", P, "DELETE FROM membership"),  # then a pseudonym is nobody's
    ("I1", "person-0", P, "UPDATE participation SET consent = ''"),
    ("I1", "person-0", P, "UPDATE participation SET state = 'computed'; UPDATE sending SET receipt = NULL"),
    ("I1", "person-0", L, "DELETE FROM ledger_part"),
    ("I1", SITE, A, UNLOCKED + "UPDATE entry SET body = replace(body, '\"allowed\"', '\"refused\"')"),
    ("I1", SITE, O, "DELETE FROM answer"),
    # I2: spent is never less than released
    ("I2", "person-0", L, "UPDATE ledger_meter SET spent = spent - 1 WHERE spent > 0"),
    ("I2", "person-0", L, "DELETE FROM ledger_journal WHERE number = (SELECT max(number) FROM ledger_journal)"),
    ("I2", "person-0", L, "UPDATE ledger_part SET loss = '{\"epsilon\":\"0.1\"}'"),
    ("I2", SITE, S, "DELETE FROM ledger_part"),
    ("I2", SITE, O, "UPDATE request SET kind = 'pipeline'"),  # of whose attempts the ledger has none
    # I3: one epsilon for a document
    ("I3", "person-0", L, "UPDATE ledger_part SET loss = '{\"epsilon\":\"0.75\"}'"),
    ("I3", SITE, S, "UPDATE ledger_part SET loss = '{\"epsilon\":\"0.75\"}'"),
    ("I3", SITE, S, f"{ATTEMPTED}; UPDATE ledger_charge SET spent = 2 * spent"),
    # I4: every release has its certificate, which claims no more than was paid for
    ("I4", "coordinator", C, "UPDATE coordinator_release SET body = json_remove(body, '$.certificate.adjacency')"),
    ("I4", "coordinator", C, certificate("epsilon", "2")),
    ("I4", "person-0", C, certificate("epsilon", "0.25")),
    ("I4", "coordinator", C, certificate("contributors", "3")),
    # I5: documents, the same for everybody, in one list
    ("I5", "coordinator", C, "UPDATE coordinator_task SET document = json_set(document, '$.code', 'import os')"),
    ("I5", "person-0", P, "UPDATE document SET body = json_set(body, '$.epsilon', 0.1)"),
    ("I5", "coordinator", C, 'UPDATE coordinator_entry SET previous = hash WHERE "index" = 1'),
    ("I5", SITE, O, "UPDATE request SET digest = 'f' || substr(digest, 2)"),
    # I6: the certificate is the one of the same code
    ("I6", "coordinator", C, certificate("mechanism", "'magic'")),
    ("I6", "coordinator", C, certificate("parameters", "json('{}')")),
    # I7: nothing counted twice, nothing lost
    ("I7", "coordinator", C, f"DELETE FROM coordinator_release WHERE task = {BASIC}"),
    ("I7", "a witness", C, f"UPDATE coordinator_release SET body = json_set(body, '$.value', 1) WHERE task = {BASIC}"),
    ("I7", "person-0", C, f"UPDATE coordinator_release SET body = json_set(body, '$.value', 1) WHERE task = {BASIC}"),
    ("I7", "coordinator", C, "DELETE FROM coordinator_contribution"),
    ("I7", "coordinator", C, "UPDATE coordinator_contribution SET receipt = 'the same'"),
    ("I7", "person-0", P, "UPDATE sending SET receipt = 'another'"),
    ("I7", SITE, O, "DELETE FROM answer WHERE part = 'phase-0'"),
    ("I7", SITE, A, UNLOCKED + "UPDATE entry SET body = replace(body, '\"ask\"', '\"asked\"') WHERE number = 1"),
]  # fmt: skip


@pytest.mark.few(9)
@pytest.mark.parametrize(("rule", "where", "file", "sql"), BREAKS, ids=lambda value: value[:40])
def test_each_broken_promise_is_found_where_it_was_broken(
    healthy: Path, tmp_path: Path, rule: str, where: str, file: str, sql: str
) -> None:
    folder = tmp_path / "world"
    shutil.copytree(healthy, folder)
    change(folder / file, sql)
    assert where in told(folder).get(rule, set())


@pytest.mark.slow
def test_a_helper_that_said_no_sum_or_keeps_a_key_of_what_it_said_is_found(healthy: Path, tmp_path: Path) -> None:
    folder = tmp_path / "world"
    shutil.copytree(healthy, folder)
    ward = folder / "ward"
    ward.mkdir()
    with closing(HelpedTasks(ward / DATABASE)):
        keys = HelperKeys(ward)
    assert found_at(ward, folder) == []
    keys.begin("a task that nobody knows")
    assert len(found_at(ward, folder)) == 1
    keys.destroy("a task that nobody knows")
    of_sites = "UPDATE coordinator_task SET document = json_set(document, '$.noise', '{}') WHERE sites IS NOT NULL"
    change(folder / C, of_sites.format("split"))
    assert len(found_at(ward, folder)) == 2, "two questions to sites, of which it added nothing up"
    with closing(Audit(ward / "audit.db")) as audit:
        audit.note(*(("help add", {"task": task}) for task in of_site(folder)))
    assert found_at(ward, folder) == []
    change(ward / "audit.db", f"{UNLOCKED} DELETE FROM entry WHERE number = 1")
    assert len(found_at(ward, folder)) == 2, "a log with a gap, and a sum too few"
    change(folder / C, of_sites.format("site"))
    change(folder / C, "UPDATE coordinator_task SET document = json_set(document, '$.server', 'split')")
    assert len(found_at(ward, folder)) == len(world(folder).registry.latest) + 1


def of_site(folder: Path) -> list[str]:
    """Return the tasks that sites answered."""
    return [task for task, row in world(folder).registry.tasks.items() if row["sites"] is not None]


def found_at(ward: Path, folder: Path) -> list[str]:
    """Return what is broken at a helper."""
    people, sites = [folder / name for name in PEOPLE], [folder / SITE]
    made = World(folder / "coordinator", people, sites, helper=ward)
    return [str(each) for each in broken(made) if each.where == ward.name]


def change(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA foreign_keys = OFF;" + sql)
        connection.commit()
