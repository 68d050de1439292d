"""Rows that are few are added up outside DuckDB, to the same whole numbers, and given in the same order."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.data.engines.source import table_of
from thebes.data.engines.table import EngineTable
from thebes.data.filter import read_filter
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Axis, Factor, Sums, Term

COLUMNS = {
    "x": {"type": "float", "low": -1.5, "high": 4},
    "n": {"type": "integer", "low": 0, "high": 9},
    "g": {"type": "string", "values": ["a", "b", "ü"]},
    "f": {"type": "float", "values": [0.5, 2.0]},
    "yes": {"type": "boolean", "values": [True, False]},
}
DAYS = [f"2026-01-0{day}T00:00:0{day}" for day in range(1, 5)]
ROW: dict[str, st.SearchStrategy[Any]] = {
    "who": st.one_of(st.none(), st.integers(-2, 3), st.just(2**63 - 1)),
    "x": st.one_of(st.none(), st.floats(-3, 6), st.sampled_from([float("inf"), -0.0, 4.0, 1e308])),
    "n": st.one_of(st.none(), st.integers(-3, 12)),
    "g": st.sampled_from([None, "a", "b", "ü", "other"]),
    "f": st.sampled_from([None, 0.5, 2.0, 3.0]),
    "yes": st.sampled_from([None, True, False]),
    "at": st.sampled_from([None, *DAYS]),
    "late": st.sampled_from([None, 1.5, -2.0, float("inf")]),
}
ROWS = st.lists(st.fixed_dictionaries(ROW), max_size=24)
EDGES = (-1.5, 0.0, 0.75, 4.0)
AXES = (
    Axis("x", edges=EDGES),
    Axis("x", edges=EDGES, missing=True),
    Axis("g", ("b", "a")),
    Axis("g", ("b", "ü"), missing=True),
    Axis("f", (2.0, 0.5)),
    Axis("f", (2.0,), missing=True),
    Axis("yes", (True, False), missing=True),
)
TERMS = (
    Term(),
    Term((Factor("x", 1, 1),)),
    Term((Factor("x", 2, 1), Factor("n", 1, 0))),
    Term((Factor("n", 2, 2),)),
)
WHERE = st.sampled_from([None, "n > 3 OR g <> 'b'", "f IN (2.0, 0.5) AND NOT yes", "g IS NULL OR x < 0.1"])


def schema(key: str, most: int, time: str | None) -> Schema:
    """Of persons by a key of this type, or of events."""
    timed = {"at": {"type": "timestamp"}, "late": {"type": "float"}}
    if not key:
        return schema_of({"unit": "event", "columns": {**COLUMNS, **timed}})
    body = {"unit": "person", "max_rows_per_unit": most}
    owner = {"who": {"type": key, "key": True}}
    return schema_of({**body, "columns": {**owner, **COLUMNS, **timed}, **({"time": time} if time else {})})


def opened(of: Schema, rows: list[dict[str, Any]], folder: str, *, few: bool) -> EngineTable:
    kinds = {"who": "Int64", "n": "Int64", "yes": "boolean", "x": "float64", "f": "float64", "late": "float64"}
    columns = {name: [row[name] for row in rows] for name in ROW}
    frame = pd.DataFrame({name: pd.Series(held, dtype=kinds.get(name, "str")) for name, held in columns.items()})
    frame["at"] = pd.to_datetime(frame["at"])
    frame["late"] = pd.Series(columns["late"], dtype="float64")
    if few:
        frame.to_parquet(Path(folder) / "rows.parquet")
    table = table_of(of, {"kind": "parquet", "path": "rows.parquet"}, folder=Path(folder))
    if not few:
        at_most(table, -1)
    return table


def opened_here(of: Schema, rows: list[dict[str, Any]], folder: Path, *, few: bool) -> closing[EngineTable]:
    opened(of, rows, str(folder), few=True).close()  # writes the file
    return closing(opened(of, rows, str(folder), few=few))


def at_most(table: EngineTable, rows: int) -> None:
    engine: Any = table.engine
    engine.session.most_few = rows


@examples(15)
@given(
    ROWS,
    st.sampled_from(["", "integer", "string"]),
    st.integers(1, 3),
    st.sampled_from([None, "at", "late"]),
    st.lists(st.sampled_from(AXES), max_size=2),
    st.lists(st.sampled_from(TERMS), min_size=1, max_size=3, unique=True),
    WHERE,
    st.booleans(),
)
def test_few_rows_are_added_up_and_put_in_order_as_duckdb_does(
    rows: list[dict[str, Any]],
    key: str,
    most: int,
    time: str | None,
    axes: list[Axis],
    terms: list[Term],
    where: str | None,
    units: bool,
) -> None:
    of = schema(key, most, time)
    units = units and bool(axes) and not any(axis.missing for axis in axes)
    wanted = Sums(
        (Term(),) if units else tuple(terms),
        bits=16,
        axes=tuple(axes),
        where=read_filter(where, of) if where else None,
        units=units,
    )
    with tempfile.TemporaryDirectory() as folder:
        one, other = opened(of, rows, folder, few=True), opened(of, rows, folder, few=False)
        assert one.engine.few(list(of.columns), None) is not None
        assert other.engine.few(list(of.columns), None) is None
        assert one.sums(wanted).tolist() == other.sums(wanted).tolist()
        named = list(dict.fromkeys([*(axis.column for axis in axes), *(f.column for t in terms for f in t.factors)]))
        for ours, theirs in zip(one.batches(named, wanted.where), other.batches(named, wanted.where), strict=True):
            assert ours.numbers.tolist() == theirs.numbers.tolist()
            assert ours.people.tolist() == theirs.people.tolist()
        one.close()
        other.close()


@pytest.mark.parametrize("few", [True, False])
def test_a_number_with_declared_values_is_given_by_its_place(few: bool, tmp_path: Path) -> None:
    rows = [{**dict.fromkeys(ROW), "who": who, "f": f, "n": 1} for who, f in enumerate([2.0, 0.5, 3.0, 2.0, None])]
    for of in (schema("integer", 3, None), schema("", 1, None)):
        with opened_here(of, rows, tmp_path, few=few) as table:
            assert sorted(n for batch in table.batches(["f"]) for (n,) in batch.numbers.tolist()) == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("rows", [20, 21])
def test_a_table_is_few_rows_up_to_a_number_and_its_sums_are_the_same_beyond(rows: int, tmp_path: Path) -> None:
    of = schema("string", 2, "at")
    row = {**dict.fromkeys(ROW), "n": 4, "g": "a"}
    table = opened(of, [{**row, "who": n // 4} for n in range(rows)], str(tmp_path), few=True)
    at_most(table, 20)
    assert (table.engine.few(["n", "who"], None) is None) is (rows > 20)
    assert table.sums(Sums((Term(),), axes=(Axis("g", ("a",)),))).tolist() == [[10 + (rows > 20)]]
    table.close()


def test_a_long_text_is_not_taken_into_memory_and_counts_all_the_same(tmp_path: Path) -> None:
    of = schema_of({"unit": "event", "columns": {"t": {"type": "string"}}})
    pd.DataFrame({"t": ["x" * 200, "x" * 201, None]}).to_parquet(tmp_path / "rows.parquet")
    table = table_of(of, {"kind": "parquet", "path": "rows.parquet"}, folder=tmp_path)
    for condition, right in (("t > 'w'", 2), (f"t = '{'x' * 201}'", 1), ("t IS NULL", 1)):
        assert table.sums(Sums((Term(),), where=read_filter(condition, of))).tolist() == [[right]]
    assert table.engine.few(["t"], None) is None
    table.close()


def test_few_rows_are_read_anew_once_they_are_forgotten(tmp_path: Path) -> None:
    of = schema_of({"unit": "event", "columns": {"n": {"type": "integer", "low": 0, "high": 9}}})
    file, counted = tmp_path / "rows.parquet", []
    pd.DataFrame({"n": [1, 2]}).to_parquet(file)
    table = table_of(of, {"kind": "parquet", "path": file.name}, folder=tmp_path)
    for rows in ([1, 2], [1, 2, 3]):
        pd.DataFrame({"n": rows}).to_parquet(file)
        counted.append(table.sums(Sums((Term(),))).tolist())
    table.forget()
    assert [*counted, table.sums(Sums((Term(),))).tolist()] == [[[2]], [[2]], [[3]]]
    table.close()
