"""A coordinator's home takes no other database for the one that it works on."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.support.command import exit_status
from tests.support.postgres import new_database
from thebes.cli.homes.examination import Surroundings, examined
from thebes.cli.homes.findings import How
from thebes.coordinator.home import DATABASE, CoordinatorHome
from thebes.coordinator.storage import restored_home
from thebes.coordinator.storage.database_owner import database_of
from thebes.coordinator.storage.schema import CALLED
from thebes.privacy.faults import Mistake

TASK = "0123456789abcdef0123456789abcdef"


WHAT = "the database is the one that this home works on"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """The addresses of two empty databases outside any home."""
    if request.param == "postgres":
        return new_database(), new_database()
    return f"sqlite:///{tmp_path / 'one.db'}", f"sqlite:///{tmp_path / 'two.db'}"


def used(home: CoordinatorHome, store: str | None) -> None:
    database_of(home, store).close()


def test_a_home_goes_on_with_its_own_and_refuses_every_other(stores: tuple[str, str], tmp_path: Path) -> None:
    own, other = stores
    home = CoordinatorHome(tmp_path / "home")
    used(home, own)
    used(CoordinatorHome(tmp_path / "another"), other)
    home.keys.make(TASK)
    for wrong in (other, f"sqlite:///{tmp_path / 'new.db'}", f"sqlite:///{tmp_path / 'home' / 'coordinator.db'}", None):
        with pytest.raises(Mistake, match="that this home works on"):
            used(CoordinatorHome(tmp_path / "home"), wrong)
    assert list(home.keys.older_than(math.inf)) == [TASK]
    used(CoordinatorHome(tmp_path / "home"), own)


def test_a_home_knows_its_own_database_by_whichever_way_it_is_reached(tmp_path: Path) -> None:
    used(CoordinatorHome(tmp_path / "home"), None)
    (tmp_path / "way").symlink_to(tmp_path / "home")
    for way in ("way", "home/../way", "home/keys/.."):
        used(CoordinatorHome(tmp_path / "home"), f"sqlite:///{tmp_path / way / 'coordinator.db'}")
        used(CoordinatorHome(tmp_path / way), f"sqlite:///{tmp_path / 'home' / 'coordinator.db'}")
    assert CoordinatorHome(tmp_path / "home").works_on is None


def test_a_home_that_came_first_upon_a_database_of_others_takes_its_name(
    stores: tuple[str, str], tmp_path: Path
) -> None:
    """As when several machines begin at once, or one dies between the two halves."""
    used(CoordinatorHome(tmp_path / "one"), stores[0])
    used(CoordinatorHome(tmp_path / "two"), stores[0])
    assert (tmp_path / "one" / DATABASE).read_bytes() == (tmp_path / "two" / DATABASE).read_bytes()
    os.unlink(tmp_path / "one" / DATABASE)
    used(CoordinatorHome(tmp_path / "one"), stores[0])
    assert (tmp_path / "one" / DATABASE).read_bytes() == (tmp_path / "two" / DATABASE).read_bytes()


def test_a_home_of_before_that_has_tasks_begins_with_a_database_that_has_one_of_them(
    stores: tuple[str, str], tmp_path: Path
) -> None:
    home = CoordinatorHome(tmp_path / "home")
    home.keys.make(TASK)
    with pytest.raises(Mistake, match="has no task of this home"):
        used(home, stores[0])
    assert home.works_on is None
    home.keys.destroy(TASK)
    used(home, stores[0])
    assert home.works_on is not None


def test_a_home_with_its_database_in_it_begins_no_other_beside_that(stores: tuple[str, str], tmp_path: Path) -> None:
    home = CoordinatorHome(tmp_path / "home")
    used(home, None)
    with pytest.raises(Mistake, match="must be left out"):
        used(home, stores[0])
    used(home, home.own_store)
    assert home.works_on is None


@pytest.mark.few(1)
def test_a_command_refuses_it_and_creates_nobody(
    stores: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    used(CoordinatorHome(home), stores[0])
    used(CoordinatorHome(tmp_path / "another"), stores[1])
    for arguments in (
        ["user", "list"],
        ["rotate", "log.key"],
        ["forget", TASK],
        ["group", "publish", "club"],
        ["settle"],
        ["coordinator", "--port", "0"],
    ):
        status = exit_status(*arguments, "--home", str(home), "--store", stores[1])
        assert status == 2, arguments
        assert "is not the database that this home works on" in capsys.readouterr().err


def test_one_that_was_brought_back_without_its_name_has_it_again_once_it_is_settled(
    stores: tuple[str, str], tmp_path: Path
) -> None:
    home = CoordinatorHome(tmp_path / "home")
    used(home, stores[0])
    database = database_of(home, stores[0])
    database.write(lambda connection: connection.execute(sa.delete(CALLED)))
    database.close()
    with pytest.raises(Mistake, match="thebes settle"):
        used(home, stores[0])
    assert restored_home.settle(home.folder, stores[0]) == 0
    used(home, stores[0])


@pytest.mark.postgres
def test_the_doctor_says_whether_it_is_the_right_one(tmp_path: Path) -> None:
    home, own, other = CoordinatorHome(tmp_path / "home"), new_database(), new_database()
    used(home, own)
    found = [{f.what: f.how for f in examined(home.folder, Surroundings(store=each))} for each in (own, other)]
    assert [each[WHAT] for each in found] == [How.OK, How.BROKEN]
