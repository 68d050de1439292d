"""All that is over can be deleted: a task at its coordinator, everything at a person."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.command import exit_status
from tests.support.coordinator import AGES, PETS, Front, HandClock
from tests.support.postgres import new_database
from thebes.coordinator.sites.helped_store import HelpedStore
from thebes.coordinator.storage.schema import FAREWELL, HELPED, METADATA
from thebes.person.home import Person
from thebes.wire import task_log

Run = Callable[..., tuple[int, str, str]]
WORD = "Wherefore we ask this"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def go(*arguments: object, typed: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        return exit_status(*arguments), *capsys.readouterr()

    return go


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest) -> str | None:
    """The address of a database that is not in the home, or None."""
    return new_database() if request.param == "postgres" else None


@pytest.fixture
def front(tmp_path: Path, clock: HandClock, store: str | None) -> Iterator[Front]:
    with Front(tmp_path / "home", clock=clock, store=store) as opened:
        yield opened


def of(front: Front, store: str | None) -> list[str]:
    """Return how the command is told of this coordinator."""
    return ["--home", str(front.home.folder), *([] if store is None else ["--store", store])]


def kept(front: Front, store: str | None) -> bytes:
    """All that its database holds: every byte of a file, or every row. What PostgreSQL leaves on its disk is its own
    matter (docs/keeping.md)."""
    if store is None:
        return b"".join(path.read_bytes() for path in sorted(front.home.folder.glob("coordinator.db*")))
    rows = front.database.read(
        lambda c: [tuple(row) for table in METADATA.sorted_tables for row in c.execute(table.select())]
    )
    return repr(rows).encode()


@pytest.mark.few(1)
@pytest.mark.parametrize(("document", "payload"), [(AGES, {"age": 41}), (PETS, None)], ids=["sealed", "noised"])
def test_of_a_forgotten_task_its_place_in_the_list_is_left_and_nothing_else(
    front: Front, store: str | None, run: Run, document: dict[str, object], payload: dict[str, object] | None
) -> None:
    task, other = front.post({**document, "purpose": WORD}), front.post(AGES)
    seen = task_log.verify(front.client.get("/api/log").json())
    status, _, err = run("forget", task, *of(front, store))
    assert (status, "is under way" in err) == (1, True)
    receipts = front.fill(task, 3, payload) if payload else []
    front.client.delete(f"/api/task/{task}", headers=front.admin)
    status, _, err = run("forget", task, *of(front, store))
    assert (status, "ended just now" in err) == (1, True)
    front.closing.step()
    assert WORD.encode() in kept(front, store)
    status, out, _ = run("forget", task, *of(front, store))
    assert (status, out.split()) == (0, [task])
    assert front.client.get(f"/api/task/{task}").status_code == 404
    assert not (front.home.folder / "keys" / task).exists()
    for told in (WORD, *receipts):
        assert told.encode() not in kept(front, store)
    for receipt in receipts:
        assert front.client.delete(f"/api/task/{task}/submit", params={"receipt": receipt}).status_code == 404
    again = task_log.verify(front.client.get("/api/log").json(), key=seen.key, seen=seen.seen)
    assert again.seen == seen.seen
    assert front.task(other)["status"] == "open"
    assert run("forget", task, *of(front, store))[0] == 1


def test_by_a_date_what_is_over_and_older_goes(front: Front, store: str | None, clock: HandClock, run: Run) -> None:
    old, still, young = front.post(AGES), front.post(AGES), ""
    clock.move(days=40)
    young = front.post(AGES)
    for task in (old, young):
        front.client.delete(f"/api/task/{task}", headers=front.admin)
    front.closing.step()
    date = clock.now().strftime("%Y-%m-%d")
    status, out, _ = run("forget", "--before", date, *of(front, store))
    assert (status, out.split()) == (0, [old])
    assert [front.client.get(f"/api/task/{task}").status_code for task in (old, still, young)] == [404, 200, 200]


@pytest.mark.few(1)
def test_a_task_is_kept_until_institutions_heard_that_it_is_over(front: Front, store: str | None, run: Run) -> None:
    task = front.post(AGES)
    front.client.delete(f"/api/task/{task}", headers=front.admin)
    front.closing.step()
    front.database.write(lambda c: c.execute(FAREWELL.insert().values(site="north", task=task)))
    status, _, err = run("forget", task, *of(front, store))
    assert (status, "north has not heard" in err) == (1, True)
    assert run("forget", task, "--untold", *of(front, store))[0] == 0


@pytest.mark.few(1)
def test_a_task_is_kept_until_its_helper_was_to_be_told_that_it_is_over(
    front: Front, store: str | None, run: Run
) -> None:
    """Its farewell is written down by the process that speaks with sites, which may come to that later."""
    task = front.post(AGES)
    front.client.delete(f"/api/task/{task}", headers=front.admin)
    front.closing.step()
    front.database.write(lambda c: c.execute(HELPED.insert().values(task=task, helper="ward", told=0)))
    status, _, err = run("forget", task, *of(front, store))
    assert (status, "ward has not heard" in err) == (1, True)
    HelpedStore(front.database).say_farewells()
    status, _, err = run("forget", task, *of(front, store))
    assert (status, "ward has not heard" in err) == (1, True)
    front.database.write(lambda c: c.execute(FAREWELL.delete()))
    assert run("forget", task, *of(front, store))[0] == 0


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "must be named"),
        (["x" * 32, "--before", "2026-01-01"], "must be named"),
        (["--before", "yesterday"], "must be a date"),
        (["--before", ""], "must be a date"),
    ],
)
def test_what_is_to_be_forgotten_is_said_one_way(
    front: Front, store: str | None, run: Run, arguments: list[str], said: str
) -> None:
    status, _, err = run("forget", *arguments, *of(front, store))
    assert (status, said in err) == (2, True)


@pytest.mark.postgres
@pytest.mark.parametrize("store", ["postgres"], indirect=True)
def test_a_database_that_is_not_in_the_home_is_named(front: Front, run: Run) -> None:
    status, _, err = run("forget", "--before", "2026-01-01", "--home", front.home.folder)
    assert (status, "--store" in err) == (2, True)


def test_a_person_destroys_everything_with_the_words_and_nothing_without(tmp_path: Path, run: Run) -> None:
    home = tmp_path / "me"
    Person(home).close()
    kept = sorted(path.name for path in home.iterdir())
    status, _, err = run("person", "--home", home, "--destroy", typed="yes\n")
    assert (status, "nothing was changed" in err) == (2, True)
    assert sorted(path.name for path in home.iterdir()) == kept
    assert run("person", "--home", home, "--destroy", typed="destroy everything\n")[0] == 0
    assert not list(home.iterdir())
    assert run("person", "--home", tmp_path, "--destroy", typed="destroy everything\n")[0] == 2
