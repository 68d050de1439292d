"""Rows of one's own behind a ledger: what answers cost, what refusals cost, and what is remembered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thebes
from thebes.ledger import BudgetExceeded, Ledger
from thebes.privacy.faults import Mistake
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
        monkeypatch.setattr(table._table, "sums", lambda wanted: 1 / 0)
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
    pa = pytest.importorskip("pyarrow")
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
