"""A CSV file is read as it is written: no cell becomes something else because it looks like it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import thebes
from thebes.privacy.faults import Mistake
from thebes.simulation.featurizer import featurize
from thebes.simulation.files import load
from thebes.testing.command import typed


def cells(tmp_path: Path, *texts: str, **more: Any) -> list[object]:
    """Return what a column of these cells holds."""
    file = tmp_path / "people.csv"
    file.write_text("x,one\n" + "".join(f"{text},1\n" for text in texts))
    return featurize("SELECT x FROM p.t", load(file, **more)).columns["x"].tolist()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('a,b\n1,x\n2,"y\n3,z\n', "line 3 of .* cannot be read as CSV; check its quotes"),
        ('a,b\n1,"x\ny"\n2,"y\n3,z\n4,"w"\n', "line 4 of .* cannot be read"),
        ("a,b\n1,x\n2\n", "line 3 of .* has 1 values"),
        ("a,b\n1,x\n2,y,z\n", "line 3 of .* has 3 values"),
        ("a,b\n1,M\u00fcller\n", "not text in UTF-8"),
    ],
)
def test_a_line_that_is_no_row_is_refused_and_takes_no_other_along(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "people.csv").write_bytes(text.encode("latin-1"))
    with pytest.raises(Mistake, match=says):
        load(tmp_path / "people.csv")


def test_every_line_that_is_not_empty_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text('a,b\n#x,1\n\n2,"3\n4"\n,\n"5""",6')
    assert load(tmp_path / "people.csv").people == 4


@pytest.mark.parametrize(
    "texts",
    [
        ("05.01.2026", "31.12.2025"),
        ("2026-01-05", "2025-12-31"),
        ("2026-01-05T10:30:00Z", "2026-01-05"),
        ("true", "false"),
        ("True", "no"),
        ("10:30", "7:05"),
        ("02139", "05401"),
        ("+49170", "+1"),
        ("1,5", "2,5"),
        ("1_000", "2"),
        ("0x10", "7"),
        ("1e", "."),
        ("e5", "-e5", "2"),
        ("1e999", "2"),
        ("99999999999999999999", "5x"),
    ],
)
def test_text_stays_the_text_that_it_is(tmp_path: Path, texts: tuple[str, ...]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cells(tmp_path, *(f'"{text}"' for text in texts)) == list(texts)


def test_numbers_are_whole_unless_a_point_says_otherwise_and_a_missing_one_changes_none(tmp_path: Path) -> None:
    assert [repr(cell) for cell in cells(tmp_path, "3", "", "-4")] == ["3", "None", "-4"]
    with pytest.warns(UserWarning, match="column 'x' of .* has whole numbers and others; line 3 has one of the others"):
        assert [repr(cell) for cell in cells(tmp_path, "3", "0.5", "1e3")] == ["3", "0.5", "1000.0"]
    assert [repr(cell) for cell in cells(tmp_path, "3", "0.5", numbers=["x"])] == ["3", "0.5"]
    assert [repr(cell) for cell in cells(tmp_path, "3.0", "0.5", "")] == ["3.0", "0.5", "nan"]
    file = tmp_path / "halves.csv"
    file.write_text("x,y\n3,1\n3,1\n,1\n")
    assert featurize("SELECT x / 2 AS h FROM p.t", load(file)).columns["h"].tolist() == [1, 1, None]


def test_one_persons_point_changes_nobody_elses_whole_number(tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    half = "SELECT x / 2 AS h FROM p.t"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for odd in ("1.5", "1e0", ""):
            file.write_text(f"x,one\n3,1\n{odd},1\n3,1\n")
            for numbers in ((), ("x",)):
                halves = featurize(half, load(file, numbers=numbers)).columns["h"].tolist()
                assert [halves[0], halves[2]] == [1, 1]
        file.write_text("person_id,x\n1,3\n2,1.5\n2,3\n3,3\n")  # whoever has a point has floats, as in one store
        assert featurize(half, load(file)).columns["h"].tolist() == [1, 0.75, 1.5, 1]


@pytest.mark.parametrize("digits", [20, 5000])
@pytest.mark.parametrize("numbers", [(), ("x",)])
def test_digits_that_no_store_keeps_as_a_number_are_told_of(
    tmp_path: Path, numbers: tuple[str, ...], digits: int
) -> None:
    """Twenty digits are a number of an account: as a float they would be another one."""
    if numbers:
        with pytest.raises(Mistake, match="line 3 has a number in column 'x' that is too large for a store"):
            cells(tmp_path, "5", "9" * digits, numbers=numbers)
    else:
        with pytest.warns(UserWarning, match="read as text, although .* line 3 is none"):
            assert cells(tmp_path, "5", "9" * digits) == ["5", "9" * digits]


def test_a_column_of_numbers_and_text_is_text_and_that_is_said(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="column 'x' of .* is read as text, although .* line 3 is none"):
        assert cells(tmp_path, "30", "many", "40") == ["30", "many", "40"]


def test_what_says_that_there_is_no_value_makes_no_text_of_everybodys_numbers(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [repr(cell) for cell in cells(tmp_path, "30", "n/a", "NULL", "  ")] == ["30", "None", "None", "None"]
        assert cells(tmp_path, "a", "-", "b") == ["a", None, "b"]
        assert cells(tmp_path, "a", "-", "none", sets={"x": ["a", "-"]}) == ["a", "-", None]


def test_a_code_that_begins_with_zero_is_no_number_where_one_is_needed(tmp_path: Path) -> None:
    with pytest.raises(Mistake, match="line 3 has text in column 'x', where the task needs a number"):
        cells(tmp_path, "7", "007", numbers=["x"])


@pytest.mark.parametrize(
    ("texts", "values", "read"),
    [
        (("1", "2"), ("1", "2"), ["1", "2"]),
        (("true", "false"), ("true", "false"), ["true", "false"]),
        (("true", "FALSE", "1"), (True, False), [1, 0, 1]),
        (("10:30", "11:00"), ("10:30", "11:00"), ["10:30", "11:00"]),
        (("01", "1", "1.0", "+2"), (1, 2), [None, 1, 1, 2]),
        (("1", "a", ""), ("1", "a"), ["1", "a", None]),
        (("", "a"), ("", "a"), ["", "a"]),
    ],
)
def test_declared_values_say_what_a_cell_is(tmp_path: Path, texts: Any, values: Any, read: list[object]) -> None:
    file = tmp_path / "people.csv"
    file.write_text("x,one\n" + "".join(f"{text},1\n" for text in texts))
    rows = featurize("SELECT x FROM p.t", load(file, sets={"x": values}))
    index, missing = rows.categories("x", values)
    expected = [None if cell is None else values.index(cell) for cell in read]
    assert [None if gone else place for place, gone in zip(index.tolist(), missing, strict=True)] == expected


@pytest.mark.parametrize("value", ["1", "true", "10:30", "05.01.2026", "02139"])
def test_a_file_of_one_declared_text_is_everybodys_value(tmp_path: Path, monkeypatch: Any, value: str) -> None:
    monkeypatch.chdir(tmp_path)
    bounds = {"kind": {"type": "set", "values": [value, "other"]}}
    task = {"type": "basic", "epsilon": 20.0, "aggregator": "histogram", "bounds": bounds}
    Path("task.json").write_text(json.dumps({**task, "featurizer": "SELECT x AS kind FROM p.t"}))
    Path("people.csv").write_text("x\n" + f"{value}\n" * 200)
    said = typed("simulate", "task.json", "people.csv", "--seed", "1", "--json")
    assert (said.returncode, said.stderr) == (0, "")
    assert json.loads(said.stdout)["value"][value] == pytest.approx(200, abs=5)


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "twice.csv"
    file.write_text("x,x\n1,2\n")
    with pytest.raises(Mistake, match="two columns called 'x'"):
        load(file)


def test_a_parquet_file_keeps_its_types(tmp_path: Path) -> None:
    whole = pd.array([3, None, 5], dtype="Int64")
    frame = pd.DataFrame({"x": whole, "t": ["1", "true", None], "b": [True, False, None]})
    frame.to_parquet(tmp_path / "people.parquet")
    rows = featurize("SELECT x / 2 AS h, t, b FROM p.t", load(tmp_path / "people.parquet"))
    assert rows.columns["h"].tolist() == [1, None, 2]
    assert rows.columns["t"].tolist() == ["1", "true", None]
    assert rows.columns["b"].tolist() == [1, 0, None]


def test_a_file_and_the_same_rows_in_python_give_the_same_release(tmp_path: Path) -> None:
    ages = [20 + i % 50 if i % 7 else None for i in range(700)]
    file = tmp_path / "people.csv"
    pd.DataFrame({"age": pd.array(ages, dtype="Int64")}).to_csv(file, index=False)
    task = {"type": "basic", "epsilon": 1.0, "aggregator": "mean", "featurizer": "SELECT age / 20 AS a FROM p.t"}
    task |= {"bounds": {"a": {"type": "range", "low": 0, "high": 5}}, "missing": "count"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read, listed = (thebes.simulate(task, rows, seed=1).as_json() for rows in (load(file), {"age": ages}))
    assert read == listed
