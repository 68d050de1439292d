"""A cell that is odd is none, or what it says; it never changes what the other rows' cells are.

One person's value would else move what everybody else counts for, by more than was paid for her.
"""

from __future__ import annotations

import sqlite3
import warnings
from collections import deque
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import thebes
from thebes.data.engines import frames
from thebes.data.engines.source import frame_table, table_of
from thebes.data.filter import read_filter
from thebes.data.given_rows import given_frame
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Factor, Sums, Term
from thebes.learning.cells import numbers_of
from thebes.privacy.faults import Mistake

KEYS = [2**55 + n for n in range(300)]
MOMENTS: list[Any] = [
    "9999-12-31", "0001-01-01", "1600-02-29T12:00:00.25+02:00", datetime(9999, 12, 31), date(1, 1, 1),
    datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=5))), np.datetime64("2500-01-01", "D"), "2026-01",
    pd.Timestamp("2026-03-29T01:30:00.123456"), None, "nonsense",
]  # fmt: skip
ODD: list[Any] = [
    "2020-01-01T00:00:00.1234567", "2020-01-01T00:00:00.123456789Z", pd.Timestamp("2020-01-01T00:00:00.123456789"),
    np.datetime64("2020-01-01", "ns"), np.datetime64(10**9, "Y"), np.datetime64("NaT"), pd.NaT, "now", 5, 0.5, True,
    [1], {"a": 1}, b"x", object(), "10000-01-01", "2020-01-01T00:00:00,1234567", date(2020, 1, 1), np.nan, 10**30,
    "2020-W01-1",
]  # fmt: skip


def moments(values: list[Any]) -> list[Any]:
    return frames.typed(pd.Series(values, dtype=object), "timestamp").tolist()


@pytest.mark.parametrize("odd", ODD, ids=[f"{place} {type(odd).__name__}" for place, odd in enumerate(ODD)])
@pytest.mark.parametrize("first", [True, False])
def test_a_moment_is_read_by_itself(odd: Any, first: bool) -> None:
    others = moments(MOMENTS)
    assert [moment is pd.NaT for moment in others] == [False] * 9 + [True] * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = moments([odd, *MOMENTS] if first else [*MOMENTS, odd])
    own = found.pop(0 if first else -1)
    assert str(found) == str(others)
    assert str(own) == str(moments([odd])[0])


def test_a_moment_is_cut_to_microseconds_and_told_in_utc() -> None:
    assert moments(["2020-01-01T00:00:00.1234567", ODD[2]]) == [datetime(2020, 1, 1, 0, 0, 0, 123456)] * 2
    assert moments([MOMENTS[5], MOMENTS[0]]) == [datetime(2026, 1, 1, 7), datetime(9999, 12, 31)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_column_of_moments_is_read_in_any_unit(unit: str) -> None:
    held = np.array(["2020-01-01", "NaT", "2100-05-05"], dtype=f"M8[{unit}]")
    if unit in ("s", "ms"):
        held = np.append(held, np.array([2**62, -(2**62)], dtype=np.int64).astype(f"M8[{unit}]"))
    for given in (pd.Series(held), pd.Series(held[:3]).dt.tz_localize("Europe/Vienna")):
        found = frames.typed(given, "timestamp")
        assert found.dtype == "M8[us]"
        assert [moment is pd.NaT for moment in found] == [False, True, False, True, True][: len(given)]


def _dict(values: list[Any]) -> Any:
    return {"who": values, "flag": [True] * len(values)}


FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "dict": _dict,
    "arrow": lambda values: pa.table(_dict(values)),
    "batch": lambda values: pa.record_batch(_dict(values)),
    "polars": lambda values: pl.DataFrame(_dict(values)),
    "dict of polars": lambda values: {name: pl.Series(name, cells) for name, cells in _dict(values).items()},
    "dict of arrow": lambda values: {name: pa.array(cells) for name, cells in _dict(values).items()},
    "dict of chunks": lambda values: {name: pa.chunked_array([cells]) for name, cells in _dict(values).items()},
    "dict of deques": lambda values: {name: deque(cells) for name, cells in _dict(values).items()},
}
TABLES: dict[str, Any] = {"dict": dict, "arrow": pa.table, "batch": pa.record_batch, "polars": pl.DataFrame}
CASES = [(form, None) for form in FORMS] + [("dict", odd) for odd in (0.5, "x", [1], 1j, 2.0**60, 10**40, True)]


@pytest.mark.parametrize(("form", "odd"), CASES)
def test_long_keys_stay_apart_beside_a_row_without_one(form: str, odd: Any) -> None:
    schema = schema_of(
        {
            "unit": "person",
            "max_rows_per_unit": 1,
            "columns": {"who": {"type": "integer", "key": True}, "flag": {"type": "boolean"}},
        }
    )
    made = FORMS[form]
    assert [counted(schema, made(keys)) for keys in (KEYS, [*KEYS, odd])] == [300, 300]


def counted(schema: Schema, rows: Any, where: str | None = None) -> int:
    asked = Sums((Term(),), where=None if where is None else read_filter(where, schema))
    return int(frame_table(schema, given_frame(rows)).sums(asked)[0, 0])


@pytest.mark.parametrize("form", [*TABLES, "pandas"])
def test_whether_a_cell_is_missing_decides_no_refusal(form: str) -> None:
    schema = schema_of({"unit": "event", "columns": {"flag": {"type": "boolean"}, "size": {"type": "integer"}}})
    for flags, sizes in (([True, False], [1, 2]), ([True, None], [1, None]), ([1, 0], [2**60, 7]), ([1, None], [1, 2])):
        frame = given_frame({**TABLES, "pandas": pd.DataFrame}[form]({"flag": flags, "size": sizes}))
        assert counted(schema, frame, "flag") == 1
        assert counted(schema, frame, "size >= 1") == sum(size is not None for size in sizes)


@pytest.mark.parametrize("form", ["dict", "arrow", "polars"])
def test_which_rows_of_others_count_does_not_hang_on_a_hole_in_a_list(form: str) -> None:
    schema = schema_of({
        "unit": "person", "max_rows_per_unit": 1,
        "columns": {"who": {"type": "integer", "key": True}, "x": {"type": "array", "shape": [2], "low": 0, "high": 9},
                    "size": {"type": "integer", "low": 0, "high": 9}},
    })  # fmt: skip
    sizes = [n % 10 for n in range(300)]
    found = []
    for odd in ([1, 2], [1, None]):
        rows = {"who": [n // 3 for n in range(300)] + [7**5], "x": [[n, n + 1] for n in range(300)] + [odd]}
        table = frame_table(schema, given_frame(TABLES[form]({**rows, "size": [*sizes, 0]})))
        found.append(table.sums(Sums((Term((Factor("size", 1, 1),)),), bits=9)).tolist())
    assert found[0] == found[1]


def test_days_and_texts_that_nobody_has_break_no_table_of_arrow() -> None:
    schema = schema_of({"unit": "event", "columns": {"day": {"type": "timestamp"}, "name": {"type": "string"}}})
    days = pa.array([0, 300_000 * 365, None], pa.int32()).cast(pa.date32())
    known, ends, _ = pa.array(["a", "bc", "d"]).buffers()
    names = pa.Array.from_buffers(pa.string(), 3, [known, ends, pa.py_buffer(b"a\xff\xfed")])
    table = pa.table({"day": days, "name": names})
    assert [counted(schema, table, where) for where in ("day < '2000-01-01'", "name = 'a'", "name IS NULL")] == [
        1,
        1,
        1,
    ]
    assert counted(schema, table) == 3


def test_far_days_and_long_keys_of_a_parquet_file_are_read_by_themselves(tmp_path: Path) -> None:
    schema = schema_of(
        {"unit": "person", "columns": {"who": {"type": "integer", "key": True}, "day": {"type": "timestamp"}}}
    )
    for name, far in (("near", 0), ("far", 300_000 * 365)):
        days = pa.array([0] * 100 + [far], pa.int32()).cast(pa.date32())
        pq.write_table(
            pa.table({"who": pa.array([float(n) for n in range(100)] + [2.0**60]), "day": days}), tmp_path / name
        )
        table = table_of(schema, {"kind": "parquet", "path": name}, folder=tmp_path, scratch=tmp_path)
        assert int(table.sums(Sums((Term(),)))[0, 0]) == 100  # a key beyond what a float tells apart is nobody's
        table.close()


def test_files_that_hold_a_column_in_two_types_are_refused(tmp_path: Path) -> None:
    schema = schema_of({"unit": "event", "columns": {"a": {"type": "integer"}}})

    def rows(one: pa.Table, other: pa.Table) -> int:
        pq.write_table(one, tmp_path / "a.parquet")
        pq.write_table(other, tmp_path / "b.parquet")
        table = table_of(schema, {"kind": "parquet", "path": "*.parquet"}, folder=tmp_path, scratch=tmp_path)
        try:
            return int(table.sums(Sums((Term(),)))[0, 0])
        finally:
            table.close()

    x = pa.array([[1, 2]], pa.list_(pa.int64()))
    plain = pa.table({"a": pa.array([1], pa.int64()), "x": x})
    assert rows(plain, pa.table({"a": pa.array([1], pa.int32()), "x": x, "more": ["b"]})) == 2
    assert rows(plain, pa.table({"a": pa.array([None], pa.null())})) == 2
    for other in (
        pa.table({"a": pa.array([1.0]), "x": x}),
        pa.table({"a": pa.array([1], pa.int64()), "x": pa.array([[0.5]])}),
        pa.table({"a": pa.array(["1"]), "x": x}),
    ):
        with pytest.raises(Mistake, match="in two types"):
            rows(plain, other)


def test_a_number_that_no_longer_says_which_is_beyond_every_bound() -> None:
    told = frames.typed(pd.Series([2.0**53, -(2.0**60), 2.0**53 - 1, 7.0, 0.5, np.inf]), "integer")
    assert [*told[:4]] == [2**63 - 1, -(2**63), 2**53 - 1, 7]
    assert told[4] is pd.NA
    assert told[5] == 2**63 - 1


@pytest.mark.parametrize(
    "odd", ["2020-01-01T00:00:00.1234567", "2020-01-01T00:00:00.123456789Z", "now", "0044-03-15 BC"]
)
def test_a_moment_in_a_database_of_texts_is_read_by_itself(odd: str, tmp_path: Path) -> None:
    schema = schema_of(
        {"unit": "person", "columns": {"who": {"type": "integer", "key": True}, "until": {"type": "timestamp"}}}
    )
    for name, values in (("without", []), ("beside", [odd])):
        with sqlite3.connect(tmp_path / f"{name}.sqlite") as database:
            database.execute("CREATE TABLE stays (who INTEGER, until TEXT)")
            rows = [(n, value) for n, value in enumerate(["9999-12-31"] * 100 + values)]
            database.executemany("INSERT INTO stays VALUES (?, ?)", rows)
        database.close()
        source = {"kind": "sqlite", "path": f"{name}.sqlite", "table": "stays"}
        table = table_of(schema, source, folder=tmp_path, scratch=tmp_path)
        asked = Sums((Term(),), where=read_filter("until > '2031-01-01'", schema))
        assert int(table.sums(asked)[0, 0]) == 100
        table.close()


def test_a_complex_cell_or_a_text_makes_nothing_of_the_others_numbers() -> None:
    plain = pd.DataFrame({"a": [1.0, 0.0, 2.0]})
    for odd in (1j, np.timedelta64(3, "D"), "x"):
        found = numbers_of(pd.DataFrame({"a": [1.0, 0.0, 2.0, odd]}))
        assert np.asarray(found["a"], dtype=float)[:3].tolist() == plain["a"].tolist()
    days = [np.timedelta64(n, "D") for n in range(3)]
    assert np.isnan(numbers_of([[day] for day in days])).all()  # whether or not one beside them is a text
    assert np.isnan(numbers_of([*([day] for day in days), ["x"]])).all()


@pytest.mark.parametrize("odd", ["x", 1j, [1], None, 10**400], ids=lambda odd: type(odd).__name__)
def test_one_cell_moves_a_model_no_further_than_one_row_may(odd: Any) -> None:
    flags = [n % 2 == 0 for n in range(400)]
    X = {"flag": list(flags), "age": [float(n % 50) for n in range(400)]}
    y = [int(flag) for flag in flags]
    model = thebes.learning.GaussianNB(
        epsilon=1e4, adjacency="replace-one", random_state=1, bounds={"flag": (0, 1), "age": (0, 50)}, classes=[0, 1],
        quality=False,
    )  # fmt: skip
    plain = model.fit(X, y).theta_
    found = model.fit({**X, "flag": [odd, *flags[1:]]}, y).theta_
    assert np.abs(found - plain).max() < 0.05
