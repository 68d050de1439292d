"""Opening databases of any version: made once, changed once, a newer one left alone."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from thebes.coordinator.storage.database import Database
from thebes.coordinator.storage.schema import VERSIONS as COORDINATOR
from thebes.database.versions import Versions
from thebes.ledger.refusals import LedgerUnavailable
from thebes.ledger.schema import VERSIONS as LEDGER
from thebes.ledger.sqlite import SqliteStore


def test_threads_make_databases_of_different_kinds_at_the_same_time(tmp_path: Path) -> None:
    def opened(number: int) -> None:
        if number % 2:
            SqliteStore(tmp_path / f"{number}.db").close()
        else:
            Database(f"sqlite:///{tmp_path}/{number}.db").close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(opened, range(16)))
    for number in range(16):
        versions = LEDGER if number % 2 else COORDINATOR
        with closing(sqlite3.connect(tmp_path / f"{number}.db")) as connection:
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert tables == {*versions.metadata.tables, versions.table}


@pytest.mark.parametrize("versions", [LEDGER, COORDINATOR], ids=["ledger", "coordinator"])
def test_reaching_the_newest_version_again_changes_nothing(tmp_path: Path, versions: Versions) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/some.db")
    with engine.begin() as connection:
        assert versions.of(connection) is None
        assert versions.reach_newest(connection)
        before = connection.exec_driver_sql("SELECT sql FROM sqlite_master ORDER BY name").all()
        assert versions.reach_newest(connection)
        assert connection.exec_driver_sql("SELECT sql FROM sqlite_master ORDER BY name").all() == before
        assert versions.of(connection) == versions.newest
    engine.dispose()


def test_a_ledger_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "budget.db").close()
    with closing(sqlite3.connect(tmp_path / "budget.db")) as connection:
        connection.execute(f"UPDATE {LEDGER.table} SET version_num = '9999'")
        connection.commit()
    with pytest.raises(LedgerUnavailable, match="newer"):
        SqliteStore(tmp_path / "budget.db")
    with closing(sqlite3.connect(tmp_path / "budget.db")) as connection:
        assert connection.execute(f"SELECT version_num FROM {LEDGER.table}").fetchone() == ("9999",)


def test_groups_and_their_members_stay_when_their_names_move_into_the_parameters(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'db'}")
    with engine.begin() as connection:
        assert replace(COORDINATOR, newest="0003").reach_newest(connection)
        connection.execute(sa.text("INSERT INTO coordinator_group VALUES ('city', 'one', '{}', 1.0, 2, 0)"))
        member = "INSERT INTO coordinator_member (name, epoch, identity, code) VALUES ('city', 'one', 'ana', 'x')"
        connection.execute(sa.text(member))
    with engine.begin() as connection:
        assert COORDINATOR.reach_newest(connection)
        kept = connection.execute(sa.text("SELECT * FROM coordinator_group")).all()
        assert [tuple(row) for row in kept] == [("city", "one", "{}", 1.0, 2)]
        assert connection.execute(sa.text("SELECT identity FROM coordinator_member")).scalar() == "ana"
    engine.dispose()
