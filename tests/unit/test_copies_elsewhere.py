"""Homes that came back by other means than `thebes restore`: what `thebes ledger freeze` and `thaw` make of them."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import exit_status
from tests.support.coordinator import AGES, PETS, Front
from tests.support.half_kinds import known
from tests.support.postgres import new_database
from tests.support.site_home import ask, site_home
from thebes.cli.homes import copy as copying
from thebes.cli.homes.examination import Surroundings, examined
from thebes.cli.homes.findings import How
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.database_owner import database_of
from thebes.coordinator.storage.schema import METADATA
from thebes.curator.cache.store import CacheStore as Cache
from thebes.data.growing.block_rule import block_by
from thebes.data.growing.manifest import Manifest
from thebes.data.schema import schema_of
from thebes.ledger import Ledger, NoKeeper
from thebes.site.algorithm_process import Office
from thebes.site.home import SiteHome
from thebes.wire.local_server import Hold

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))

RELAY = {"type": "relay", "dataset": "patients", "epsilon": 1.0, "rounds": 4}
Said = Callable[[str, Path], None]


@pytest.fixture
def says() -> Said:
    def say(name: str, home: Path) -> None:
        assert exit_status("ledger", name, "--home", str(home)) == 0

    return say


def _shut(office: Office) -> None:
    office.ledger.close()
    office.outbox.close()
    office.audit.close()


@pytest.fixture
def half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of a site's folder from between a charge and the answer that it paid for, which then left."""
    office = Office(site_home(tmp_path / "site"), "north")
    keep = office.outbox.keep

    def copy_then_keep(*arguments: Any, **more: Any) -> None:
        shutil.copytree(tmp_path / "site", tmp_path / "copy")
        keep(*arguments, **more)

    monkeypatch.setattr(office.outbox, "keep", copy_then_keep)
    with known("relay"):
        assert office.answer(ask(RELAY))["kind"] == "contribution"
        _shut(office)
        yield tmp_path / "copy"


def _asked(folder: Path, task: str = "t1") -> dict[str, Any]:
    office = Office(SiteHome(folder), "north")
    try:
        return office.answer(ask(RELAY, task=task))
    finally:
        _shut(office)


def test_a_charge_that_a_copied_folder_has_pays_for_no_second_answer(half: Path, says: Said) -> None:
    says("freeze", half)
    assert "restored from a copy" in _asked(half)["reason"]
    says("thaw", half)
    assert "only says again" in _asked(half)["reason"]
    assert _asked(half, task="t2")["kind"] == "contribution"


def test_nor_where_the_ledger_alone_noticed_that_it_is_older(half: Path, says: Said) -> None:
    office = Office(SiteHome(half), "north")
    office.ledger.freeze("this copy is older than the head remembered outside it")
    _shut(office)
    assert _asked(half)["code"] == "budget"
    says("thaw", half)
    assert "only says again" in _asked(half)["reason"]


def test_a_site_that_came_back_starts_says_again_and_hears_that_tasks_are_over(half: Path, says: Said) -> None:
    late = {**RELAY, "expires_at": (datetime.now(UTC) + timedelta(minutes=1)).isoformat()}
    office = Office(SiteHome(half), "north")
    said = office.answer(ask(late, task="t3"))
    for task in ("t4", "t5"):
        office.answer(ask(RELAY, task=task))
    office.outbox.finish("t5")  # and killed before the rest of its claim went back
    _shut(office)
    with closing(sqlite3.connect(half / "outbox.db")) as outbox, outbox:
        past = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
        outbox.execute("UPDATE request SET document = json_set(document, '$.expires_at', ?) WHERE task = 't3'", (past,))
    says("freeze", half)
    for _ in range(2):
        office = Office(SiteHome(half), "north")
        assert office.outbox.answer("t3", said["part"]).body is not None, "it may still be asked for"
        assert office.answer({"kind": "closed", "task": "t4"}) == {"kind": "noted"}
        assert office.outbox.request("t4").state == "closed"
        _shut(office)
    says("thaw", half)
    office = Office(SiteHome(half), "north")
    assert not [claim for claim in office.ledger.claims() if claim.state.open]
    office.ledger.verify()
    _shut(office)


@pytest.mark.parametrize("by", [["freeze"], ["freeze", "thaw"]])
def test_what_a_copied_folder_was_buying_is_paid_anew(tmp_path: Path, says: Said, by: list[str]) -> None:
    home = site_home(tmp_path / "site").folder
    folder = home / "growing" / "visits"
    folder.mkdir(parents=True)
    columns = {"age": {"type": "integer", "low": 0, "high": 100}, "at": {"type": "timestamp"}}
    days = block_by("time:1d", schema_of({"unit": "event", "time": "at", "columns": columns}))
    kept = Manifest(folder / "manifest.db", days)
    kept.begin_with([1])
    kept.seal([block.number for block in kept.blocks()])
    (purchase,) = kept.unsized()
    cache = Cache(home / "cache" / "patients.db")
    token = cache.buying("a synopsis")
    for name in by:
        says(name, home)
    assert cache.buying("a synopsis") != token
    assert set(kept.unsized()).isdisjoint({purchase})
    cache.close()
    kept.close()


# --- a coordinator whose database is of an earlier moment, beside a home that lives on -----------------------------


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def new_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """The address of a database of that name that lies outside of every home."""
    return lambda name: new_database() if request.param == "postgres" else f"sqlite:///{tmp_path}/{name}.db"


def _copy(source: str, target: str) -> None:
    """Every row, as a standby has it that knows nothing of what comes later."""
    with closing(Database(source)) as now, closing(Database(target)) as then:
        for table in METADATA.sorted_tables:
            rows = [row._asdict() for row in now.read(lambda c, t=table: c.execute(t.select()).all())]
            if rows:
                then.write(lambda c, t=table, r=rows: c.execute(t.insert(), r))


@pytest.mark.slow
def test_a_trusted_task_whose_key_lives_on_is_not_answered_from_an_older_database(
    tmp_path: Path, new_store: Callable[[str], str]
) -> None:
    """The key of a task lives until its last phase is over; here the older moment is that before its only one."""
    home, older, newer = tmp_path / "home", new_store("older"), new_store("newer")
    with Front(tmp_path / "before", store=newer) as front:
        task = front.post(AGES)
        front.fill(task, 12, {"age": 41})
        _copy(newer, older)
        shutil.copytree(tmp_path / "before", home)
        front.closing.step()
        assert front.task(task)["status"] == "done", "so would the older one be answered"
    with closing(Hold(home, shared=True)):  # another process of the coordinator
        assert _settle(home, older) != 0
    assert _settle(home, older) == 0
    with Front(home, store=older) as back:
        back.closing.step()
        told = back.task(task)
        assert (told["status"], told.get("result")) == ("failed", None)
        assert back.home.keys.of(task) is None


@pytest.mark.few(1)
def test_a_task_that_owners_noise_goes_on_in_an_older_database_under_the_key_it_has(
    tmp_path: Path, new_store: Callable[[str], str]
) -> None:
    home, store = tmp_path / "home", new_store("database")
    with Front(home, store=store) as front:
        task = front.post(PETS)
        body = front.submission(task, {"species": 0}, "c" * 32)
        assert front.submit(task, body).status_code == 202
    assert _settle(home, store) == 0
    with Front(home, store=store) as back:
        assert back.submit(task, body).status_code == 202, "it is known to be the same"
        back.fill(task, 11, {"species": 0})
        back.closing.step()
        assert back.task(task)["result"]["certificate"]["contributors"] == 12


@pytest.mark.slow
@pytest.mark.postgres
def test_a_home_that_came_back_to_a_database_that_lived_on_says_that_it_must_be_settled(tmp_path: Path) -> None:
    """The keys of tasks are in no copy: what was under way would stay open for ever, and nobody would be told."""
    home, store, sealed = tmp_path / "home", new_database(), "every task under way has its key"
    around = Surroundings(store=store)

    def said() -> dict[str, How]:
        home.chmod(0o700)
        return {finding.what: finding.how for finding in examined(home, around)}

    with closing(database_of(CoordinatorHome(home), store)):
        pass
    with Front(home, store=store) as front:
        task = front.post(AGES)
        front.fill(task, 3, {"age": 41})
    assert said()[sealed] is How.OK
    copying.backup(home, tmp_path / "copy", passphrase="a long passphrase")
    shutil.rmtree(home)
    notices = copying.restore(tmp_path / "copy", home, passphrase="a long passphrase").notices
    assert any("before it is started, thebes settle" in notice for notice in notices)
    assert said()[sealed] is How.BROKEN
    assert _settle(home, store) == 0
    assert said()[sealed] is How.OK


@pytest.mark.slow
def test_a_home_with_its_database_in_it_ends_no_tasks_of_another_coordinator(
    tmp_path: Path, new_store: Callable[[str], str]
) -> None:
    theirs = new_store("theirs")
    with Front(tmp_path / "own"), Front(tmp_path / "other", store=theirs) as other:
        task = other.post(AGES)
        for mistyped in (theirs, f"sqlite:///{tmp_path / 'own' / 'coordinator.db'}"):
            assert _settle(tmp_path / "own", mistyped) == 2
        assert other.task(task)["status"] == "open"
    assert CoordinatorHome(tmp_path / "own").works_on is None
    assert _settle(tmp_path / "own", None) == 0


@pytest.mark.parametrize("made", [{}, {"policy.toml": ""}, {"admin.token": "x"}])
def test_only_a_coordinators_database_is_settled(tmp_path: Path, made: dict[str, str]) -> None:
    for name, text in made.items():
        (tmp_path / name).write_text(text)
    assert _settle(tmp_path, None) == 2
    assert not (tmp_path / "coordinator.db").exists()


def _settle(home: Path, store: str | None) -> int:
    named = [] if store is None else ["--store", store]
    return exit_status("settle", "--home", str(home), *named)


def test_a_ledger_beside_strangers_files_is_not_taken_for_a_homes(tmp_path: Path, says: Said) -> None:
    where = f"sqlite:///{tmp_path}/budget.db"
    Ledger(where, keeper=NoKeeper()).close()
    (tmp_path / "outbox.db").write_bytes(b"something else")
    assert exit_status("ledger", "freeze", where) == 0
    assert (tmp_path / "outbox.db").read_bytes() == b"something else"
