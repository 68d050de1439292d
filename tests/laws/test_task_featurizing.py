"""Simulating everybody at once gives exactly what every person's own database would give."""

from __future__ import annotations

import math
from contextlib import closing

import apsw
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.data.featurizer import FUNCTIONS, read
from thebes.simulation.featurizer import featurize
from thebes.simulation.tables import people_of

CELLS = st.one_of(
    st.none(), st.integers(-3, 3), st.sampled_from([0.5, -2.5, math.nan, 1e300]), st.sampled_from(["a", "B", "", "7"])
)
NUMBERS = st.one_of(st.none(), st.integers(-3, 3), st.floats(-5, 5))
TABLE = st.lists(st.tuples(st.integers(0, 3), CELLS, NUMBERS, st.sampled_from(["dog", "Cat", None])), max_size=8)

FEATURIZERS = [
    "SELECT x, y FROM app.pets",
    "SELECT X, Y AS z FROM APP.Pets",
    'SELECT "x" AS "a b", pets.y FROM app.pets',
    "SELECT app.pets.x FROM app.pets",
    "SELECT p.x, p.kind FROM app.pets AS p WHERE p.y > 0",
    "SELECT y * 2 + 1 AS a, y / 2 AS b, x || '!' AS c FROM app.pets WHERE x IS NOT NULL",
    "SELECT x AS y, y AS x FROM app.pets WHERE y >= 0 OR kind = 'dog'",
    "SELECT x AS rowid FROM app.pets WHERE y IS NULL",
    "SELECT coalesce(y, 0) AS y, lower(kind) AS kind, CASE WHEN y > 0 THEN 'up' ELSE 'down' END AS way FROM app.pets",
    "SELECT abs(CAST(y AS INTEGER)) AS a, y IN (1, 2) AS b, y BETWEEN 0 AND 2 AS c, kind LIKE 'c%' AS d FROM app.pets",
    "SELECT count(*) AS n, sum(y) AS s, avg(y) AS m, max(x) AS top FROM app.pets",
    "SELECT total(y) AS t FROM app.pets",
    "SELECT kind, count(*) AS n FROM app.pets GROUP BY kind HAVING count(*) > 1 ORDER BY n DESC, kind",
    "SELECT DISTINCT kind FROM app.pets ORDER BY kind",
    "SELECT x FROM app.pets ORDER BY y DESC LIMIT 1",
    "SELECT y FROM app.pets LIMIT 2 OFFSET 1",
    "SELECT y, row_number() OVER (ORDER BY y) AS place FROM app.pets",
    "SELECT a.x, b.w FROM app.pets AS a JOIN Other.visits AS b ON a.kind = b.kind",
    "SELECT a.x, b.w FROM app.pets a LEFT JOIN other.visits b ON a.kind = b.kind WHERE b.w IS NULL OR b.w > 0",
    "SELECT x FROM app.pets WHERE y > (SELECT avg(w) FROM other.visits)",
    "SELECT x FROM app.pets WHERE EXISTS (SELECT 1 FROM other.visits)",
    "SELECT b FROM (SELECT x AS b, y AS a FROM app.pets) WHERE a > 0",
    "WITH big AS (SELECT x, y FROM app.pets WHERE y > 0) SELECT count(*) AS n FROM big",
    "WITH c(a) AS (SELECT y FROM app.pets) SELECT a FROM c",
    "SELECT x FROM app.pets UNION ALL SELECT w FROM other.visits",
    "SELECT count(*) AS n FROM app.pets, APP.pets AS again",
    "SELECT 1 AS one",
    "VALUES (1, 2), (3, 4)",
]


def alone(sql: str, tables: dict[str, pd.DataFrame], person: int) -> list[tuple]:
    """The slow obvious way: this person's rows in a database of their own."""
    with closing(apsw.Connection(":memory:")) as store:
        for collector in sorted({name.split(".")[0] for name in tables}):
            store.execute(f"ATTACH ':memory:' AS {collector}")
        for name, frame in tables.items():
            mine = frame[frame["person_id"] == person].drop(columns="person_id")
            rows = [
                tuple(None if c is None or c != c else c for c in r)
                for r in mine.astype(object).itertuples(index=False)
            ]
            columns = [f"{column} {_declared({type(r[i]) for r in rows})}" for i, column in enumerate(mine.columns)]
            store.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
            for cells in rows:
                store.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(cells))})", cells)
        return store.execute(sql).fetchall()[:1000]


def _declared(kinds: set[type]) -> str:
    """Return how a collector must declare a column that holds these; nothing holds text beside numbers."""
    kinds -= {type(None)}
    if kinds == {int, float}:
        return "REAL"
    return {int: "INTEGER", float: "REAL", str: "TEXT"}[kinds.pop()] if len(kinds) == 1 else ""


def _plain(value: object) -> object:
    if value is None or value != value:
        return None
    return value.item() if hasattr(value, "item") else value


def everybody(sql: str, tables: dict[str, pd.DataFrame], people: int) -> list[list[tuple]]:
    rows = featurize(sql, people_of(tables))
    assert rows.people == people
    assert not rows.failures.any()
    columns = [rows.columns[name] for name in read(sql).outputs]
    found: list[list[tuple]] = [[] for _ in range(people)]
    for place, person in enumerate(rows.person):
        found[person].append(tuple(_plain(column[place]) for column in columns))
    return found


def _frame(rows: list[tuple], names: list[str]) -> pd.DataFrame:
    frame = pd.DataFrame({name: pd.Series([r[i] for r in rows], dtype=object) for i, name in enumerate(names)})
    frame["person_id"] = frame["person_id"].astype(int)
    return frame


@pytest.mark.few(1)
@pytest.mark.parametrize("sql", FEATURIZERS)
@examples(12)
@given(pets=TABLE, visits=st.lists(st.tuples(st.integers(0, 3), NUMBERS, st.sampled_from(["dog", "Cat"])), max_size=6))
def test_everybody_at_once_gives_what_each_persons_own_database_gives(sql, pets, visits) -> None:
    tables = {
        "app.pets": _frame(pets, ["person_id", "x", "y", "kind"]),
        "other.visits": _frame(visits, ["person_id", "w", "kind"]),
    }
    known = sorted({*tables["app.pets"]["person_id"], *tables["other.visits"]["person_id"]})
    found = everybody(sql, tables, len(known))
    for place, person in enumerate(known):
        expected = [tuple(_plain(c) for c in row) for row in alone(sql, tables, person)]
        if "JOIN" in sql:  # SQL leaves the order of a join open
            found[place], expected = sorted(found[place], key=repr), sorted(expected, key=repr)
        assert repr(found[place]) == repr(expected)


@pytest.mark.parametrize(
    "sql", ["SELECT x, y FROM a.b", "SELECT x FROM a.b WHERE y > 0", "SELECT max(x) AS x FROM a.b"]
)
@examples(10)
@given(values=st.lists(st.tuples(st.floats(-5, 5) | st.just(math.nan), st.integers(-3, 3)), min_size=1, max_size=20))
def test_a_flat_table_of_numbers_stands_for_one_row_each(sql, values) -> None:
    flat = pd.DataFrame({"x": [v[0] for v in values], "y": [v[1] for v in values]})
    found = everybody(sql, flat, len(values))
    tables = {"a.b": flat.assign(person_id=np.arange(len(values)))}
    for person in range(len(values)):
        assert found[person] == [tuple(_plain(c) for c in row) for row in alone(sql, tables, person)]


#: arguments of every function of one row on the list
CALLS = {
    "abs": ["y"], "ceil": ["y"], "ceiling": ["y"], "coalesce": ["y, 1"], "date": ["d", "d, '+1 day'"],
    "datetime": ["d"], "exp": ["y"], "floor": ["y"], "ifnull": ["y, 2"], "iif": ["y > 1, 'a', 'b'"],
    "instr": ["t, 'b'"], "julianday": ["d"], "length": ["t"], "like": ["'a%', t"], "ln": ["y"], "log": ["y", "2, y"],
    "log10": ["y"], "log2": ["y"], "lower": ["t"], "ltrim": ["t", "t, 'a'"], "max": ["y, 2"], "min": ["y, 2"],
    "mod": ["y, 2"], "nullif": ["y, 2"], "pow": ["y, 2"], "power": ["y, 2"], "round": ["y", "y, 1"],
    "rtrim": ["t"], "sign": ["y"], "sqrt": ["y"], "strftime": ["'%Y-%j', d"], "substr": ["t, 2", "t, -2, 1"],
    "substring": ["t, 2, 1"], "time": ["d"], "trim": ["t"], "trunc": ["y"], "typeof": ["y"], "unicode": ["t"],
    "unixepoch": ["d"], "upper": ["t"],
}  # fmt: skip
OF_MANY = {
    "avg", "count", "first_value", "last_value", "sum", "total", "rank", "dense_rank", "ntile", "row_number",
           "lag", "lead", "exists"}  # fmt: skip
WORDS = {"cast", "case", "if", "and", "or"}


@pytest.mark.parametrize(("name", "arguments"), [(n, a) for n, each in CALLS.items() for a in each])
def test_a_function_means_the_same_for_everybody_at_once_as_for_one(name: str, arguments: str) -> None:
    flat = pd.DataFrame({"y": [1.0, 2.5, 3.0, None], "t": ["abc", " b ", "aa", "7"], "d": ["2024-02-29 13:00"] * 4})
    sql = f"SELECT {name}({arguments}) AS v FROM a.b"
    assert read(sql).row_by_row
    tables = {"a.b": flat.assign(person_id=np.arange(4))}
    found = everybody(sql, flat, 4)
    assert repr(found) == repr([alone(sql, tables, person) for person in range(4)])


def test_every_function_on_the_list_is_tried() -> None:
    assert set(CALLS) | OF_MANY | WORDS == FUNCTIONS


def test_a_featurizer_that_fails_for_one_person_fails_for_nobody_else() -> None:
    table = {"x": np.array([1, -(2**63), 3])}
    rows = featurize("SELECT abs(x) AS a FROM p.t", people_of(table))
    assert rows.failures.tolist() == [0, 5, 0]
    assert rows.columns["a"].tolist() == [1, 3]


@pytest.mark.parametrize(
    ("rows", "sql"),
    [
        ({"x": [1], "X": [2]}, "SELECT x + 1 AS y FROM p.t"),
        ({"x": [2**64]}, "SELECT x + 1 AS y FROM p.t"),
        ({"x": ["\ud800"]}, "SELECT x || 'a' AS y FROM p.t"),
        ({"x": [1]}, "SELECT y FROM p.t"),
        ({"x": [1], "person_id": [None]}, "SELECT x FROM p.t"),
        ({"x": [1, 2], "person_id": np.array([1, "a"], dtype=object)}, "SELECT x FROM p.t"),
        ({"p.t": {"x": [1], "person_id": [1]}, "p.u": {"y": [2], "person_id": ["1"]}}, "SELECT x FROM p.t"),
        ({"p.t": {"x": [1]}, "p.u": {"y": [2], "person_id": [1]}}, "SELECT x FROM p.t"),
        ({"p.t": {"x": [1]}, "p.u": {"y": [2, 3]}}, "SELECT x FROM p.t"),
        ({"p.t": {"x": [1]}}, "SELECT x FROM p.u"),
        ({"x": [1, 2], "y": [1]}, "SELECT x FROM p.t"),
        ({"x": [[1, 2]]}, "SELECT x FROM p.t"),
        ({}, "SELECT x FROM p.t"),
        ([1, 2], "SELECT x FROM p.t"),
        (None, "SELECT x FROM p.t"),
    ],
)
def test_rows_that_cannot_be_read_are_refused_without_showing_them(rows, sql) -> None:
    from thebes.privacy.faults import Mistake

    with pytest.raises(Mistake) as refused:
        featurize(sql, people_of(rows))
    assert refused.value.argument in ("rows", "person_id")
    assert str(2**64) not in str(refused.value)


def test_names_with_quotes_and_spaces_are_only_names() -> None:
    rows = featurize('SELECT "a ""b" + 1 AS y FROM p.t', people_of({'a "b': [1, 2], "c; DROP": [0, 0]}))
    assert rows.columns["y"].tolist() == [2, 3]


def test_people_may_be_named_by_text_and_rows_come_in_any_order() -> None:
    frame = pd.DataFrame({"person_id": ["b", "a", "b", "c"], "x": [1, 2, 3, 4]})
    rows = featurize("SELECT x FROM p.t", people_of(frame))
    assert rows.first().columns["x"].tolist() == [2, 1, 4]


def test_every_word_of_pandas_for_missing_is_missing() -> None:
    frame = pd.DataFrame(
        {
            "a": pd.array([1, None], dtype="Int64"),
            "b": pd.Series(["x", None], dtype="string"),
            "c": pd.Series(pd.to_datetime(["2024-01-01", None])),
            "d": pd.Series(["u", None], dtype="category"),
            "e": pd.array([True, None], dtype="boolean"),
        }
    )
    for where in ("", " WHERE 1 = 1"):
        rows = featurize(f"SELECT a, b, c, d, e FROM p.t{where}", people_of(frame))
        for name in "abcde":
            assert _plain(rows.columns[name][1]) is None
            assert _plain(rows.columns[name][0]) is not None
