"""Cells of a schema: a plan's weights over them give the plan's own totals wherever cells tell rows apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from thebes.curator.cache.cells import Cells, mass_of
from thebes.curator.questions.question import Question
from thebes.data.engines.source import frame_table
from thebes.data.schema import schema_of
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import seeded_for_simulation

SCHEMA = schema_of(
    {
        "unit": "event",
        "columns": {
            "age": {"type": "integer", "low": 0, "high": 7},
            "ward": {"type": "string", "values": ["north", "south", "east"]},
            "smoker": {"type": "boolean"},
            "weight": {"type": "float", "low": -2.0, "high": 6.0},
            "seen": {"type": "timestamp", "values": ["2026-02-01", "2026-02-02"]},
            "note": {"type": "string"},
        },
    }
)
CELLS = Cells.of(SCHEMA, bins={"weight": 4})
QUESTIONS = [
    Question("count"),
    Question("count", where="age >= 3 AND ward <> 'north'"),
    Question("count", where="age IS NULL OR (smoker AND NOT weight < 0)"),
    Question("count", where="ward IN ('north', 'east') OR seen > '2026-02-01'", by=("ward", "smoker")),
    Question("count", by=("seen",)),
    Question("histogram", ("weight",), bins=2, where="smoker"),
    Question("histogram", ("age",), bins=(2.0, 5.0)),
    Question("sum", ("weight",), where="age < 5", by=("ward",)),
    Question("sum", ("age",)),
    Question("mean", ("age",), where="ward = 'east'"),
    Question("variance", ("weight",), by=("smoker",)),
    Question("correlation", ("age", "weight"), where="ward IS NOT NULL"),
    Question("quantile", ("weight",), bins=4, quantile=0.3),
]


def rows_of(count: int, seed: int) -> pd.DataFrame:
    """Rows at the middles of their cells, many of them with something missing."""
    numbers = np.random.default_rng(seed).integers(0, CELLS.count, count)
    columns: dict[str, Any] = CELLS.rows(numbers)
    return pd.DataFrame({**columns, "note": [None] * count}, dtype=object)


@pytest.mark.few(3)
@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: f"{question.statistic} {question.where}")
def test_weights_over_the_cells_give_the_totals_of_the_rows(question: Question) -> None:
    table = frame_table(SCHEMA, rows_of(600, seed=3))
    plan = question.plan(SCHEMA, epsilon=1)
    counts = CELLS.counts(table)
    vectors = CELLS.vectors(plan)
    exact = plan.totals(table)
    assert CELLS.covers(plan)
    assert counts.sum() == 600
    assert np.abs(exact).max() > 0
    assert np.allclose(vectors.totals(counts.astype(np.float64)), exact, rtol=1e-12)
    assert np.allclose(vectors.dense() @ counts, exact, rtol=1e-12)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: f"{question.statistic} {question.where}")
def test_pulling_is_what_totals_are_turned_round(question: Question) -> None:
    vectors = CELLS.vectors(question.plan(SCHEMA, epsilon=1))
    draws = np.random.default_rng(4)
    mass, strengths = draws.random(CELLS.count), draws.random(vectors.size)
    pulled = np.broadcast_to(vectors.pulled(strengths), CELLS.shape).reshape(-1)
    assert np.isclose(pulled @ mass, strengths @ vectors.totals(mass), rtol=1e-9)
    reached = np.broadcast_to(vectors.reached, CELLS.shape).reshape(-1)
    assert not pulled[~reached].any()


def test_a_condition_that_cuts_a_bin_takes_its_share_of_it() -> None:
    schema = schema_of(
        {
            "unit": "event",
            "columns": {
                "age": {"type": "integer", "low": 0, "high": 119},
                "weight": {"type": "float", "low": 0.0, "high": 100.0},
                "sex": {"type": "string", "values": ["f", "m"]},
            },
        }
    )
    cells = Cells.of(schema, bins={"age": 10}, missing=False)
    mass = np.ones(cells.count)
    for where, expected in (
        ("age < 18", 30.0),
        ("age = 30", 200 / 120),
        ("age >= 18 AND weight < 25 AND sex = 'f'", 200 * 0.85 * 0.25 * 0.5),
        ("age < 18 OR age >= 18", 200.0),
        ("age < 6 OR weight < 5", 200 * (1 - 0.95 * 0.95)),
    ):
        found = cells.vectors(Question("count", where=where).plan(schema)).totals(mass)
        assert found[0] == pytest.approx(expected, rel=0.02), where


def test_bins_that_are_finer_than_cells_get_their_shares_of_them() -> None:
    columns = {"age": {"type": "integer", "low": 0, "high": 99}, "weight": {"type": "float", "low": 0.0, "high": 60.0}}
    schema = schema_of({"unit": "event", "columns": columns})
    cells = Cells.of(schema, bins={"age": 10, "weight": 10}, missing=False)
    mass = np.full(cells.count, 6.0)
    for question, expected in (
        (Question("histogram", ("weight",), bins=20), [30.0] * 20),
        (Question("histogram", ("weight",), bins=(15.0,)), [150.0, 450.0]),
        (Question("histogram", ("age",), bins=(25.0,), where="weight < 30"), [75.0, 225.0]),
    ):
        assert cells.vectors(question.plan(schema)).totals(mass) == pytest.approx(expected, rel=0.03)
    levels = Question("quantile", ("weight",), bins=16, quantile=0.5).plan(schema, epsilon=1)
    found = cells.vectors(levels).totals(mass)
    assert found[-16:] == pytest.approx([600 / 16] * 16, rel=0.35)
    assert found[-16:].sum() == pytest.approx(600.0)


def test_every_row_is_in_one_cell_and_rows_drawn_in_a_cell_lie_in_it() -> None:
    numbers = np.arange(CELLS.count, dtype=np.int64)
    for randomness in (None, seeded_for_simulation(1)):
        made = pd.DataFrame({**CELLS.rows(numbers, randomness), "note": [None] * CELLS.count}, dtype=object)
        assert (CELLS.counts(frame_table(SCHEMA, made)) == 1).all()


def test_a_column_that_always_has_a_value_needs_no_cell_for_lacking_one() -> None:
    assert Cells.of(SCHEMA, ["age", "ward"]).shape == (9, 4)
    assert Cells.of(SCHEMA, ["age", "ward"], missing=["ward"]).shape == (8, 4)
    assert Cells.of(SCHEMA, ["age", "ward"], {"age": 4}, missing=False).shape == (4, 3)
    rows = rows_of(300, seed=5)
    whole = rows["age"].notna() & rows["ward"].notna()
    assert Cells.of(SCHEMA, ["age", "ward"], missing=False).counts(frame_table(SCHEMA, rows)).sum() == whole.sum()


def test_a_plan_about_another_column_is_not_covered() -> None:
    cells = Cells.of(SCHEMA, ["age", "ward"])
    assert cells.covers(Question("mean", ("age",), where="ward = 'east'").plan(SCHEMA))
    assert not cells.covers(Question("mean", ("age",), where="smoker").plan(SCHEMA))
    assert not CELLS.covers(Question("count", where="note IS NOT NULL").plan(SCHEMA))


def test_what_cannot_be_cut_is_refused_by_name() -> None:
    for named, bins, said in (
        (["note"], {}, "note"),
        ([], {}, "at least one"),
        (["age", "age"], {}, "none twice"),
        (["age"], {"ward": 3}, "ward"),
        (["ward"], {"ward": 3}, "values"),
        (["weight"], {"weight": [9.0]}, "rising"),
        (["weight", "age"], {"weight": 999_999}, "fewer"),
    ):
        with pytest.raises(Mistake, match=said):
            Cells.of(SCHEMA, named, bins)


def test_a_guess_from_no_data_gives_missing_values_their_share() -> None:
    mass = mass_of(CELLS, missing=0.05).reshape(CELLS.shape)
    assert np.isclose(mass.sum(), 1.0)
    assert np.isclose(mass[-1].sum(), 0.05)
    assert np.isclose(mass[:, -1].sum(), 0.05)
