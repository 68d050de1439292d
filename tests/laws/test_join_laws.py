"""Laws of joined rows: one person more or less changes only rows of that person, at most the product of what both data
sets let count, and no question by more than what is paid for."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes import sql
from thebes.curator.questions.noise import noise_for
from thebes.data.engines.source import given_join
from thebes.data.engines.table import EngineTable
from thebes.data.join import Join, join
from thebes.data.schema import schema_of
from thebes.tasks import registry
from thebes.tasks.query.kind import QueryDocument

SHORT = st.integers(1, 4)
WHO = st.one_of(st.none(), st.integers(0, 5))
NUMBER = st.one_of(st.none(), st.floats(-20, 30), st.sampled_from([0.0, -0.0, 1e300, -1e300, math.inf]))
ONE = st.lists(st.tuples(WHO, NUMBER, st.sampled_from(["a", "b", "?", None])), max_size=14)
OTHER = st.lists(st.tuples(WHO, NUMBER, NUMBER), max_size=14)
TEXTS = (
    "SELECT COUNT(*) AS n, SUM(x) AS s, AVG(y * x) AS m FROM one JOIN other USING (person)",
    "SELECT g, COUNT(*) AS n, VAR_POP(y) AS v FROM one JOIN other USING (person) WHERE x > 1 AND z < 8 GROUP BY g",
    "SELECT g, COUNT(DISTINCT person) AS n, MEDIAN(x) AS q FROM one JOIN other USING (person) GROUP BY g",
)


def schemas(most: tuple[int, int], timed: bool) -> dict[str, Any]:
    number = {"type": "float", "low": -10, "high": 10}
    key = {"type": "integer", "key": True}
    told = {"unit": "person", "people": "all"}
    one = {"who": key, "x": number, "g": {"type": "string", "values": ["a", "b"]}}
    other = {"me": key, "y": number, "z": {"type": "float"}}
    time = {"time": "z"} if timed else {}
    return {
        "one": {**told, "max_rows_per_unit": most[0], "columns": one},
        "other": {**told, **time, "max_rows_per_unit": most[1], "columns": other},
    }


def frames(one: list[Any], other: list[Any], without: int | None = None) -> list[pd.DataFrame]:
    made = []
    for rows, names in ((one, ["who", "x", "g"]), (other, ["me", "y", "z"])):
        kept = [row for row in rows if row[0] is None or row[0] != without]
        made.append(pd.DataFrame({n: pd.Series([r[i] for r in kept], dtype=object) for i, n in enumerate(names)}))
    return made


def joined(told: dict[str, Any]) -> Join:
    return join(*((name, schema_of(one)) for name, one in told.items()))


def opened(made: Join, rows: list[pd.DataFrame], folder: str) -> EngineTable:
    return given_join(made, rows, scratch=Path(folder))


@examples(8)
@given(ONE, OTHER, SHORT, SHORT, st.booleans(), st.integers(0, 5))
def test_one_person_less_takes_away_that_person_s_joined_rows_and_no_other(
    one: list[Any], other: list[Any], m: int, n: int, timed: bool, who: int
) -> None:
    made = joined(schemas((m, n), timed))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for without in (None, who):
            table = opened(made, frames(one, other, without), folder)
            rows = table.engine.collected(table.engine.rows(list(made.schema.columns), None))
            found.append([tuple(map(str, row)) for row in rows.itertuples(index=False)])
            owners = rows[made.schema.key].tolist()
            assert all(owners.count(each) <= m * n for each in owners)
            table.close()
    of = list(made.schema.columns).index(made.schema.key)
    assert sorted(row for row in found[0] if row[of] != str(who)) == sorted(found[1])


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
@examples(8)
@given(ONE, OTHER, SHORT, SHORT, st.booleans(), st.integers(0, 5), st.booleans())
def test_one_person_less_moves_no_question_by_more_than_is_priced(
    text: str, one: list[Any], other: list[Any], m: int, n: int, timed: bool, who: int, smooth: bool
) -> None:
    told = schemas((m, n), timed)
    made = joined(told)
    document = registry.check(sql.read(text, told, epsilon=0.5, delta=1e-6 if smooth else 0.0).document)
    assert isinstance(document, QueryDocument)
    plan = document.plan(made.schema)
    noise = noise_for(plan, made.schema, epsilon=document.epsilon, delta=document.delta)
    totals = []
    with tempfile.TemporaryDirectory() as folder:
        for without in (None, who):
            table = opened(made, frames(one, other, without), folder)
            totals.append(plan.totals(table))
            table.close()
    moved = np.abs(totals[0] - totals[1])
    if noise.kind == "laplace":
        assert moved.sum() / noise.scale <= document.epsilon * (1 + 1e-9)
    else:
        assert math.sqrt(float((moved.astype(float) ** 2).sum())) <= noise.scale / noise.event.ratio * (1 + 1e-9)
