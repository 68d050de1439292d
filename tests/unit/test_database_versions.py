"""Opening databases of any version: made once, changed once, a newer one left alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from thebes.cli.homes.examination import Surroundings, examined
from thebes.cli.homes.findings import How
from thebes.coordinator.storage.database import Database, StoreUnavailable
from thebes.coordinator.storage.schema import VERSIONS as COORDINATOR
from thebes.database.versions import Versions
from thebes.ledger.refusals import LedgerUnavailable
from thebes.ledger.schema import VERSIONS as LEDGER
from thebes.ledger.sqlite import SqliteStore

Build = Callable[[Versions, sa.Connection], object]


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


@pytest.mark.parametrize("versions", [LEDGER, COORDINATOR], ids=["ledger", "coordinator"])
@pytest.mark.parametrize("build", [Versions.upgrade, Versions.reach_newest], ids=["by changes", "at once"])
def test_migrations_build_exactly_the_tables_of_the_schema(tmp_path: Path, versions: Versions, build: Build) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/some.db")
    with engine.begin() as connection:
        build(versions, connection)
        assert versions.of(connection) == versions.newest
        context = MigrationContext.configure(connection, opts={"version_table": versions.table})
        assert compare_metadata(context, versions.metadata) == []
        look = "SELECT sql FROM sqlite_master WHERE name = ?"
        made = {name: connection.exec_driver_sql(look, (name,)).scalar_one() for name in versions.metadata.tables}
    for name, table in versions.metadata.tables.items():  # autogenerate sees neither of these
        checks = [str(each.sqltext) for each in table.constraints if isinstance(each, sa.CheckConstraint)]
        assert all(check in made[name] for check in checks)
        assert ("WITHOUT ROWID" in made[name]) is (table.dialect_options["sqlite"]["with_rowid"] is False)
    script = ScriptDirectory(str(versions.migrations))
    assert (script.get_heads(), script.get_bases()) == ([versions.newest], [versions.oldest])
    engine.dispose()


@pytest.mark.parametrize("versions", [LEDGER, COORDINATOR], ids=["ledger", "coordinator"])
def test_a_new_database_has_what_all_changes_lead_to(tmp_path: Path, versions: Versions) -> None:
    found = []
    for name, build in (("changed", versions.upgrade), ("new", versions.reach_newest)):
        engine = sa.create_engine(f"sqlite:///{tmp_path}/{name}.db")
        with engine.begin() as connection:
            build(connection)
            tables = connection.exec_driver_sql("SELECT type, name, tbl_name FROM sqlite_master ORDER BY 1, 2").all()
            columns = [  # in whichever order: all are named wherever they are read or written
                sorted(str(row[1:]) for row in connection.exec_driver_sql(f"PRAGMA {look}({table})"))
                for table in [*versions.metadata.tables, versions.table]
                for look in ("table_xinfo", "index_list", "foreign_key_list")
            ]
            rows = connection.exec_driver_sql(f"SELECT * FROM {versions.table}").all()
        engine.dispose()
        found.append((tables, columns, rows))
    assert found[0] == found[1]


@pytest.mark.parametrize("number", range(1, 9))
def test_a_coordinators_database_of_no_released_version_is_refused_in_words_and_left_alone(
    tmp_path: Path, number: int
) -> None:
    file = tmp_path / "coordinator.db"
    Database(f"sqlite:///{file}").close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"UPDATE {COORDINATOR.table} SET version_num = '{number:04}'")
        connection.commit()
        before = list(connection.iterdump())
    with pytest.raises(StoreUnavailable, match=r"before 0\.1\.0.*move it away and begin with a new one"):
        Database(f"sqlite:///{file}")
    with closing(sqlite3.connect(file)) as connection:
        assert list(connection.iterdump()) == before
    engine = sa.create_engine(f"sqlite:///{file}")
    with engine.begin() as connection:  # also whoever did not look before
        assert not COORDINATOR.reach_newest(connection)
    engine.dispose()
    found = {each.what: each for each in examined(tmp_path, Surroundings(clock=lambda: 1893499200.0))}
    told = found["coordinator.db has the tables of this version"]
    assert told.how is How.BROKEN
    assert "move it away and begin with a new one" in told.advice
