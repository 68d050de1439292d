"""Tables from files: types inferred from all of a column, nothing guessed, nothing half imported, nothing twice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from thebes.collectors.inference import ColumnReading, Types
from thebes.collectors.options import read_options
from thebes.collectors.session import Outcome
from thebes.collectors.shipped.table import TableFile
from thebes.privacy.faults import Mistake
from thebes.testing.collectors import HomeOnDisk


@pytest.fixture
def home(tmp_path: Path) -> Iterator[HomeOnDisk]:
    made = HomeOnDisk(tmp_path / "home")
    yield made
    made.close()


def collect(home: HomeOnDisk, file: Path, *more: str) -> Outcome:
    return home.collect(TableFile(), "--file", str(file), *more, app="mine")


def columns(home: HomeOnDisk) -> dict[str, str]:
    return {name: c["type"] for name, c in home.store.schemas()["mine"]["entry"]["columns"].items()}


@pytest.mark.parametrize(
    ("values", "kind", "read"),
    [
        (["1", "", "-20"], "integer", [1, None, -20]),
        (["1.5", "NA", "2"], "float", [1.5, None, 2.0]),
        (["1,234.50", "2.00"], "float", [1234.5, 2.0]),
        (["1.234,50", "2,00"], "float", [1234.5, 2.0]),
        (["€ 12,30", "0,5 €"], "float", [12.3, 0.5]),
        (["$1,200.00", "3.10 USD"], "float", [1200.0, 3.1]),
        (["1,234", "5"], "string", ["1,234", "5"]),
        (["02139", "10001"], "string", ["02139", "10001"]),
        (["12345678901234567890", "1"], "string", ["12345678901234567890", "1"]),
        (["true", "no", "n/a"], "boolean", [True, False, None]),
        (["2026-03-01", "2026-03-02T08:00:00+02:00"], "timestamp", ["2026-03-01 00:00:00", "2026-03-02 06:00:00"]),
        (["13.04.2026", "01.02.2026 08:30"], "timestamp", ["2026-04-13 00:00:00", "2026-02-01 08:30:00"]),
        (["04/13/2026", "01/02/2026"], "timestamp", ["2026-04-13 00:00:00", "2026-01-02 00:00:00"]),
        (["01/02/2026", "03/04/2026"], "string", ["01/02/2026", "03/04/2026"]),
        (["13/04/2026", "04/13/2026"], "string", ["13/04/2026", "04/13/2026"]),
        (["20260301", "20260302"], "integer", [20260301, 20260302]),
        (["", "NULL"], "string", [None, None]),
        (["1e400", "1"], "string", ["1e400", "1"]),
        (["1", "x"], "string", ["1", "x"]),
        (["inf", "1"], "string", ["inf", "1"]),
    ],
)
def test_what_a_column_holds(home: HomeOnDisk, tmp_path: Path, values: list[str], kind: str, read: list[Any]) -> None:
    file = tmp_path / "mine.csv"
    quoted = "".join(f'"{value}",x\n' for value in values)
    file.write_text(f"Value,other\n{quoted}")
    collect(home, file)
    assert columns(home)["value"] == kind
    assert [row["value"] for row in home.rows("mine", "entry")] == read


def test_what_is_ambiguous_can_be_said(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text('day;price;code\n01/02/2026;"1,234";7\n')
    collect(home, file, "--dates", "dmy", "--decimals", "comma", "--text", "code")
    assert home.rows("mine", "entry") == [{"day": "2026-02-01 00:00:00", "price": 1.234, "code": "7"}]
    for wrong in (("--dates", "ymd"), ("--decimals", "dot"), ("--text", "nothing"), ("--columns", "nothing")):
        with pytest.raises(Mistake):
            collect(home, file, *wrong)


def test_a_longer_export_adds_what_is_new_and_equal_rows_stay_equal_rows(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "coffee.csv"
    file.write_text("day,price\n2026-03-01,2.5\n2026-03-01,2.5\n")
    assert collect(home, file) == Outcome(2, 0)
    assert collect(home, file) == Outcome(0, 2)
    file.write_text("day,price\n2026-03-02,3.5\n2026-03-01,2.5\n2026-03-01,2.5\n2026-03-01,2.5\n")
    assert collect(home, file) == Outcome(2, 2)
    assert sorted(row["price"] for row in home.rows("mine", "entry")) == [2.5, 2.5, 2.5, 3.5]


def test_a_column_keeps_the_type_it_was_declared_with(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("price,note\n2.5,a\n")
    collect(home, file)
    file.write_text("price,note\n3,7\n,\n")  # whole numbers now, and digits in a column of text
    collect(home, file)
    assert home.rows("mine", "entry")[1] == {"price": 3.0, "note": "7"}
    file.write_text("price,note\nfree,b\n")
    with pytest.raises(Mistake, match=r"mine\.csv, line 2: .*'price'.*mend that line.*--as"):
        collect(home, file)
    assert len(home.rows("mine", "entry")) == 2


def test_the_line_that_does_not_fit_is_the_odd_one(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("price,day\n2.5,2026-03-01\n")
    collect(home, file)
    file.write_text('price\n"1,5"\n2.5\n3.5\n')  # read with a comma the other two would not fit
    with pytest.raises(Mistake, match=r"line 2: .*'price'"):
        collect(home, file)
    file.write_text("price,day\n1.5,2026-03-01\n1.5,\n1.5,soon\n")
    with pytest.raises(Mistake, match=r"line 4: .*'day'") as told:
        collect(home, file)
    assert "soon" not in str(told.value)


def test_columns_come_and_go_between_exports(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("a,b\n1,x\n")
    collect(home, file)
    file.write_text("a,c\n2,true\n")
    collect(home, file)
    first, second = home.rows("mine", "entry")
    assert first == {"a": 1, "b": "x", "c": None}
    assert second == {"a": 2, "b": None, "c": True}


def test_titles_become_names_for_sql(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("\ufeffTrip Cost ($),trip cost,2nd stop,rowid,Empfänger,Café,\n1,2,3,4,5,6,7\n", encoding="utf-8")
    collect(home, file)
    names = ["trip_cost", "trip_cost_2", "c_2nd_stop", "c_rowid", "empfaenger", "cafe", "column_7"]
    assert list(columns(home)) == names


def test_a_name_without_its_umlauts_that_was_declared_before_stays() -> None:
    assert Types.of({"Größe": ColumnReading()}, {}).names == {"Größe": "groesse"}
    assert Types.of({"Größe": ColumnReading()}, {"gre": "string"}).names == {"Größe": "gre"}


@pytest.mark.parametrize(
    "above",
    ["Umsätze Girokonto\n\n", '"Konto:";"1"\n"Von:";"01.01.2026"\n\n', "Umsätze; Girokonto, alle\n;\n", 'a "b\n'],
)
def test_lines_above_the_names_are_named_and_can_be_skipped(home: HomeOnDisk, tmp_path: Path, above: str) -> None:
    file = tmp_path / "bank.csv"
    lines = "".join(f'"{day:02}.01.2026";"Ana";{day},50\n' for day in range(1, 20))
    file.write_text(f"{above}Buchungstag;Empfänger;Betrag\n{lines}")
    count = above.count("\n")
    with pytest.raises(Mistake, match=rf"bank\.csv, line \d+: .* stand in line {count + 1}, add --skip {count}"):
        collect(home, file)
    assert collect(home, file, "--skip", str(count)) == Outcome(19, 0)
    assert home.rows("mine", "entry")[2] == {"buchungstag": "2026-01-03 00:00:00", "empfaenger": "Ana", "betrag": 3.5}
    file.write_text(f"{above}Buchungstag;Empfänger;Betrag\n{lines}1;2\n")
    with pytest.raises(Mistake, match=rf"line {count + 21}: has 2 fields where 3 are expected; nothing"):
        collect(home, file, "--skip", str(count))
    for wrong in ("-1", "1.5"):
        with pytest.raises(Mistake, match="--skip"):
            collect(home, file, "--skip", wrong)


def test_a_single_column_may_hold_what_looks_like_fields(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "notes.csv"
    file.write_text("note\na;b\nc;d\ne;f\n")
    with pytest.raises(Mistake, match=r"line 1: has one field.*--skip 1, else --skip 0"):
        collect(home, file)
    assert collect(home, file, "--skip", "0") == Outcome(3, 0)
    assert home.rows("mine", "entry")[0] == {"note": "a;b"}


def test_what_could_mean_two_things_is_said_before_it_is_declared(tmp_path: Path) -> None:
    file = tmp_path / "rides.csv"
    file.write_text('day,price,note\n03/04/2026,"1,234",x\n')

    def doubts(*more: str, columns: list[list[str]] | None = None) -> list[str]:
        table = TableFile()
        table.declare(read_options(table.options, ["--file", str(file), *more]), {"columns": columns or []})
        return list(table.doubts())

    day = "day could be dates: say --dates dmy (day first) or --dates mdy (month first)"
    price = "price could be numbers: say --decimals point or --decimals comma"
    assert doubts() == [day, price]
    assert doubts("--dates", "mdy") == [price]
    assert doubts(columns=[["day", "string", ""], ["price", "string", ""]]) == []  # it stays what it is


def test_only_some_columns(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("a,name,b\n1,Ana,2\n")
    collect(home, file, "--columns", "a", "--columns", "b")
    assert home.rows("mine", "entry") == [{"a": 1, "b": 2}]
    assert "Ana" not in json.dumps(home.store.export())


def test_delimiters_encodings_and_quoted_line_ends(home: HomeOnDisk, tmp_path: Path) -> None:
    for number, (content, expected) in enumerate(
        [
            (b"a\tb\n1\tx\n", "x"),
            (b"a|b\n1|x;y\n", "x;y"),
            (b"a;b\n1;caf\xe9\n", "caf\u00e9"),
            ('a,b\r\n1,"two\nlines, caf\u00e9"\r\n\r\n'.encode(), "two\nlines, caf\u00e9"),
        ]
    ):
        file = tmp_path / f"{number}.csv"
        file.write_bytes(content)
        home.collect(TableFile(), "--file", str(file), app=f"t{number}")
        assert home.rows(f"t{number}", "entry") == [{"a": 1, "b": expected}]


def test_json_json_lines_and_parquet_mean_the_same(home: HomeOnDisk, tmp_path: Path) -> None:
    rows = [
        {"at": "2026-03-01T08:00:00Z", "price": 2.5, "size": 3, "tame": True, "tags": ["a", "b"], "note": None},
        {"at": "2026-03-02T08:00:00Z", "price": 3, "size": 4, "tame": False, "tags": [], "note": "x"},
    ]
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = []
    for app, name in (("a", "a.json"), ("b", "b.jsonl")):
        home.collect(TableFile(), "--file", str(tmp_path / name), app=app)
        found.append(home.rows(app, "entry"))
    assert found[0] == found[1]
    assert found[0][0] == {
        "at": "2026-03-01 08:00:00",
        "price": 2.5,
        "size": 3,
        "tame": True,
        "tags": '["a", "b"]',
        "note": None,
    }
    path = tmp_path / "c.parquet"
    duckdb.connect().execute(
        "COPY (SELECT TIMESTAMPTZ '2026-03-01 08:00:00+00' AS at, 2.50::DECIMAL(9,2) AS price, 3::SMALLINT AS size,"
        f" true AS tame, DATE '2026-03-01' AS day, 'NaN'::DOUBLE AS wrong, 'x' AS note) TO '{path}' (FORMAT PARQUET)"
    )
    home.collect(TableFile(), "--file", str(path), app="c")
    (row,) = home.rows("c", "entry")
    day = {"day": "2026-03-01 00:00:00", "wrong": None, "note": "x"}
    assert row == {"at": "2026-03-01 08:00:00", "price": 2.5, "size": 3, "tame": True, **day}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.csv", b"a,b\n1,2\n3\n", r"x\.csv, line 3: has 1 fields where 2"),
        ("x.csv", b'a,b\n1,"2\n', r"x\.csv, line"),
        ("x.csv", b'a,b\n1,"2"x\n', r"x\.csv, line 2"),
        ("x.csv", b"\na,b,a\n1,2,3\n", r"x\.csv, line 2: gives columns 1 and 3 the same name"),
        ("x.csv", b"a,b\n", r"x\.csv: holds no rows"),
        ("x.csv", b"", r"x\.csv: holds no rows"),
        ("x.csv", b"\xff\xfea\x00", r"x\.csv, line 1: is UTF-16"),
        ("x.csv", b"a\n" + b"x" * 5_000_000, r"x\.csv, line 2: is longer"),
        ("x.csv", b",".join(b"c%d" % n for n in range(300)) + b"\n" + b",".join([b"1"] * 300), r"x\.csv.*--columns"),
        ("x.json", b'[{"a": 1},\n{"a": }]', r"x\.json, line 2: is not JSON"),
        ("x.json", b'[{"a": 1},\n{"a": 2}', r"x\.json, line 2"),
        ("x.json", b"[1]", r"x\.json, line 1: is not a list of objects"),
        ("x.json", b"3", r"x\.json, line 1"),
        ("x.json", b'[{"a": ' + b"[" * 100_000, r"x\.json, line 1: is nested too deeply"),
        ("x.json", b'[{"a": ' + b"9" * 10_000 + b"}]", r"x\.json, line 1: .*too long"),
        ("x.json", b'[{"a": "\xff"}]', r"x\.json, line 1: is not text in UTF-8"),
        ("x.json", b'[{"a": 1}] x', r"x\.json, line 1: goes on"),
        ("x.jsonl", b'{"a": 1}\n[1]\n', r"x\.jsonl, line 2"),
        ("x.jsonl", b'{"a": 1}\n' + b"[" * 100_000 + b"\n", r"x\.jsonl, line 2"),
        ("x.parquet", b"PAR1 not really PAR1", r"x\.parquet: is not Parquet"),
        ("x.xlsx", b"PK", r"--file: must end in"),
    ],
)
def test_a_broken_file_is_named_with_its_line_and_nothing_is_stored(
    home: HomeOnDisk, tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(Mistake, match=said):
        collect(home, file)
    assert home.store.describe() == []


def test_a_pipe_or_a_folder_in_place_of_a_file_is_refused(home: HomeOnDisk, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    for name in ("pipe.csv", "folder.csv"):
        with pytest.raises(Mistake, match=r"plain file"):
            collect(home, tmp_path / name)


def test_a_file_that_changes_while_it_is_read_is_not_half_stored(
    home: HomeOnDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("a\n1\n2\n")
    register = home.register

    def changed(app: str, tables: Any) -> int:
        file.write_text("a\n1\nx\n")
        return register(app, tables)

    monkeypatch.setattr(home, "register", changed)
    with pytest.raises(Mistake, match=r"line 3: changed"):
        collect(home, file)
    assert home.rows("mine", "entry") == []


@pytest.mark.slow
def test_many_parts_go_in_as_one(home: HomeOnDisk, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("n,x\n" + "".join(f"{n},{n / 7}\n" for n in range(20_000)))
    assert collect(home, file) == Outcome(20_000, 0)
    assert home.progress("mine")["number"] == 1


def test_types_that_were_declared_before_win_where_they_can() -> None:
    reading = ColumnReading()
    for value in ("1", "2"):
        reading.see(value)
    assert Types.of({"A": reading}, {}).kinds["A"] == "integer"
    assert Types.of({"A": reading}, {"a": "float"}).kinds["A"] == "float"
    assert Types.of({"A": reading}, {"a": "string"}).value("A", "1") == "1"
    assert Types.of({"A": reading}, {"a": "boolean"}).clash == "A"
