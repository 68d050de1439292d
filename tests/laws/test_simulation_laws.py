"""A simulation gives what real persons' stores and owner's halves give, whatever stands in the columns."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import thebes
from tests.support.examples import examples
from thebes.collectors.inference import ColumnReading, Types
from thebes.data.featurizer import read
from thebes.data.rows import Rows
from thebes.data.store import Store
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import seeded_for_simulation
from thebes.simulation.budgets import SimulatedBudgets
from thebes.simulation.featurizer import featurize
from thebes.simulation.files import load
from thebes.simulation.tables import people_of
from thebes.tasks import registry
from thebes.tasks.protocols import Setting

WEST = timezone(timedelta(hours=-4))
STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-4, 4),
    st.sampled_from([2**53 + 1, -(2**63), 2**63 - 1, 10**15]),
    st.floats(-4, 4).map(lambda x: round(x, 2)),
    st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 3.0, 1e300, 5e-324]),
    st.sampled_from(
        ["3", "03", " 3", "2.50", "1e3", "true", "10:30", "05.01.2026", "2026-01-05", "", "NaN", "ß", "日\u0301"]
    ),
    st.sampled_from(
        [datetime(2026, 1, 5, 10, 30), datetime(1969, 7, 20, 20, 17, 40, 5, tzinfo=timezone(timedelta(hours=-4)))]
    ),
)
COLUMN = st.lists(STRANGE, min_size=4, max_size=4)
FORMS = ("list", "array", "frame")

FEATURIZERS = (
    "SELECT x, y FROM app.t",
    "SELECT x / 2 AS x, y * 1.0 AS y FROM app.t",
    "SELECT x = '3' AS x, y > 2 AS y FROM app.t",
    "SELECT typeof(x) AS x, x || '!' AS y FROM app.t",
    "SELECT coalesce(x, '7') AS x, x IN (1, '2', '3') AS y FROM app.t",
    "SELECT max(x, y) AS x, CASE WHEN x = y THEN 1 ELSE 'no' END AS y FROM app.t WHERE x IS NOT NULL",
    "SELECT sum(x) AS x, count(DISTINCT y) AS y FROM app.t",
    "SELECT unixepoch(x) AS x, abs(y) AS y FROM app.t",
    "SELECT a.x, b.y FROM app.t AS a JOIN app.t AS b ON a.x = b.y OR a.x = '3'",
)
RANGE = {"type": "range", "low": -3.0, "high": 3.0}
SET = {"type": "set", "values": [1, 0.5, "3", "true", "", "ß", "2026-01-05 10:30:00"]}
DOCUMENTS: tuple[dict[str, Any], ...] = (
    {"type": "basic", "aggregator": "correlation", "missing": "count"},
    {"type": "bounded", "bounds": {"x": RANGE, "y": SET}},
    {"type": "bounded", "bounds": {"x": {**SET, "default": 1}, "y": {**RANGE, "default": 0.0}}},
)
HISTOGRAM = {
    "type": "basic",
    "aggregator": "histogram",
    "missing": "count",
    "epsilon": 8.0,
    "delta": 0.1,
    "default_is_meant": True,
}
TYPES = {bool: "boolean", int: "integer", float: "float", str: "string", datetime: "timestamp", type(None): "string"}


def sent(cell: object) -> object:
    """Return what a collector sends of it: JSON has no NaN, and a time is text."""
    if isinstance(cell, float) and not math.isfinite(cell):
        return None
    return cell.isoformat() if isinstance(cell, datetime) else cell


def stores(sql: str, columns: dict[str, list[object]]) -> Rows:
    """Return what everybody's own store gives, put together: each person is a collector of their own in it."""
    people = len(next(iter(columns.values())))
    with tempfile.TemporaryDirectory() as home, Store.open(home) as store:
        for person in range(people):
            mine = {name: cells[person] for name, cells in columns.items()}
            told = {name: {"type": TYPES[type(cell)], "description": ""} for name, cell in mine.items()}
            store.register(f"app{person}", {"tables": {"t": {"description": "", "columns": told}}})
            store.insert(f"app{person}", "t", [{name: sent(cell) for name, cell in mine.items()}])
        with store.view() as view:
            each = [view.featurize(sql.replace("app.t", f"app{person}.t")) for person in range(people)]
    joined = {name: np.concatenate([rows.columns[name] for rows in each]) for name in read(sql).outputs}
    person = np.concatenate([np.full(len(rows.person), place) for place, rows in enumerate(each)])
    return Rows(joined, person.astype(np.int64), people, np.concatenate([rows.failures for rows in each]))


def given_as(form: str, columns: dict[str, list[object]]) -> Any:
    if form == "list":
        return columns
    arrays = {name: np.fromiter(cells, dtype=object, count=len(cells)) for name, cells in columns.items()}
    return arrays if form == "array" else pd.DataFrame(arrays, dtype=object)


def plain(rows: Rows) -> Iterator[tuple[int, list[str]]]:
    for place, person in enumerate(rows.person.tolist()):
        cells = [np.asarray(column, dtype=object)[place] for column in rows.columns.values()]
        yield person, [repr(None if cell != cell else cell) for cell in cells]


def contributions(document: Any, rows: Rows) -> tuple[list[bool], dict[str, list[str]]]:
    """Return who is able, and what everybody who is sends, with the same chance."""
    owner = registry.owner(document, simulated=True)
    able = owner.able(document, rows)
    willing = np.flatnonzero(able)
    setting = Setting(unit=Unit.PERSON, randomness=seeded_for_simulation(1), simulated=True)
    ask = registry.aggregator(document, setting).ask("simulation")
    claim = SimulatedBudgets(rows.people, registry.kind(document.type).price(document)).of(willing)
    given_ = owner.contribute(document, ask, rows.select(willing), claim, randomness=seeded_for_simulation(2))
    return able.tolist(), {name: [repr(v) for v in field.tolist()] for name, field in given_.fields.items()}


@pytest.mark.few(1)
@pytest.mark.parametrize("sql", FEATURIZERS)
@examples(8)
@given(x=COLUMN, y=COLUMN, form=st.sampled_from(FORMS))
def test_simulated_people_give_and_send_what_their_stores_would(sql: str, x: list, y: list, form: str) -> None:
    columns = {"x": x, "y": y}
    real, simulated = stores(sql, columns), featurize(sql, people_of(given_as(form, columns)))
    assert list(plain(simulated)) == list(plain(real))
    assert simulated.failures.tolist() == real.failures.tolist()
    for fields in DOCUMENTS:
        document = registry.check({"epsilon": 4.0, "featurizer": sql, **fields})
        assert contributions(document, simulated) == contributions(document, real)


@examples(8)
@given(x=COLUMN, form=st.sampled_from(FORMS), half=st.booleans())
def test_a_whole_simulation_releases_what_real_stores_would_have_given(x: list, form: str, half: bool) -> None:
    sql = f"SELECT {'x / 2' if half else 'x'} AS x FROM app.t"
    document = registry.check({**HISTOGRAM, "featurizer": sql})
    real = stores(sql, {"x": x})
    owner = registry.owner(document, simulated=True)
    aggregator = registry.aggregator(
        document, Setting(unit=Unit.PERSON, randomness=seeded_for_simulation(3), simulated=True)
    )
    aggregator.expect(real.people)
    ask = aggregator.ask("simulation")
    for person in range(real.people):  # one after another, as over a network
        claim = SimulatedBudgets(1, registry.kind("basic").price(document)).of(np.zeros(1, dtype=np.int64))
        mine = real.select(np.array([person]))
        aggregator.accept(owner.contribute(document, ask, mine, claim, randomness=seeded_for_simulation(0)))
    aggregator.advance(datetime(1970, 1, 1, tzinfo=UTC))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        simulated = thebes.simulate(document, given_as(form, {"x": x}), seed=3)
    told = simulated.as_json()
    assert told.pop("rows_fit")["x"]["usable"] == float(np.mean([c is not None for c in real.columns["x"]]))
    assert told == aggregator.release().as_json()


#: how people's files write numbers, and that there is none
WRITTEN = st.one_of(
    st.just(""),
    st.integers(-(2**63), 2**63 - 1).map(str),
    st.integers(-5, 5).map(lambda x: f" {x} "),
    st.floats(-4, 4).map(lambda x: f"{x:.2f}"),
    st.sampled_from(["1e3", "-2.50", ".5", "3.0", "NaN", "0", "-0", "-0.0", "5E-3"]),
)


def imported(cells: list[str], sql: str) -> Rows:
    """Return what a store gives whose person has put a file of these cells into it, as the collector of tables does."""
    reading = ColumnReading()
    for cell in cells:
        reading.see(cell)
    types = Types.of({"x": reading}, {})
    with tempfile.TemporaryDirectory() as home, Store.open(home) as store:
        told = {"x": {"type": types.kinds["x"], "description": ""}}
        store.register("app", {"tables": {"t": {"description": "", "columns": told}}})
        store.insert("app", "t", [{"x": types.value("x", cell)} for cell in cells])
        with store.view() as view:
            return view.featurize(sql)


@pytest.mark.slow
@pytest.mark.parametrize("numbers", [(), ("x",)])
@examples(8)
@given(files=st.lists(st.lists(WRITTEN, min_size=1, max_size=3), min_size=2, max_size=3))
def test_a_file_of_all_people_gives_what_the_file_of_each_would(files: list, numbers: tuple[str, ...]) -> None:
    sql = "SELECT x, x / 2 AS half, typeof(x) AS kind FROM app.t"
    people = {person: cells for person, cells in enumerate(files) if any(cell.strip() for cell in cells)}
    hypothesis.assume(people)
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = Path(place) / "people.csv"
        lines = [f"{person},{cell}" for person, cells in people.items() for cell in cells]
        file.write_text("\n".join(["person_id,x", *lines, ""]))
        simulated = featurize(sql, load(file, numbers=numbers))
    real = [imported(cells, sql) for cells in people.values()]
    for name in ("x", "half", "kind"):
        expected = np.concatenate([rows.columns[name].astype(object) for rows in real])
        given_ = np.asarray(simulated.columns[name], dtype=object)
        assert [repr(None if c != c else c) for c in given_] == [repr(None if c != c else c) for c in expected]


@pytest.mark.parametrize("cell", [2**63, -(2**63) - 1, "\ud800", b"bytes", [1], {"a": 1}, 1j])
@pytest.mark.parametrize("sql", ["SELECT x FROM app.t", "SELECT x || '!' AS x FROM app.t"])
@pytest.mark.parametrize("form", FORMS)
def test_what_no_store_takes_is_refused_only_where_it_is_read(cell: object, sql: str, form: str) -> None:
    columns = {"x": [1, cell, None], "y": [1, 2, 3]}
    with pytest.raises(Mistake, match="'x' that no person's store takes"):
        featurize(sql, people_of(given_as(form, columns)))
    assert featurize(sql.replace("x", "y"), people_of(given_as(form, columns))).people == 3


@pytest.mark.parametrize(
    "columns",
    [
        {"x": [3, 3, None]},
        {"x": np.array([3, 3, None])},
        {"x": np.ma.masked_values([3, 3, -1], -1)},
        {"x": [np.int64(3), np.uint8(3), float("nan")]},
        pd.DataFrame({"x": pd.array([3, 3, None], dtype="Int64")}),
        pd.DataFrame({"x": [3, 3, None]}, dtype=object),
    ],
)
def test_one_missing_cell_makes_nobody_elses_whole_number_a_float(columns: Any) -> None:
    assert featurize("SELECT x / 2 AS h FROM p.t", people_of(columns)).columns["h"].tolist() == [1, 1, None]


def test_whole_numbers_that_pandas_made_floats_are_whole_again_and_it_is_said() -> None:
    frame = pd.DataFrame({"x": [3, 3, None], "y": [0.5, 3, None]})
    with pytest.warns(UserWarning, match="pandas had made floats of the whole numbers in column 'x'"):
        rows = featurize("SELECT x / 2 AS h FROM p.t", people_of(frame))
    assert rows.columns["h"].tolist() == [1, 1, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert featurize("SELECT y / 2 AS h FROM p.t", people_of(frame)).columns["h"].tolist() == [0.25, 1.5, None]
