"""Rows of one's own behind a ledger: what answers cost, what refusals cost, and what is remembered."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import thebes
from thebes.ledger import BudgetExceeded, Ledger
from thebes.privacy.faults import Mistake, Refusal
from thebes.tasks.document import InvalidDocument

ROWS = pd.DataFrame(
    {"who": np.repeat(np.arange(500), 2), "age": np.tile(np.linspace(20, 80, 500), 2), "g": ["a", "b"] * 500}
)
SCHEMA: dict[str, Any] = {
    "unit": "person",
    "max_rows_per_unit": 2,
    "columns": {
        "who": {"type": "integer", "key": True},
        "age": {"type": "float", "low": 0, "high": 100},
        "g": {"type": "string", "values": ["a", "b"]},
    },
}


def test_answers_are_paid_and_remembered_by_whoever_opens_them_again(tmp_path: Path) -> None:
    told = {"epsilon": 1, "ledger": tmp_path / "b.db"}
    with thebes.open_data(ROWS, SCHEMA, **told) as table:
        answer = table.sql("SELECT g, COUNT(*) AS n, AVG(age) AS a FROM data GROUP BY g", epsilon=0.6)
        assert [row["g"] for row in answer] == ["a", "b"]
        assert answer.certificate.epsilon == 0.6
        assert not answer.certificate.simulated
        assert float(table.left.epsilon) == pytest.approx(0.4)
    with thebes.open_data(ROWS, SCHEMA, **told) as table:
        assert float(table.left.epsilon) == pytest.approx(0.4)
        with pytest.raises(BudgetExceeded):
            table.query("count", epsilon=0.5)
        table.query("count", epsilon=0.4)
        assert float(table.left.epsilon) == 0
    with pytest.raises(Mistake):  # on other terms
        thebes.open_data(ROWS, SCHEMA, epsilon=2, ledger=tmp_path / "b.db")
    with Ledger(f"sqlite:///{tmp_path / 'b.db'}") as ledger:
        assert [str(claim.state) for claim in ledger.claims()] == ["closed", "closed"]


@pytest.mark.parametrize(
    "asked",
    [
        lambda table: table.sql("SELECT AVG(age) FROM elsewhere", epsilon=0.5),
        lambda table: table.sql("SELECT AVG(name) FROM data", epsilon=0.5),
        lambda table: table.query("mean", column="g", epsilon=0.5),
        lambda table: table.query("mean", column="age", epsilon=None, privacy="none"),
        lambda table: table.query("count", epsilon=0),
    ],
)
def test_what_cannot_be_answered_costs_nothing(asked: Any) -> None:
    with thebes.open_data(ROWS, SCHEMA, epsilon=1) as table:
        with pytest.raises((Mistake, InvalidDocument)):
            asked(table)
        assert float(table.left.epsilon) == 1


def test_a_failure_before_noise_is_drawn_gives_the_price_back_and_one_after_does_not(monkeypatch: Any) -> None:
    with thebes.open_data(ROWS, SCHEMA, epsilon=1) as table:
        monkeypatch.setattr(table._table(("data",)), "sums", lambda wanted: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            table.query("count", epsilon=0.5)
        charged = float(table.left.epsilon)
    assert charged == 0.5  # it is charged before rows are looked at: a failure may tell of them


def test_with_a_delta_small_answers_are_counted_by_rho() -> None:
    with thebes.open_data(ROWS, SCHEMA, epsilon=1, delta=1e-6) as table:
        for _ in range(60):
            table.query("mean", column="age", epsilon=0.02)
        assert float(table.left.epsilon) > 0


def test_files_frames_and_columns_are_rows_and_other_things_are_none(tmp_path: Path) -> None:
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    for rows in (
        tmp_path / "rows.csv",
        str(tmp_path / "rows.csv"),
        pa.table(ROWS),
        {c: ROWS[c].tolist() for c in ROWS},
    ):
        with thebes.open_data(rows, SCHEMA, epsilon=20) as table:
            assert abs(table.query("count", epsilon=10).value - 1000) < 30
    for nothing in ([[1, 2]], "rows.xlsx", 3):
        with pytest.raises(Mistake, match="DataFrame"):
            thebes.open_data(nothing, SCHEMA, epsilon=1)


def test_groups_that_nobody_declared_are_found_for_half_of_the_price() -> None:
    schema = {**SCHEMA, "columns": {**SCHEMA["columns"], "g": {"type": "string"}}}
    text = "SELECT g, COUNT(*) AS n FROM data GROUP BY g ORDER BY n"
    with thebes.open_data(ROWS, schema, epsilon=5, delta=1e-5, filter="basic") as table:
        answer = table.sql(text, epsilon=4, delta=1e-6, max_groups_per_person=2)
        assert sorted(row["g"] for row in answer) == ["a", "b"]
        assert abs(answer.rows[0]["n"] - 500) < 60
        assert answer.bars[0]["n"] is not None
        assert answer.release.threshold == 16
        assert "found for half of the price" in answer.certificate.text
        assert (float(table.left.epsilon), float(table.left.delta)) == (1, pytest.approx(9e-6))
        with pytest.raises(Mistake, match="with a delta"):
            table.sql(text, epsilon=1)
        rare = table.sql("SELECT g, COUNT(*) AS n FROM data WHERE age < 20.01 GROUP BY g", epsilon=1, delta=1e-6)
        assert len(rare) == 0
        assert "no value was given by enough people" in str(rare.release)
    with thebes.open_data(ROWS, schema, epsilon=5, delta=1e-5) as table:
        with pytest.raises(Refusal, match="basic filter"):
            table.sql(text, epsilon=4, delta=1e-6)
        assert float(table.left.epsilon) == 5


def test_a_refused_opening_leaves_nothing_open_and_noise_is_always_added_here(tmp_path: Path, monkeypatch: Any) -> None:
    told, scratch = {"epsilon": 1, "ledger": tmp_path / "b.db"}, tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    with thebes.open_data(ROWS, SCHEMA, **told) as table, pytest.raises(Mistake, match="where the rows are"):
        table.query("count", epsilon=0.1, noise="coordinator")
    with pytest.raises(Mistake):
        thebes.open_data(ROWS, SCHEMA, **{**told, "epsilon": 2})
    with pytest.raises(Mistake, match="must be a pandas DataFrame"):
        thebes.open_data([1, 2], SCHEMA, epsilon=2, ledger=tmp_path / "c.db")
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "c.db").exists()
