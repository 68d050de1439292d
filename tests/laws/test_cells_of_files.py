"""A cell of a CSV file is to a simulation what a person's store makes of it, but for differences that are named."""

from __future__ import annotations

import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from thebes.collectors.inference import ColumnReading, Types
from thebes.data.store import Store
from thebes.simulation.featurizer import featurize
from thebes.simulation.files import load

SQL = "SELECT x, typeof(x) AS kind FROM app.t"
DOCUMENTED = Path(__file__).parents[2] / "docs" / "tasks.md"
CELLS = (
    "None", "NULL", "n/a", "N/A", "nan", "NaN", "-", "--", "?", "#n/a", "na", "nil", "", "  ", " n/a ", "inf", "1.",
    "-1.", "1e3", "0x10", "007", "-007", "-0", "-0.0", "0", "5", " 5 ", "1.5", ".5", "5E-3", "1_000",
    "9223372036854775807", "9223372036854775808", "99999999999999999999", "1e999", "12:30", "word", "none of it",
)  # fmt: skip
#: what a simulation and a store make of what is read differently; the page on tasks names each
NAMED: dict[str, tuple[Any, Any]] = {
    "+5": ("+5", 5),
    "1,5": ("1,5", 1.5),
    "€ 5.50": ("€ 5.50", 5.5),
    "true": ("true", 1),
    "no": ("no", 0),
    "2020-01-01": ("2020-01-01", "2020-01-01 00:00:00"),
    "31.12.2020": ("31.12.2020", "2020-12-31 00:00:00"),
}


def simulated(cell: str, **more: Any) -> tuple[Any, str]:
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = Path(place) / "people.csv"
        file.write_text(f'x,one\n"{cell}",1\n')
        return _first(featurize(SQL, load(file, **more)))


@cache
def stored(cell: str) -> tuple[Any, str]:
    reading = ColumnReading()
    reading.see(cell)
    types = Types.of({"x": reading}, {})
    with tempfile.TemporaryDirectory() as home, Store.open(home) as store:
        told = {"x": {"type": types.kinds["x"], "description": ""}}
        store.register("app", {"tables": {"t": {"description": "", "columns": told}}})
        store.insert("app", "t", [{"x": types.value("x", cell)}])
        with store.view() as view:
            return _first(view.featurize(SQL))


def _first(rows: Any) -> tuple[Any, str]:
    value, kind = rows.columns["x"].tolist()[0], rows.columns["kind"].tolist()[0]
    return None if value != value else value, kind


@pytest.mark.few(6)
@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_is_to_a_simulation_what_it_is_to_a_store(cell: str) -> None:
    assert repr(simulated(cell)) == repr(stored(cell))


@pytest.mark.parametrize("cell", CELLS)
def test_so_it_is_where_the_task_needs_a_number(cell: str) -> None:
    kept = stored(cell)
    assert kept[1] == "text" or repr(simulated(cell, numbers=["x"])) == repr(kept)  # no task takes text for a number


@pytest.mark.parametrize("cell", ["None", "n/a", "", "  ", "-", "5", "1.5"])
def test_so_it_is_where_other_values_are_declared(cell: str) -> None:
    assert repr(simulated(cell, sets={"x": ["a", 5, 1.5]})) == repr(stored(cell))


@pytest.mark.parametrize("cell", NAMED)
def test_what_is_read_differently_is_so_named(cell: str) -> None:
    assert (simulated(cell)[0], stored(cell)[0]) == NAMED[cell]
    assert f"`{cell}`" in DOCUMENTED.read_text()
