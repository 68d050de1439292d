"""The collectors' SDK: all of a run or nothing, once, from one version to the next."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from thebes.collector import Collector, CollectorFailed, Option, Outcome, Session, table
from thebes.collectors import session as sessions
from thebes.collectors.declaration import checked, declaration
from thebes.collectors.installation import Installed, Record
from thebes.collectors.options import read_interval, read_options
from thebes.collectors.registry import load, offers
from thebes.privacy.faults import Mistake, Refusal
from thebes.testing.collectors import HomeOnDisk
from thebes.wire.refusals import Conflict, Unreachable


@pytest.fixture
def home(tmp_path: Path) -> Iterator[HomeOnDisk]:
    made = HomeOnDisk(tmp_path / "home")
    yield made
    made.close()


class Diary(Collector):
    """Reads lines of a text file that grows; remembers how many it has seen."""

    name = "diary"
    description = "Lines of a diary."
    reads = "The file you name."
    tables = (table("lines", "One line each", number=("integer", "which"), text=("string", "what stands there")),)
    options = (Option("file", "the diary", "path", required=True),)

    def collect(self, session: Session) -> None:
        lines = Path(session.options["file"]).read_text().splitlines()
        for number in range(session.state.get("seen", 0), len(lines)):
            session.insert("lines", {"number": number, "text": lines[number]})
        session.state["seen"] = len(lines)


class NewDiary(Diary):
    """Version 2 has one more column and another name in its state."""

    version = 2
    tables = (
        table(
            "lines",
            "One line each",
            number=("integer", "which"),
            text=("string", "what stands there"),
            length=("integer", "its characters"),
        ),
    )
    migrations = {1: lambda state: {"lines": state["seen"]}}  # noqa: RUF012

    def collect(self, session: Session) -> None:
        lines = Path(session.options["file"]).read_text().splitlines()
        for number in range(session.state.get("lines", 0), len(lines)):
            session.insert("lines", {"number": number, "text": lines[number], "length": len(lines[number])})
        session.state["lines"] = len(lines)


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    path = tmp_path / "diary.txt"
    path.write_text("one\ntwo\n")
    return path


def test_running_twice_adds_what_is_new_and_nothing_twice(home: HomeOnDisk, diary: Path) -> None:
    assert home.collect(Diary(), "--file", str(diary)) == Outcome(2, 0)
    assert home.collect(Diary(), "--file", str(diary)) == Outcome(0, 0)
    diary.write_text("one\ntwo\nthree\n")
    assert home.collect(Diary(), "--file", str(diary)) == Outcome(1, 0)
    assert [row["text"] for row in home.rows("diary", "lines")] == ["one", "two", "three"]


def test_a_new_version_adds_its_column_and_goes_on_where_the_old_one_was(home: HomeOnDisk, diary: Path) -> None:
    home.collect(Diary(), "--file", str(diary))
    diary.write_text("one\ntwo\nthree\n")
    assert home.collect(NewDiary(), "--file", str(diary)) == Outcome(1, 0)
    assert [row["length"] for row in home.rows("diary", "lines")] == [None, None, 5]
    assert home.progress("diary")["state"] == {"lines": 3}
    assert home.store.describe()[0]["release"] == 2
    with pytest.raises(Mistake, match="older"):
        home.collect(Diary(), "--file", str(diary))


def test_a_migration_counts_even_if_the_run_after_it_fails(home: HomeOnDisk, diary: Path) -> None:
    home.collect(Diary(), "--file", str(diary))

    class Failing(NewDiary):
        def collect(self, session: Session) -> None:
            raise Mistake("file", "is not there today")

    with pytest.raises(Mistake, match="today"):
        home.collect(Failing(), "--file", str(diary))
    assert home.progress("diary")["state"] == {"lines": 2}
    assert home.collect(NewDiary(), "--file", str(diary)) == Outcome(0, 0)


@pytest.mark.parametrize("after", [0, 1, 3, 7, 12])
def test_a_collector_that_breaks_off_anywhere_leaves_nothing_behind(
    home: HomeOnDisk, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr(sessions, "ROWS_IN_PART", 3)

    class Fragile(Diary):
        options = ()
        breaks = True

        def collect(self, session: Session) -> None:
            for number in range(13):
                if self.breaks and number == after:
                    raise KeyError("a secret value")
                session.insert("lines", {"number": number})
            session.state["seen"] = 13

    with pytest.raises(CollectorFailed) as broke:
        home.collect(Fragile())
    assert "secret" not in str(broke.value)
    assert "KeyError" in str(broke.value)
    assert home.rows("diary", "lines") == []
    whole = Fragile()
    whole.breaks = False
    assert home.collect(whole) == Outcome(13, 0)
    assert [row["number"] for row in home.rows("diary", "lines")] == list(range(13))


@pytest.mark.parametrize("lost", [0, 1, 4])
def test_an_answer_that_is_lost_is_asked_for_again_and_counts_once(
    home: HomeOnDisk, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    monkeypatch.setattr(sessions, "ROWS_IN_PART", 3)
    monkeypatch.setattr(sessions, "PAUSE_SECONDS", 0)
    deliver, calls = home.deliver, []

    def unlucky(app: str, delivery: Any) -> dict[str, int]:
        receipt = deliver(app, delivery)
        calls.append(delivery["part"])
        if len(calls) == lost + 1:
            raise Unreachable("http://127.0.0.1", "the answer was lost")
        return receipt

    monkeypatch.setattr(home, "deliver", unlucky)

    class Many(Diary):
        options = ()

        def collect(self, session: Session) -> None:
            for number in range(12):
                session.insert("lines", {"number": number})

    assert home.collect(Many()).inserted == 12
    assert [row["number"] for row in home.rows("diary", "lines")] == list(range(12))
    assert len(calls) == 6


def test_two_runs_at_once_do_not_both_count(home: HomeOnDisk, diary: Path) -> None:
    class Slow(Diary):
        def collect(self, session: Session) -> None:
            super().collect(session)
            home.collect(Diary(), "--file", str(diary))

    with pytest.raises(Conflict):
        home.collect(Slow(), "--file", str(diary))
    assert len(home.rows("diary", "lines")) == 2


def test_kept_data_keep_the_state_and_deleted_data_begin_anew(home: HomeOnDisk, diary: Path) -> None:
    home.collect(Diary(), "--file", str(diary))
    home.store.remove("diary", keep_data=True)
    assert home.collect(Diary(), "--file", str(diary)) == Outcome(0, 0)
    home.store.remove("diary", keep_data=False)
    assert home.collect(Diary(), "--file", str(diary)) == Outcome(2, 0)


def test_values_travel_as_the_store_takes_them(home: HomeOnDisk) -> None:
    class Values(Collector):
        name = "values"
        description, reads = "Values.", "Nothing."
        tables = (
            table(
                "all",
                "",
                at=("timestamp", ""),
                day=("timestamp", ""),
                price=("float", ""),
                wrong=("float", ""),
            ),
        )

        def collect(self, session: Session) -> None:
            at = datetime(2026, 3, 4, 13, tzinfo=UTC) + timedelta(microseconds=5)
            row = {"at": at, "day": date(2026, 3, 4), "price": Decimal("1.50"), "wrong": float("nan")}
            session.insert("all", row)

    home.collect(Values())
    assert home.rows("values", "all") == [
        {"at": "2026-03-04 13:00:00.000005", "day": "2026-03-04 00:00:00", "price": 1.5, "wrong": None}
    ]


def test_a_run_saves_in_between_where_a_collector_asks_for_it(home: HomeOnDisk) -> None:
    class Steady(Diary):
        options = ()

        def collect(self, session: Session) -> None:
            session.insert("lines", {"number": 1})
            session.state["seen"] = 1
            assert session.save() == Outcome(1, 0)
            session.insert("lines", {"number": 2})
            raise Mistake("file", "ended")

    with pytest.raises(Mistake, match="ended"):
        home.collect(Steady())
    assert [row["number"] for row in home.rows("diary", "lines")] == [1]
    assert home.progress("diary")["state"] == {"seen": 1}


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"name": "two words"}, "app"),
        ({"description": " "}, "collector.description"),
        ({"reads": None}, "collector.reads"),
        ({"version": 0}, "collector.version"),
        ({"every": timedelta(0)}, "collector.every"),
        ({"tables": ()}, "tables"),
        ({"options": (Option("x", ""), Option("x", ""))}, "collector.options"),
        ({"options": (Option("Not this", ""),)}, "collector.options"),
    ],
)
def test_what_a_collector_does_not_say_is_named(change: dict[str, Any], argument: str) -> None:
    with pytest.raises(Mistake) as refused:
        checked(type("Wrong", (Diary,), change)())
    assert refused.value.argument == argument


KNOWN = (
    Option("file", "a file", "path"),
    Option("kind", "several", several=True),
    Option("size", "a number", "number", 5.0),
    Option("loud", "a flag", "flag"),
)


def test_options_are_read_with_their_defaults(tmp_path: Path) -> None:
    assert read_options(KNOWN, []) == {"file": None, "kind": [], "size": 5.0, "loud": False}
    given = ["--file", str(tmp_path), "--kind=a", "--kind", "b", "--size", "2.5", "--loud"]
    assert read_options(KNOWN, given) == {"file": str(tmp_path), "kind": ["a", "b"], "size": 2.5, "loud": True}


@pytest.mark.parametrize(
    "given",
    [
        ["--what"],
        ["loose"],
        ["--file", "/nowhere/at/all"],
        ["--size", "big"],
        ["--loud=1"],
        ["--size"],
        ["--size", "1", "--size", "2"],
    ],
)
def test_options_that_cannot_work_are_named(given: list[str]) -> None:
    with pytest.raises(Mistake):
        read_options(KNOWN, given)


def test_a_needed_option_is_asked_for() -> None:
    with pytest.raises(Mistake, match="the diary"):
        read_options(Diary.options, [])


def test_intervals() -> None:
    assert [read_interval(text) for text in ("30s", "15m", "2h", "1d", "1w")] == [30, 900, 7200, 86_400, 604_800]
    for text in ("0s", "1", "h", "-1h", "1.5h", "1y"):
        with pytest.raises(Mistake):
            read_interval(text)


def test_every_shipped_collector_is_an_entry_point_that_says_what_it_must() -> None:
    found = {offer.name: offer for offer in offers() if offer.package is None}
    folder = Path(sessions.__file__).parent / "shipped"
    assert set(found) == {path.stem for path in folder.glob("*.py")} - {"__init__"}
    for offer in found.values():
        made, told = load(offer)
        assert told is None
        assert made.name == offer.name
        assert made.tables or made.many


@pytest.fixture
def place(tmp_path: Path) -> Installed:
    (tmp_path / "token").write_text("x")
    return Installed(tmp_path)


def test_records_are_their_owners_alone(place: Installed) -> None:
    record = Record("rides", "table", 1, {"file": "/x"}, 60.0, "2026-01-01T00:00:00+00:00")
    place.write(record)
    assert place.records() == [record]
    for path in (place.home / "collectors").iterdir():
        assert path.stat().st_mode & 0o077 == 0
    place.forget("rides")
    assert place.records() == []
    with pytest.raises(Mistake, match="not installed"):
        place.record("rides")


def test_what_was_not_agreed_to_is_named() -> None:
    record = Record("diary", "diary", 1, agreed={"lines": ["number", "text"]})
    record.agrees(declaration(Diary(), Diary.tables))
    with pytest.raises(Refusal, match=r"lines\.length.*thebes collector install diary"):
        record.agrees(declaration(NewDiary(), NewDiary.tables))


def test_a_damaged_record_is_said_so(place: Installed) -> None:
    (place.home / "collectors" / "rides.json").write_text("{")
    with pytest.raises(Mistake, match="damaged"):
        place.records()


def test_a_folder_that_is_no_home_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="thebes person"):
        Installed(tmp_path / "elsewhere")


def test_only_one_run_at_a_time(place: Installed) -> None:
    with place.turn("rides"), pytest.raises(Refusal, match="running already"), place.turn("rides"):
        pass
    with place.turn("rides"):
        pass


def test_what_is_due_and_when() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    once = Record("a", "a", 1, installed_at=begin.isoformat())
    assert once.due(begin)
    assert not Record("a", "a", 1, installed_at=begin.isoformat(), last_at=begin.isoformat()).due(begin)
    hourly = Record("a", "a", 1, {}, 3600.0, begin.isoformat())
    assert hourly.due(begin)
    ran = Record("a", "a", 1, {}, 3600.0, begin.isoformat(), last_at=begin.isoformat())
    assert not ran.due(begin + timedelta(seconds=3599))
    assert ran.due(begin + timedelta(seconds=3600))
