"""A condition selects the same rows wherever it is answered: by SQLite from its text, and by every engine as read."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import duckdb
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.data.connectors.registry import open_connector
from thebes.data.engines.arithmetic import holds
from thebes.data.engines.duck import DuckEngine
from thebes.data.engines.engine import Engine
from thebes.data.engines.frames import FrameEngine
from thebes.data.filter import read_filter
from thebes.data.schema import schema_of

SCHEMA = schema_of(
    {
        "unit": "event",
        "columns": {
            "number": {"type": "integer"},
            "age": {"type": "integer"},
            "weight": {"type": "float"},
            "name": {"type": "string"},
            "smoker": {"type": "boolean"},
            "seen": {"type": "timestamp"},
        },
    }
)
INTEGERS = (-(2**63), -7, -1, 0, 1, 2, 17, 18, 2**53 + 1, 2**63 - 1)
FLOATS = (-1e300, -0.1, 0.0, 0.1, 0.30000000000000004, 2.5, 17.0, 1e17, 1e300)
TEXTS = ("", "a", "A", "aa", "b", "é", "e\u0301", "ﬀ", "\U0001f600", "\uffee", "o'x", "%", "10", "9")
MOMENTS = ("1969-12-31T23:59:59", "2026-01-31T00:00:00", "2026-01-31T00:00:01", "2026-02-01T12:30:00")


def rows() -> pd.DataFrame:
    draw = random.Random(4)

    def column(*choices: object) -> list[object]:
        return [None if draw.random() < 0.15 else draw.choice(choices) for _ in range(160)]

    made = {
        "number": list(range(160)),
        "age": column(*INTEGERS),
        "weight": column(*FLOATS, np.nan, np.inf, -np.inf),
        "name": column(*TEXTS),
        "smoker": column(True, False),
        "seen": column(*MOMENTS),
    }
    return pd.DataFrame(made, dtype=object)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[sqlite3.Connection, dict[str, Engine]]]:
    folder: Path = tmp_path_factory.mktemp("rows")
    frame = rows()
    native = [["number", "BIGINT"], ["age", "BIGINT"], ["weight", "DOUBLE"], ["name", "TEXT"], ["smoker", "BOOLEAN"]]
    declared = ", ".join(f"{name} {kind}" for name, kind in native)
    with duckdb.connect(str(folder / "rows.duckdb")) as there:
        there.execute(f"CREATE TABLE rows ({declared}, seen TIMESTAMP)")
        there.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", frame.values.tolist())
    sqlite = sqlite3.connect(folder / "rows.db")
    sqlite.execute(f"CREATE TABLE rows ({declared}, seen TEXT)")
    sqlite.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?)", frame.values.tolist())
    sqlite.commit()

    def over(kind: str, path: str) -> Engine:
        connector = open_connector({"kind": kind, "path": path, "table": "rows"}, folder=folder)
        return DuckEngine(SCHEMA, connector, scratch=folder / "scratch", threads=1)

    engines: dict[str, Engine] = {
        "pandas": FrameEngine(SCHEMA, frame),
        "DuckDB": over("duckdb", "rows.duckdb"),
        "DuckDB after SQLite": over("sqlite", "rows.db"),
    }
    yield sqlite, engines
    for engine in engines.values():
        engine.close()
    sqlite.close()


def text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


WHOLE = st.sampled_from([*INTEGERS[1:], 2.5, 17.0, -0.5, 2**53]).map(repr)  # -2^63 is no literal of SQLite's
REAL = st.sampled_from([*FLOATS, 17, -3, 2**53]).map(repr)
VALUES = {
    "age": WHOLE,
    "weight": REAL,
    "name": st.sampled_from(TEXTS).map(text),
    "smoker": st.sampled_from(["TRUE", "FALSE"]),
    "seen": st.sampled_from(MOMENTS).map(text),
}
ORDERED = ("=", "<>", "!=", "<", "<=", ">", ">=")


@st.composite
def leaf(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(VALUES)))
    value = VALUES[column]
    shape = draw(st.sampled_from(["compare", "turned", "null", "in", "between", "flag"]))
    negated = draw(st.sampled_from(["", "NOT "]))
    if shape == "null":
        return f"{column} IS {negated}NULL"
    if shape == "in":
        return f"{column} {negated}IN ({', '.join(draw(st.lists(value, min_size=1, max_size=4)))})"
    if column == "smoker":
        return f"{negated}smoker" if shape == "flag" else f"smoker {draw(st.sampled_from(ORDERED[:3]))} {draw(value)}"
    if shape == "between":
        return f"{column} {negated}BETWEEN {draw(value)} AND {draw(value)}"
    if shape == "turned":
        return f"{draw(value)} {draw(st.sampled_from(ORDERED))} {column}"
    return f"{column} {draw(st.sampled_from(ORDERED))} {draw(value)}"


CONDITIONS = st.recursive(
    leaf(),
    lambda inner: st.one_of(
        inner.map("({})".format),
        inner.map("NOT ({})".format),
        st.lists(inner, min_size=2, max_size=4).map(" AND ".join),
        st.lists(inner, min_size=2, max_size=4).map(" OR ".join),
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(condition=CONDITIONS)
@example("age = 2.5")  # whole numbers never are: nothing of the rows is asked
@example("NOT (age = 2.5 OR age IN (17.5))")
@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_engine_selects_the_rows_that_sqlite_selects_from_the_same_text(
    places: tuple[sqlite3.Connection, dict[str, Engine]], condition: str
) -> None:
    sqlite, engines = places
    right = [number for (number,) in sqlite.execute(f"SELECT number FROM rows WHERE {condition} ORDER BY number")]
    where = read_filter(condition, SCHEMA)
    wanted = list(dict.fromkeys(["number", *where.columns]))
    for name, engine in engines.items():
        lazy = engine.rows(wanted, where).filter(holds(where.condition, "number")).select(nw.col("number"))
        assert sorted(engine.collected(lazy)["number"].tolist()) == right, name
