"""A table over a data frame adds up what it is asked once, and gives every asker numbers of his own."""

from __future__ import annotations

import pandas as pd
import pytest

from thebes.data.engines.frames import FrameEngine
from thebes.data.engines.source import frame_table
from thebes.data.engines.table import EngineTable
from thebes.data.filter import read_filter
from thebes.data.schema import schema_of
from thebes.data.table import Axis, Factor, Sums, Term

SCHEMA = schema_of({"unit": "event", "columns": {"age": {"type": "float", "low": 0, "high": 100}}})
FRAME = pd.DataFrame({"age": [1.0, 20.0, 300.0]})
AGES = Sums((Term(), Term((Factor("age", 1, 1),))))
OTHERS = [
    Sums(AGES.terms, bits=8),
    Sums(AGES.terms, axes=(Axis("age", edges=(0.0, 10.0, 100.0)),)),
    Sums(AGES.terms, where=read_filter("age > 5", SCHEMA)),
    Sums(AGES.terms, where=read_filter("age > 50", SCHEMA)),
]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The passes over the rows."""
    found: list[object] = []
    plain = FrameEngine.rows
    monkeypatch.setattr(FrameEngine, "rows", lambda self, *asked: [found.append(asked), plain(self, *asked)][1])
    return found


def test_what_was_added_up_is_not_added_up_again(reads: list[object]) -> None:
    table = frame_table(SCHEMA, FRAME)
    first = table.sums(AGES)
    first[:] = 0
    assert table.sums(AGES).tolist() == EngineTable(SCHEMA, FrameEngine(SCHEMA, FRAME)).sums(AGES).tolist() != [[0, 0]]
    assert len(reads) == 2  # one of them the other table's


def test_every_other_question_is_answered_from_the_rows() -> None:
    table, plain = frame_table(SCHEMA, FRAME), EngineTable(SCHEMA, FrameEngine(SCHEMA, FRAME))
    for asked in (AGES, *OTHERS, AGES, *OTHERS):
        assert table.sums(asked).tolist() == plain.sums(asked).tolist()


def test_what_is_forgotten_is_read_anew(reads: list[object]) -> None:
    table = frame_table(SCHEMA, FRAME)
    for _ in range(2):
        table.sums(AGES)
        table.forget()
    assert len(reads) == 2


@pytest.mark.slow
def test_no_more_than_some_answers_are_kept() -> None:
    table = frame_table(SCHEMA, FRAME)
    for edge in range(1, 90):
        table.sums(Sums((Term(),), axes=(Axis("age", edges=(0.0, edge, 100.0)),)))
    assert len(table._added) == 64
