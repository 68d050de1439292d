"""Bins of one width are reckoned and others searched: both give what comparing with the edges gives."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from thebes.data.engines.source import frame_table, table_of
from thebes.data.schema import schema_of
from thebes.data.table import Axis, Sums, Term


@pytest.mark.few(1)
@pytest.mark.parametrize("engine", ["frame", "duckdb"])
@pytest.mark.parametrize("bins", [2, 16, 17, 100, 1024])
@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 120.0), (-0.1, 0.7), (1e9, 1e9 + 1), (1e-7, 3e-7), (-5.0, 11.0), (2.0**52, 2.0**52 + 4096)]
)
def test_every_number_lies_in_its_bin(low, high, bins, engine, tmp_path: Path) -> None:
    edges = np.linspace(low, high, bins + 1)
    around = [math.nextafter(float(edge), side) for edge in edges for side in (-math.inf, math.inf)]
    numbers = np.concatenate([edges, around, np.random.default_rng(1).uniform(low, high, 500)])
    expected = np.bincount(
        np.clip(np.searchsorted(edges, np.clip(numbers, low, high), side="right") - 1, 0, bins - 1), minlength=bins
    )
    schema = schema_of({"unit": "event", "columns": {"x": {"type": "float", "low": low, "high": high}}})
    frame = pd.DataFrame({"x": numbers})
    if engine == "frame":
        table = frame_table(schema, frame)
    else:
        frame.to_parquet(tmp_path / "x.parquet")
        table = table_of(schema, {"kind": "parquet", "path": "x.parquet"}, folder=tmp_path)
    axis = Axis("x", edges=tuple(edges.tolist()))
    assert table.sums(Sums((Term(),), axes=(axis,)))[:, 0].tolist() == expected.tolist()
    table.close()
