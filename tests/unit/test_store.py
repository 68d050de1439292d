"""A person's store: declared, filled, migrated, read at one moment, closed to everybody without its key."""

from __future__ import annotations

import math
import os
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from thebes.data import keys
from thebes.data.rows import FAILURES
from thebes.data.store import Store
from thebes.privacy.faults import Fault, Mistake

KEY = bytes(range(32))
PETS = {
    "pets": {
        "description": "Animals at home.",
        "columns": {
            "species": {"type": "string", "description": "What it is."},
            "age": {"type": "float", "description": "Years."},
            "legs": {"type": "integer"},
            "tame": {"type": "boolean"},
            "met": {"type": "timestamp"},
        },
    }
}
CAT = {"species": "cat", "age": 3.5, "legs": 4, "tame": True, "met": "2026-11-20T13:00:00+01:00"}
CAT_KEPT = {**CAT, "met": "2026-11-20 12:00:00"}
NOTHING = dict.fromkeys(CAT)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.open(tmp_path, key=KEY) as made:
        made.register("profile", {"tables": PETS})
        yield made


def rows_of(store: Store, app: str = "profile", table: str = "pets") -> Any:
    return store.export()["collectors"][app]["tables"][table]["rows"]


def changed(**columns: Any) -> dict[str, Any]:
    """PETS with some columns replaced; None takes one away."""
    merged = {**PETS["pets"]["columns"], **columns}
    return {"pets": {**PETS["pets"], "columns": {c: d for c, d in merged.items() if d is not None}}}


def test_both_forms_of_a_declaration_mean_the_same(tmp_path: Path) -> None:
    with Store.open(tmp_path, key=KEY) as store:
        assert store.register("a", {"tables": PETS}) == 1
        assert store.register("b", PETS) == 1
        assert store.schemas()["a"] == store.schemas()["b"]


def test_what_is_published_says_nothing_about_rows(store: Store) -> None:
    before = store.schemas()
    store.insert("profile", "pets", [CAT])
    assert store.schemas() == before
    assert before["profile"]["pets"]["columns"]["age"] == {"type": "float", "description": "Years."}
    assert before["profile"]["pets"]["columns"]["legs"] == {"type": "integer", "description": ""}


def test_the_owner_sees_everything(store: Store) -> None:
    store.insert("profile", "pets", [CAT, {}])
    (profile,) = store.describe()
    assert (profile["name"], profile["active"], profile["version"]) == ("profile", True, 1)
    (pets,) = profile["tables"]
    assert (pets["name"], pets["description"], pets["rows"]) == ("pets", "Animals at home.", 2)
    assert pets["columns"][0] == {"name": "species", "type": "string", "description": "What it is."}
    assert [c["name"] for c in pets["columns"]] == list(CAT)


def test_rows_come_back_newest_first_and_missing_columns_are_missing(store: Store) -> None:
    assert store.insert("profile", "pets", [CAT, {"species": "dog"}]) == 2
    assert store.insert("PROFILE", "Pets", [{"Species": "owl"}]) == 1  # names mean the same in any case
    assert store.insert("profile", "pets", []) == 0
    assert store.newest("profile", "pets", 2) == [{**NOTHING, "species": "owl"}, {**NOTHING, "species": "dog"}]
    assert rows_of(store)[0] == CAT_KEPT
    assert rows_of(store)[0]["tame"] is True


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("2026-11-20T13:00:00Z", "2026-11-20 13:00:00"),
        ("2026-11-20 13:00:00", "2026-11-20 13:00:00"),
        ("2026-11-20T13:00:00.250-02:30", "2026-11-20 15:30:00.250000"),
        ("2026-11-20", "2026-11-20 00:00:00"),
        (datetime(2026, 11, 20, 13, tzinfo=timezone(timedelta(hours=1))), "2026-11-20 12:00:00"),
        (datetime(2026, 11, 20, tzinfo=UTC), "2026-11-20 00:00:00"),
    ],
)
def test_times_are_kept_in_utc_as_sqlite_writes_them(store: Store, sent: object, kept: str) -> None:
    store.insert("profile", "pets", [{"met": sent}])
    assert store.newest("profile", "pets", 1)[0]["met"] == kept
    shown = store.preview("SELECT met, datetime(met) AS again, date(met, '+1 day') AS next FROM profile.pets")
    assert shown[0]["again"] == kept[:19]
    assert shown[0]["next"] == "2026-11-21"


LEAK = "leaked-value"


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"age": LEAK}, "rows[1].age"),
        ({"age": True}, "rows[1].age"),
        ({"age": math.nan}, "rows[1].age"),
        ({"age": math.inf}, "rows[1].age"),
        ({"age": 10**400}, "rows[1].age"),
        ({"age": [1.0]}, "rows[1].age"),
        ({"legs": 4.0}, "rows[1].legs"),
        ({"legs": "4"}, "rows[1].legs"),
        ({"legs": True}, "rows[1].legs"),
        ({"legs": 2**63}, "rows[1].legs"),
        ({"species": 7}, "rows[1].species"),
        ({"species": b"cat"}, "rows[1].species"),
        ({"species": "\ud800" + LEAK}, "rows[1].species"),
        ({"species": LEAK * 30_000}, "rows[1].species"),
        ({"tame": 1}, "rows[1].tame"),
        ({"tame": LEAK}, "rows[1].tame"),
        ({"met": LEAK}, "rows[1].met"),
        ({"met": 1_700_000_000}, "rows[1].met"),
        ({"met": "0001-01-01T00:00:00+10:00"}, "rows[1].met"),
        ({"met": "2026-13-01"}, "rows[1].met"),
        ({LEAK: 1}, "rows[1]"),
        ({7: 1}, "rows[1]"),
        ({"colour": LEAK}, "rows[1].colour"),
        ({"age": 1.0, "AGE": 2.0}, "rows[1].AGE"),
        (LEAK, "rows[1]"),
        (None, "rows[1]"),
        ([1], "rows[1]"),
    ],
)
def test_a_wrong_row_is_named_never_repeated_and_nothing_is_stored(store: Store, row: object, place: str) -> None:
    with pytest.raises(Mistake) as refused:
        store.insert("profile", "pets", [CAT, row, CAT])  # type: ignore[list-item]
    assert refused.value.argument == place
    assert LEAK not in str(refused.value)
    assert rows_of(store) == []


@pytest.mark.parametrize("rows", [None, 7, "cat", {"species": "cat"}, [{}] * 100_001])
def test_rows_must_be_a_list_of_bounded_length(store: Store, rows: Any) -> None:
    with pytest.raises(Mistake, match=r"^rows:"):
        store.insert("profile", "pets", rows)


@pytest.mark.parametrize(
    ("app", "table", "argument"),
    [
        ("nobody", "pets", "app"),
        (7, "pets", "app"),
        ("profile", "plants", "table"),
        ("profile", "thebes_schema", "table"),
        ("profile", "sqlite_master", "table"),
        ("profile", None, "table"),
    ],
)
def test_only_declared_tables_are_written_and_read(store: Store, app: Any, table: Any, argument: str) -> None:
    for act in (lambda: store.insert(app, table, [{}]), lambda: store.newest(app, table, 1)):
        with pytest.raises(Mistake) as refused:
            act()
        assert refused.value.argument == argument


@pytest.mark.parametrize(
    "app",
    ["", "main", "temp", "Main", "sqlite_x", "thebes_x", "a b", "a.b", 'a"b', "é", "1a", "_a", "a" * 64, "a\n", 7],
)
def test_a_collector_needs_a_plain_name(tmp_path: Path, app: Any) -> None:
    with Store.open(tmp_path, key=KEY) as store:
        with pytest.raises(Mistake) as refused:
            store.register(app, PETS)
        assert refused.value.argument == "app"
        assert store.describe() == []


WRONG_DECLARATIONS: list[tuple[Any, str]] = [
    (None, "tables"),
    ([], "tables"),
    ({}, "tables"),
    ({"tables": {}}, "tables"),
    ({"tables": 7}, "tables"),
    ({"a b": {"columns": {"x": {"type": "float"}}}}, "tables"),
    ({"thebes_schema": {"columns": {"x": {"type": "float"}}}}, "tables"),
    ({"sqlite_master": {"columns": {"x": {"type": "float"}}}}, "tables"),
    ({7: {"columns": {"x": {"type": "float"}}}}, "tables"),
    ({"t": {}}, "tables.t"),
    ({"t": 7}, "tables.t"),
    ({"t": {"columns": {"x": {"type": "float"}}, "more": 1}}, "tables.t"),
    ({"t": {"columns": {}}}, "tables.t.columns"),
    ({"t": {"columns": []}}, "tables.t.columns"),
    ({"t": {"columns": {"rowid": {"type": "float"}}}}, "tables.t.columns"),
    ({"t": {"columns": {"x;y": {"type": "float"}}}}, "tables.t.columns"),
    ({"t": {"columns": {"x": {"type": "float"}, "X": {"type": "float"}}}}, "tables.t.columns"),
    ({"t": {"columns": {f"c{n}": {"type": "float"} for n in range(201)}}}, "tables.t.columns"),
    ({"t": {"columns": {"x": "float"}}}, "tables.t.columns.x"),
    ({"t": {"columns": {"x": {"description": "no type"}}}}, "tables.t.columns.x"),
    ({"t": {"columns": {"x": {"type": "float", "unit": "m"}}}}, "tables.t.columns.x"),
    ({"t": {"columns": {"x": {"type": "blob"}}}}, "tables.t.columns.x.type"),
    ({"t": {"columns": {"x": {"type": ["float"]}}}}, "tables.t.columns.x.type"),
    ({"t": {"columns": {"x": {"type": "float", "description": 7}}}}, "tables.t.columns.x.description"),
    ({"t": {"description": "x" * 2001, "columns": {"x": {"type": "float"}}}}, "tables.t.description"),
    ({"t": {"description": "\ud800", "columns": {"x": {"type": "float"}}}}, "tables.t.description"),
    ({"t": PETS["pets"], "T": PETS["pets"]}, "tables"),
    ({f"t{n}": PETS["pets"] for n in range(101)}, "tables"),
]


@pytest.mark.parametrize(("declaration", "place"), WRONG_DECLARATIONS)
def test_a_wrong_declaration_is_refused_by_its_place(tmp_path: Path, declaration: Any, place: str) -> None:
    with Store.open(tmp_path, key=KEY) as store:
        with pytest.raises(Mistake) as refused:
            store.register("app", declaration)
        assert refused.value.argument == place
        assert store.describe() == []


#: a new declaration after PETS; whether the table has rows (of which `legs` is never given); the place refused, or None
MIGRATIONS: dict[str, tuple[dict[str, Any], bool, str | None]] = {
    "the same": (PETS, True, None),
    "another description": (changed(age={"type": "float", "description": "Age in years."}), True, None),
    "one column more": (changed(name={"type": "string"}), True, None),
    "one truth value more": (changed(fed={"type": "boolean"}), True, None),
    "one table more": ({**PETS, "plants": {"columns": {"height": {"type": "float"}}}}, True, None),
    "a column less that holds values": (changed(age=None), True, "tables.pets.columns.age"),
    "a column less that never held any": (changed(legs=None), True, None),
    "a column less of an empty table": (changed(age=None), False, None),
    "another type": (changed(age={"type": "integer"}), True, "tables.pets.columns.age.type"),
    "another type that is stored alike": (changed(tame={"type": "integer"}), True, "tables.pets.columns.tame.type"),
    "another type in an empty table": (changed(age={"type": "integer"}), False, None),
    "another spelling of a column": (changed(age=None, Age={"type": "float"}), True, "tables.pets.columns.Age"),
    "another spelling of a table": ({"Pets": PETS["pets"]}, True, "tables.Pets"),
    "another spelling in an empty table": ({"Pets": PETS["pets"]}, False, None),
    "a table less that has rows": ({"plants": PETS["pets"]}, True, "tables.pets"),
    "a table less that is empty": ({"plants": PETS["pets"]}, False, None),
    "columns in another order": (
        {"pets": {"columns": dict(reversed(PETS["pets"]["columns"].items()))}},
        True,
        None,
    ),
}


@pytest.mark.parametrize("name", MIGRATIONS)
def test_a_changed_schema_migrates_or_is_refused(store: Store, name: str) -> None:
    declaration, filled, refused_at = MIGRATIONS[name]
    before = store.schemas()
    cat = {c: v for c, v in CAT.items() if c != "legs"}
    if filled:
        store.insert("profile", "pets", [cat])
    kept = rows_of(store)
    if refused_at is not None:
        with pytest.raises(Mistake) as refused:
            store.register("profile", declaration)
        assert refused.value.argument == refused_at
        assert store.schemas() == before
        assert store.describe()[0]["version"] == 1
        assert rows_of(store) == kept
        return
    assert store.register("profile", declaration) == (1 if name == "the same" else 2)
    shown = store.schemas()["profile"]
    assert set(shown) == set(declaration)
    for table, declared in declaration.items():
        assert {c: d["type"] for c, d in shown[table]["columns"].items()} == {
            c: d["type"] for c, d in declared["columns"].items()
        }
        assert list(shown[table]["columns"]) == list(declared["columns"])
        store.insert("profile", table, [{}])  # whatever was declared is there
    if filled:
        for column, value in kept[0].items():
            if column in declaration["pets"]["columns"]:
                assert rows_of(store)[0][column] == value
    assert store.register("profile", declaration) == store.describe()[0]["version"]


def test_every_column_of_a_table_may_be_exchanged_while_none_holds_values(store: Store) -> None:
    store.insert("profile", "pets", [{}, {}])
    store.register("profile", {"pets": {"columns": {"name": {"type": "string"}}}})
    assert rows_of(store) == [{"name": None}, {"name": None}]


def test_a_view_shows_one_moment_whatever_happens_meanwhile(store: Store) -> None:
    store.register("browser", {"visits": {"columns": {"url": {"type": "string"}}}})
    store.insert("profile", "pets", [CAT])
    store.insert("browser", "visits", [{"url": "a"}])
    joined = "SELECT p.species AS s, v.url AS u FROM profile.pets p, browser.visits v"
    count = "SELECT count(*) AS n FROM profile.pets"
    with store.view() as view:
        store.insert("browser", "visits", [{"url": "b"}])
        store.insert("profile", "pets", [CAT] * 10)
        store.register("profile", changed(name={"type": "string"}))
        assert view.preview(joined) == [{"s": "cat", "u": "a"}]
        assert view.preview(count) == [{"n": 1}]
        with pytest.raises(Mistake, match="missing column"):
            view.preview("SELECT name FROM profile.pets")
        store.remove("browser", keep_data=False)
        assert view.preview(joined) == [{"s": "cat", "u": "a"}]
    assert store.preview(count) == [{"n": 11}]
    assert store.preview("SELECT name FROM profile.pets LIMIT 1") == [{"name": None}]
    with pytest.raises(Mistake, match="missing table"):
        store.preview(joined)


def test_a_view_of_some_collectors_shows_only_those(store: Store) -> None:
    store.register("browser", {"visits": {"columns": {"url": {"type": "string"}}}})
    with store.view(["Profile"]) as view:
        assert view.preview("SELECT age FROM profile.pets") == []
        with pytest.raises(Mistake, match="missing table"):
            view.preview("SELECT url FROM browser.visits")


def test_a_hundred_collectors_can_be_read_together(tmp_path: Path) -> None:
    with Store.open(tmp_path, key=KEY) as store:
        for n in range(100):
            store.register(f"c{n}", {"t": {"columns": {"x": {"type": "integer"}}}})
            if n % 5 == 0:
                store.insert(f"c{n}", "t", [{"x": n}])
        with pytest.raises(Mistake, match="at most 100"):
            store.register("more", PETS)
        sums = " + ".join(f"(SELECT x FROM c{n}.t)" for n in range(0, 100, 5))
        with store.view() as view:
            assert view.preview(f"SELECT {sums} AS s") == [{"s": sum(range(0, 100, 5))}]


def test_removing_a_collector_asks_for_its_data(store: Store, tmp_path: Path) -> None:
    store.insert("profile", "pets", [CAT])
    with pytest.raises(TypeError):
        store.remove("profile")  # type: ignore[call-arg]
    for answer in (None, 0, "no"):
        with pytest.raises(Mistake, match="keep_data"):
            store.remove("profile", keep_data=answer)  # type: ignore[arg-type]
    store.remove("profile", keep_data=True)
    assert store.describe()[0]["active"] is False
    assert store.preview("SELECT species FROM profile.pets") == [{"species": "cat"}]
    with pytest.raises(Mistake, match="register again"):
        store.insert("profile", "pets", [CAT])
    store.register("profile", PETS)
    store.insert("profile", "pets", [CAT])
    assert len(rows_of(store)) == 2
    files = set((tmp_path / "store").glob("*.db"))
    store.remove("profile", keep_data=False)
    assert store.describe() == []
    assert store.export() == {"collectors": {}}
    assert len(files) - len(set((tmp_path / "store").glob("*.db"))) == 1
    with pytest.raises(Mistake, match="not a collector"):
        store.remove("profile", keep_data=False)
    store.register("profile", PETS)
    assert rows_of(store) == []


def test_what_was_stored_is_there_after_closing(tmp_path: Path) -> None:
    with Store.open(tmp_path, key=KEY) as store:
        store.register("profile", PETS)
        store.insert("profile", "pets", [CAT])
        everything = store.export()
    with Store.open(tmp_path, key=KEY) as store:
        assert store.export() == everything
    with pytest.raises(Mistake, match="closed"):
        store.describe()
    store.close()


@pytest.mark.parametrize(
    "cell", ["marker-in-a-cell", "marker-in-a-description", "markertable", "markerapp", "markercol"]
)
def test_nothing_on_disk_is_in_the_clear(tmp_path: Path, cell: str) -> None:
    columns = {"markercol": {"type": "string", "description": "marker-in-a-description"}}
    found: dict[str, bytes] = {}
    with Store.open(tmp_path, key=KEY) as store:
        store.register("markerapp", {"markertable": {"columns": columns}})
        store.insert("markerapp", "markertable", [{"markercol": "marker-in-a-cell"}] * 2000)
        store.preview("SELECT markercol FROM markerapp.markertable ORDER BY markercol")
        # Read by another process: closing a file here would give up this process's locks on it.
        import subprocess

        for path in tmp_path.rglob("*"):
            if path.is_file():
                found[path.name] = subprocess.run(["cat", path], capture_output=True, check=True).stdout
    found |= {f"{p.name} closed": p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    assert any(name.endswith("-wal") and len(content) > 10_000 for name, content in found.items())
    for name, content in found.items():
        assert cell.encode() not in content, name
        assert cell.encode() not in name.encode()
        assert KEY not in content
        assert KEY.hex().encode() not in content
        assert b"SQLite format 3" not in content


def test_a_wrong_key_is_said_clearly(tmp_path: Path) -> None:
    with Store.open(tmp_path, key=KEY) as store:
        store.register("profile", PETS)
    for wrong in (bytes(32), KEY[:-1] + b"\0"):
        with pytest.raises(Mistake, match="another key"):
            Store.open(tmp_path, key=wrong)
    for wrong in (b"", b"short", KEY.hex().encode()):
        with pytest.raises(Mistake, match="32 bytes"):
            Store.open(tmp_path, key=wrong)
    with pytest.raises(Mistake, match="not in its home"):
        Store.open(tmp_path)
    assert keys.kept(tmp_path) is None  # and no new key was made
    with Store.open(tmp_path, key=KEY) as store:
        assert [c["name"] for c in store.describe()] == ["profile"]


def test_a_damaged_file_is_said_without_a_trace(tmp_path: Path) -> None:
    with Store.open(tmp_path, key=KEY) as store:
        store.register("profile", PETS)
        store.insert("profile", "pets", [CAT] * 50)
    (file,) = [p for p in (tmp_path / "store").glob("*.db") if p.name != "metadata.db"]
    content = bytearray(file.read_bytes())
    content[100:140] = bytes(40)
    file.write_bytes(content)
    with Store.open(tmp_path, key=KEY) as store, pytest.raises(Mistake, match="damaged"):
        store.describe()


def test_damage_inside_a_file_is_a_fault_and_a_featurizer_that_fails(tmp_path: Path) -> None:
    with Store.open(tmp_path, key=KEY) as store:
        store.register("profile", PETS)
        store.insert("profile", "pets", [CAT] * 2000)
    (file,) = [p for p in (tmp_path / "store").glob("*.db") if p.name != "metadata.db"]
    content = bytearray(file.read_bytes())
    for page in range(3, len(content) // 4096):
        content[page * 4096 + 50] ^= 1
    file.write_bytes(content)
    with Store.open(tmp_path, key=KEY) as store:
        with pytest.raises(Fault, match="damaged"):
            store.export()
        assert store.featurize("SELECT avg(age) AS a FROM profile.pets").failures.tolist() == [
            1 + FAILURES.index("other")
        ]


def test_destroying_takes_key_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_into_keyring", lambda entry, key: False)
    store = Store.open(tmp_path)
    other = Store.open(tmp_path)
    store.register("profile", PETS)
    assert {p.name for p in tmp_path.iterdir()} == {"store", "key.json"}
    assert keys.kept(tmp_path) == "file"
    store.destroy()
    assert list(tmp_path.iterdir()) == []
    for gone in (store, other):
        with pytest.raises(Mistake):
            gone.describe()
    other.close()
    with Store.open(tmp_path) as fresh:
        assert fresh.describe() == []


def test_only_its_owner_may_look_into_the_folder(store: Store, tmp_path: Path) -> None:
    assert (tmp_path / "store").stat().st_mode & 0o077 == 0


def test_a_file_that_a_crash_left_without_an_entry_is_cleared_away(tmp_path: Path) -> None:
    with Store.open(tmp_path, key=KEY) as store:
        store.register("profile", PETS)
    kept = {p.name for p in (tmp_path / "store").iterdir()}
    (tmp_path / "store" / "0123456789abcdef.db").write_bytes(b"half")
    with Store.open(tmp_path, key=KEY) as store:
        assert {p.name for p in (tmp_path / "store").glob("*.db")} == {n for n in kept if n.endswith(".db")}
        assert [c["name"] for c in store.describe()] == ["profile"]


@pytest.mark.parametrize("name", ["plain", "a b", "c?mode=rw", "d#e", "f%20g", "é&key=1", "'q\""])
def test_a_home_may_have_any_name_and_be_given_relatively(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open(name, key=KEY) as store:
        monkeypatch.chdir("/")
        store.register("profile", PETS)
        store.insert("profile", "pets", [CAT])
        assert store.preview("SELECT legs FROM profile.pets") == [{"legs": 4}]
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_two_openings_of_one_store_agree(tmp_path: Path) -> None:
    with Store.open(tmp_path, key=KEY) as one, Store.open(tmp_path, key=KEY) as two:
        one.register("profile", PETS)
        two.insert("profile", "pets", [CAT])
        assert one.preview("SELECT species FROM profile.pets") == [{"species": "cat"}]
        two.register("profile", changed(name={"type": "string"}))
        one.insert("profile", "pets", [{"name": "Mia"}])
        assert two.newest("profile", "pets", 1)[0]["name"] == "Mia"
        one.remove("profile", keep_data=False)
        with pytest.raises(Mistake, match="not a collector"):
            two.insert("profile", "pets", [CAT])
        two.register("profile", PETS)
        assert one.describe()[0]["tables"][0]["rows"] == 0


def test_threads_share_a_store_without_losing_or_mixing_anything(store: Store) -> None:
    store.register("browser", {"visits": {"columns": {"thread": {"type": "integer"}, "n": {"type": "integer"}}}})
    errors: list[BaseException] = []
    begun = threading.Barrier(8)

    def work(thread: int) -> None:
        try:
            begun.wait()
            for n in range(20):
                store.insert("browser", "visits", [{"thread": thread, "n": n}, {"thread": thread, "n": n}])
                if n % 10 == 0:
                    store.describe()
                    (row,) = store.preview("SELECT count(*) AS n FROM browser.visits")
                    assert int(row["n"] or 0) % 2 == 0  # an insert is seen whole
                if thread == 0:
                    store.register("profile", changed(**{f"c{n}": {"type": "float"}}, **{f"c{n - 1}": None}))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(t,)) for t in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    rows = rows_of(store, "browser", "visits")
    assert len(rows) == 8 * 20 * 2
    for thread in range(8):
        assert [r["n"] for r in rows if r["thread"] == thread] == [n for n in range(20) for _ in (0, 1)]


def test_several_threads_share_a_view(store: Store) -> None:
    store.insert("profile", "pets", [CAT] * 5)
    found: list[Any] = []
    with store.view() as view:

        def look() -> None:
            found.append(view.featurize("SELECT legs FROM profile.pets").columns["legs"].tolist())

        threads = [threading.Thread(target=look) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert found == [[4] * 5] * 6


@pytest.mark.parametrize("count", [0, -1, True, 1.5, "1", None, 10**9])
def test_newest_takes_a_count(store: Store, count: Any) -> None:
    with pytest.raises(Mistake, match=r"^count:"):
        store.newest("profile", "pets", count)


def test_a_store_needs_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Mistake):
        Store.open(tmp_path / "file", key=KEY)


def test_a_folder_whose_name_is_no_utf8_is_refused_in_words(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"gr\xf6sser")
    folder.mkdir()
    with pytest.raises(Mistake, match="not written in UTF-8"):
        Store.open(folder, key=KEY)
