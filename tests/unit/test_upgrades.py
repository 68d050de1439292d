"""Homes that an earlier version wrote are opened and go on; one that a newer version wrote is left as it is.

The homes in `fixtures/written-earlier` were written by the program as it was on 21 November 2026 (a coordinator, and a
person who took part there) and a few hours later (a site), with made-up people and throw-away keys; the coordinator's
tables were brought to those of 0.1.0 since, the first that were released. What they hold was put in the same tables of
PostgreSQL, too.
"""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.coordinator import Front
from tests.support.postgres import new_database
from tests.support.site_home import ask
from thebes.cli.homes.examination import Surroundings, examined
from thebes.cli.homes.findings import How
from thebes.coordinator.storage.database import Database, StoreUnavailable
from thebes.coordinator.storage.schema import VERSIONS
from thebes.data import keys
from thebes.data.store import Store
from thebes.data.store.vault import connect
from thebes.database import version_mark
from thebes.database.version_mark import NewerTables
from thebes.database.versions import Versions
from thebes.ledger import Ledger, LedgerUnavailable, NoKeeper
from thebes.ledger.schema import VERSIONS as OF_LEDGERS
from thebes.person.home import Person
from thebes.privacy.faults import ThebesError
from thebes.site.algorithm_process import Office
from thebes.site.home import SiteHome
from thebes.site.requests.response_store import ResponseStore
from thebes.site.steward.audit_log import Audit
from thebes.wire import task_log
from thebes.wire.client import CoordinatorClient

KEPT = Path(__file__).parents[1] / "fixtures" / "written-earlier"
QUERY = {"type": "query", "sites": "all", "dataset": "patients", "statistic": "count", "epsilon": 0.5}


def written(role: str, home: Path) -> Path:
    """A home as that version left it."""
    told: dict[str, Any] = json.loads((KEPT / f"{role}.json").read_text(encoding="utf-8"))
    home.mkdir(mode=0o700)
    for name, content in told["files"].items():
        path = home / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        text = content.get("text")
        path.write_bytes(bytes.fromhex(content["hex"]) if text is None else text.replace("HOME", str(home)).encode())
        path.chmod(0o600)
    for name, statements in told["databases"].items():
        path = home / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if name.startswith("store/"):
            opened = connect(path, keys.key_of(home))
            opened.execute("\n".join(statements))
            opened.close()
        else:
            with closing(sqlite3.connect(path)) as made:
                made.execute("PRAGMA journal_mode=WAL")  # as every home's
                made.executescript("\n".join(statements))
        path.chmod(0o600)
    return home


def driven(where: str) -> sa.Engine:
    return sa.create_engine(where.replace("postgresql:", "postgresql+psycopg:"))


def moved(file: Path, versions: Versions) -> str:
    """The address of a PostgreSQL with the first tables, and in them what this file held, which is gone."""
    where = new_database()
    engine = driven(where)
    with closing(sqlite3.connect(file)) as kept, engine.begin() as connection:
        dataclasses.replace(versions, newest=versions.oldest).upgrade(connection)
        made = sa.MetaData()
        made.reflect(connection)
        for table in made.sorted_tables:
            asked = kept.execute(f'SELECT * FROM "{table.name}"')
            names = [column[0] for column in asked.description]
            rows = [dict(zip(names, row, strict=True)) for row in asked]
            connection.execute(table.delete())  # of the version's
            if rows:
                connection.execute(table.insert(), rows)
            if table.name == "ledger_claim":  # it numbers them itself
                connection.exec_driver_sql("SELECT setval('ledger_claim_id_seq', max(id)) FROM ledger_claim")
    engine.dispose()
    file.unlink()
    return where


def of_coordinator(home: Path, on: str) -> str:
    """The address of the database of a coordinator that was `written`."""
    file = written("coordinator", home) / "coordinator.db"
    return moved(file, VERSIONS) if on == "postgres" else f"sqlite:///{file}"


def of_site(home: Path, on: str) -> str:
    """The address of the ledger of a site that was `written`."""
    file = written("site", home) / "ledger.db"
    return moved(file, OF_LEDGERS) if on == "postgres" else f"sqlite:///{file}"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def on(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def front(tmp_path: Path, on: str) -> Iterator[Front]:
    store = of_coordinator(tmp_path / "coordinator", on)
    with Front(tmp_path / "coordinator", store=store) as opened:
        yield opened


@pytest.fixture
def me(tmp_path: Path, front: Front) -> Iterator[Person]:
    written("person", tmp_path / "person")
    client = CoordinatorClient("http://127.0.0.1:1", transport=front.transport, retries=0)
    with Person(tmp_path / "person", client=client, delay=False) as opened:
        yield opened


def named(front: Front) -> dict[str, dict[str, Any]]:
    told = [*front.client.get("/api/task").json(), *front.client.get("/api/task", params={"state": "ended"}).json()]
    return {each["document"]["name"]: each for each in told}


@pytest.mark.few(1)
def test_a_coordinators_tables_become_those_of_now_and_its_tasks_go_on(front: Front, tmp_path: Path) -> None:
    assert front.database.read(VERSIONS.of) == VERSIONS.newest
    tasks = named(front)
    assert {name: task["status"] for name, task in tasks.items()} == {"done": "done", "trusted": "open", "rows": "open"}
    assert {name: task["contributions"] for name, task in tasks.items() if name != "done"} == {"trusted": 4, "rows": 1}
    with closing(sqlite3.connect(written("coordinator", tmp_path / "another") / "coordinator.db")) as before:
        ((body,),) = before.execute("SELECT body FROM coordinator_release").fetchall()
    assert front.task(tasks["done"]["task_id"])["result"] == json.loads(body)
    front.fill(tasks["trusted"]["task_id"], 8, {"age": 41})
    front.closing.step()
    ended = front.task(tasks["trusted"]["task_id"])
    assert (ended["status"], ended["result"]["certificate"]["contributors"]) == ("done", 12)
    login = {"username": "ana", "password": "a long password"}
    assert front.client.post("/api/login", json=login).status_code == 200
    key = json.loads((KEPT / "person.json").read_text())["files"]["coordinator.key"]["text"].strip()
    seen = task_log.verify(front.client.get("/api/log").json(), key=key).seen
    assert seen.length == 4  # three tasks, and the release that was made here


@pytest.mark.few(1)
def test_a_persons_home_goes_on_where_it_was(me: Person, front: Front) -> None:
    tasks = named(front)
    assert me.store()[0]["tables"][0]["rows"] == 1
    assert {each["task_id"]: each["state"] for each in me.participations()} == {
        tasks["trusted"]["task_id"]: "sent",
        tasks["rows"]["task_id"]: "sent",
    }
    assert me.verify()["whole"]
    assert me.ledger()["trusted"]["overall"]["spent"]["epsilon"] == 1.0
    assert me.ledger()["local"]["overall"]["spent"]["epsilon"] == 2.0
    assert me.settings().delay_seconds == 60.0
    assert me.rules()[0]["epsilon_at_most"] == 0.1
    assert me.withdraw(tasks["rows"]["task_id"])["state"] == "withdrawn"
    assert front.task(tasks["rows"]["task_id"])["contributions"] == 0
    again = front.post({**tasks["trusted"]["document"], "name": "new"})
    me.accept(again)
    assert me.wait(again, timeout=60)["state"] == "sent"


def test_what_may_no_longer_be_asked_goes_on_where_it_was_accepted(tmp_path: Path) -> None:
    """A sum for which only people with a value took part: homes of then hold such, and are not locked by the rule."""

    def summed(text: str) -> str:
        return json.dumps({**json.loads(text), "aggregator": "sum"})

    with closing(sqlite3.connect(written("coordinator", tmp_path / "coordinator") / "coordinator.db")) as kept:
        kept.create_function("summed", 1, summed)
        kept.execute("UPDATE coordinator_task SET document = summed(document) WHERE document LIKE '%\"median\"%'")
        kept.commit()
    with Front(tmp_path / "coordinator", store=f"sqlite:///{tmp_path / 'coordinator' / 'coordinator.db'}") as front:
        tasks = named(front)
        assert tasks["trusted"]["document"]["missing"] == "refuse"
        assert front.task(tasks["trusted"]["task_id"])["explanation"]
        for page in ("", "/release.csv"):
            assert front.client.get(f"/task/{tasks['done']['task_id']}{page}").status_code == 200
        front.fill(tasks["trusted"]["task_id"], 8, {"age": 41})
        front.closing.step()
        ended = front.task(tasks["trusted"]["task_id"])
        assert (ended["status"], ended["result"]["certificate"]["contributors"]) == ("done", 12)
        told = front.client.post("/api/check", json=tasks["trusted"]["document"]).json()
        assert [problem["field"] for problem in told["problems"]] == ["missing"]  # nobody may ask this now


def test_a_persons_home_opens_with_what_may_no_longer_be_asked(tmp_path: Path) -> None:
    home = written("person", tmp_path / "person")
    with closing(sqlite3.connect(home / "person.db")) as kept:
        kept.execute("UPDATE document SET body = replace(body, '\"median\"', '\"sum\"')")
        kept.commit()
    client = CoordinatorClient("http://127.0.0.1:1", retries=0)
    with Person(home, client=client, delay=False) as opened:
        assert [each["state"] for each in opened.participations()] == ["sent", "sent"]


def test_a_ledger_goes_on_where_it_was(tmp_path: Path, on: str) -> None:
    with closing(Ledger(of_site(tmp_path / "site", on), keeper=NoKeeper())) as ledger:
        ledger.verify()
        assert [claim.key for claim in ledger.claims()] == ["task t1"]
        assert float(ledger.remaining("patients").epsilon) == 9.5
        again = ledger.reserve(["patients"], spender="ana", purpose="query", epsilon=1.0, key="task new")
        again.acquire()
        again.consume()
        assert [claim.key for claim in ledger.claims()] == ["task t1", "task new"]
        assert float(ledger.remaining("patients").epsilon) == 8.5
        ledger.verify()


def test_a_site_says_again_what_it_had_said_for_nothing(tmp_path: Path) -> None:
    written("site", tmp_path / "site")
    with closing(sqlite3.connect(tmp_path / "site" / "outbox.db")) as kept:
        ((body,),) = kept.execute("SELECT body FROM answer").fetchall()
    office = Office(SiteHome(tmp_path / "site"), "north")
    try:
        before = office.ledger.remaining("patients")
        answer = office.answer(ask(QUERY))
        assert answer["kind"] == "contribution"
        assert json.dumps(answer["payload"]["totals"])[1:-1].encode() in bytes(body)
        assert office.ledger.remaining("patients") == before
        assert float(before.epsilon) == 9.5
        assert office.answer(ask(QUERY, task="new"))["kind"] == "contribution"
        office.audit.verify()
        office.ledger.verify()
    finally:
        office.ledger.close()
        office.outbox.close()
        office.audit.close()


# --- of a newer version ------------------------------------------------------------------------------------------


def newer(path: Path, statement: str, key: bytes | None = None) -> None:
    if key is None:
        with closing(sqlite3.connect(path)) as opened:
            opened.execute(statement)
            opened.commit()
        return
    sealed = connect(path, key)
    sealed.execute(statement)
    sealed.close()


NUMBER = f"PRAGMA user_version = {version_mark.NEWEST + 1}"
OPENERS: dict[str, tuple[str, str, str, Callable[[Path], Any], type[ThebesError]]] = {
    "book": ("person", "person.db", NUMBER, Person, NewerTables),
    "store": ("person", "store/metadata.db", NUMBER, Store.open, NewerTables),
    "outbox": ("site", "outbox.db", NUMBER, lambda home: ResponseStore(home / "outbox.db"), NewerTables),
    "audit log": ("site", "audit.db", NUMBER, lambda home: Audit(home / "audit.db"), NewerTables),
    "ledger": (
        "person",
        "ledger.db",
        "UPDATE ledger_version SET version_num = '9999'",
        lambda home: Ledger(f"sqlite:///{home}/ledger.db", keeper=NoKeeper()),
        LedgerUnavailable,
    ),
    "coordinator": (
        "coordinator",
        "coordinator.db",
        "UPDATE coordinator_version SET version_num = '9999'",
        lambda home: Database(f"sqlite:///{home}/coordinator.db"),
        StoreUnavailable,
    ),
}


@pytest.mark.parametrize("what", OPENERS)
def test_what_a_newer_version_wrote_is_refused_in_words_and_left_as_it_is(tmp_path: Path, what: str) -> None:
    role, name, statement, opener, refusal = OPENERS[what]
    home = tmp_path / role
    written(role, home)
    newer(home / name, statement, keys.key_of(home) if what == "store" else None)
    before = (home / name).read_bytes()
    with pytest.raises(refusal, match="newer version of Thebes"):
        opener(home)
    assert (home / name).read_bytes() == before
    if what != "store":  # which only its key opens
        found = {each.what: each.how for each in examined(home, Surroundings(clock=lambda: 1893499200.0))}
        assert found[f"{name} has the tables of this version"] is How.BROKEN


ON_A_SERVER: dict[str, tuple[Callable[[Path, str], str], Versions, Callable[[str], Any], type[ThebesError]]] = {
    "coordinator": (of_coordinator, VERSIONS, Database, StoreUnavailable),
    "ledger": (of_site, OF_LEDGERS, lambda where: Ledger(where, keeper=NoKeeper()), LedgerUnavailable),
}


@pytest.mark.postgres
@pytest.mark.parametrize("what", ON_A_SERVER)
def test_what_a_newer_version_wrote_in_postgresql_is_refused_in_words_and_left_as_it_is(
    tmp_path: Path, what: str
) -> None:
    make, versions, opener, refusal = ON_A_SERVER[what]
    where = make(tmp_path / "home", "postgres")
    engine = driven(where)
    with engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE {versions.table} SET version_num = '9999'")
    before = held(engine)
    assert before[versions.table] == [("9999",)]
    with pytest.raises(refusal, match="newer version of Thebes"):
        opener(where)
    assert held(engine) == before
    found = [*examined(tmp_path / "home", Surroundings(store=where, clock=time.time))]
    assert [each.how for each in found if each.what == "the database has the tables of this version"] == [How.BROKEN]
    engine.dispose()


def held(engine: sa.Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, by its columns of now."""
    made = sa.MetaData()
    with engine.connect() as connection:
        made.reflect(connection)
        return {
            f"{table.name}": [tuple(row) for row in connection.execute(table.select().order_by(*table.columns))]
            for table in made.sorted_tables
        }
