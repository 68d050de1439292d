"""People counted once: the noise on their number, how far one of them moves it, and what weights make of noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import thebes
from thebes import sql
from thebes.data.engines.source import frame_table, table_of
from thebes.data.schema import schema_of
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import seeded_for_simulation
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.protocols import Ask
from thebes.testing.statistics import assert_size

DRAW = np.random.default_rng(2)
SCHEMA: dict[str, Any] = {
    "unit": "person",
    "max_rows_per_unit": 3,
    "columns": {
        "who": {"type": "string", "key": True},
        "ward": {"type": "string", "values": ["a", "b", "c", "d"]},
        "age": {"type": "float", "low": 0, "high": 100},
    },
}
ROWS = pd.DataFrame(
    {
        "who": [f"p{n // 2}" for n in range(400)],
        "ward": DRAW.choice(["a", "b", "c", "d"], 400),
        "age": DRAW.uniform(0, 100, 400),
    }
)
PEOPLE: dict[str, Any] = {"type": "query", "dataset": "d", "epsilon": 0.1, "statistics": {"n": {"statistic": "people"}}}


@pytest.mark.parametrize(
    ("more", "distance"),
    [
        ({}, 1),  # of all their rows one
        ({"by": "ward"}, 3),
        ({"statistics": {"n": {"statistic": "people"}, "rows": {"statistic": "count"}}}, 1 + 3),
        ({"statistics": {"n": {"statistic": "people", "weight": 5}, "rows": {"statistic": "count"}}}, 5 + 3),
    ],
)
def test_noise_hides_one_person_however_many_rows_they_have(more: dict[str, Any], distance: int) -> None:
    document, table = registry.check({**PEOPLE, **more}), frame_table(schema_of(SCHEMA), ROWS)
    owner, source = registry.site_owner(document), seeded_for_simulation(4)
    exact = document.plan(table.schema).totals(table)
    ask = Ask("any", "phase-0", 0)
    drawn = [
        owner.contribute(document, ask, table, RecordedClaim(), randomness=source).fields["totals"][0] - exact
        for _ in range(1800 // exact.size)
    ]
    assert_size(np.concatenate(drawn), "laplace", distance / 0.1)


@pytest.mark.parametrize("by", [None, "ward"])
def test_one_person_moves_the_numbers_as_far_as_is_paid_for_and_no_further(by: str | None) -> None:
    schema, farthest = schema_of(SCHEMA), 0.0
    document = registry.check({**PEOPLE, **({"by": by} if by else {})})
    plan = document.plan(schema)
    most = plan.transformation.sensitivity(schema.change)
    without = plan.totals(frame_table(schema, ROWS))
    for seed in range(40):
        draw = np.random.default_rng(seed)
        count = int(draw.integers(1, 12))
        mine = pd.DataFrame({"who": "me", "ward": draw.choice(["a", "b", "c", "d"], count), "age": 1.0})
        moved = np.abs(plan.totals(frame_table(schema, pd.concat([ROWS, mine]))) - without)
        assert moved.sum() <= most.l1
        assert (moved**2).sum() <= most.l2_squared
        farthest = max(farthest, float(moved.sum()))
    assert farthest == most.l1


def test_people_are_counted_as_a_person_would_on_every_engine(tmp_path: Any) -> None:
    schema = schema_of({**SCHEMA, "max_rows_per_unit": 50})
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    tables = [frame_table(schema, ROWS), table_of(schema, {"kind": "csv", "path": "rows.csv"}, folder=tmp_path)]
    for more, truth in (
        ({}, [ROWS.who.nunique()]),
        ({"by": "ward"}, ROWS.groupby("ward").who.nunique().tolist()),
        ({"where": "age > 50"}, [ROWS[ROWS.age > 50].who.nunique()]),
    ):
        document = registry.check({**PEOPLE, **more})
        for table in tables:
            assert document.plan(schema).totals(table).tolist() == truth
    tables[1].close()


def test_weights_and_lists_of_levels_are_said_in_sql() -> None:
    text = "SELECT COUNT(DISTINCT person) AS p, QUANTILE_CONT(age, [0.1, 0.9]) AS q, AVG(age) AS a FROM d ORDER BY a"
    question = sql.read(text, SCHEMA, epsilon=8, weights={"q_0.1": 3})
    assert list(question.columns) == ["p", "q_0.1", "q_0.9", "a"]
    told = question.document["statistics"]
    assert [one.get("weight") for one in told.values()] == [None, 3, None, None]
    answer = question.answer(thebes.simulate(question.document, {"one": ROWS}, schema=SCHEMA, seed=1))
    (row,) = answer.rows
    assert abs(row["p"] - 200) < 30
    assert row["q_0.1"] < 30 < 70 < row["q_0.9"]
    assert not answer.selected
    plain = sql.read(text, SCHEMA, epsilon=8)
    usual = thebes.simulate(plain.document, {"one": ROWS}, schema=SCHEMA, seed=1)
    bars = [(one.bars[0]["p"], one.bars[0]["q_0.1"]) for one in (plain.answer(usual), answer)]
    assert None not in bars[0] + bars[1]
    assert bars[1][0][1] - bars[1][0][0] > bars[0][0][1] - bars[0][0][0]  # others get less
    with pytest.raises(Mistake, match="names no column"):
        sql.read(text, SCHEMA, epsilon=8, weights={"z": 3})


@pytest.mark.parametrize(
    ("text", "schema", "said"),
    [
        ("SELECT COUNT(DISTINCT person) FROM d", {**SCHEMA, "unit": "event", "max_rows_per_unit": 1}, "count the rows"),
        ("SELECT COUNT(DISTINCT age) FROM d", SCHEMA, "person\\) only"),
        ("SELECT QUANTILE_CONT(age, [0.1, 0.9]) + 1 FROM d", SCHEMA, "be a column with a list"),
        ("SELECT QUANTILE_CONT(age, []) FROM d", SCHEMA, "must say one level"),
        ("SELECT QUANTILE_CONT(age, [0.1, 1.0]) FROM d", SCHEMA, "between 0 and 1"),
    ],
)
def test_what_is_no_count_of_people_or_list_is_refused(text: str, schema: Any, said: str) -> None:
    with pytest.raises(Mistake, match=said):
        sql.read(text, schema, epsilon=1)
