"""Simulations over institutions know which values did not fit, column by column, and say so for every kind."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thebes
from thebes.cli.demo.scenes import site_scenes
from thebes.data.engines.source import frame_table
from thebes.data.filter import read_filter
from thebes.data.schema import schema_of
from thebes.data.table import Misfits
from thebes.privacy.faults import Mistake
from thebes.simulation import visits
from thebes.simulation.patients import DATASET, SCHEMA, hospital
from thebes.tasks.scene import MadeUpHospitals

SCHEMA_OF_AGES = {
    "unit": "event",
    "columns": {
        "age": {"type": "integer", "low": 0, "high": 100},
        "weight": {"type": "float", "low": 20, "high": 200},
        "sex": {"type": "string", "values": ["female", "male"]},
        "ill": {"type": "boolean", "values": [True, False]},
        "free": {"type": "float"},
    },
}
N = 200
ROWS: dict[str, Any] = {
    "age": [40] * 150 + [120] * 20 + [-1] * 10 + [None] * 20,
    "weight": [70.5] * 180 + [None] * 10 + [float("inf")] * 10,
    "sex": ["female"] * 120 + ["M"] * 60 + [None] * 20,
    "ill": [True] * 100 + [None] * 100,
    "free": [1.0] * 199 + [None],
}
EXPECTED = {
    "age": Misfits(N, 20, 0, 20, 10),
    "weight": Misfits(N, 10, 0, 10, 0),
    "sex": Misfits(N, 20, 60),
    "ill": Misfits(N, 100, 0),
    "free": Misfits(N, 1),
}
FRAME = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in ROWS.items()})
MEAN = {"type": "query", "dataset": "patients", "statistic": "mean", "column": "age", "epsilon": 1.0}


def said(document: dict[str, Any], rows: Any, schema: Any = SCHEMA_OF_AGES) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release = thebes.simulate(document, rows, schema=schema, seed=1)
    return release, [str(warning.message) for warning in caught]


def test_a_table_counts_what_does_not_fit_before_anybodys_rows_are_left_out() -> None:
    table = frame_table(schema_of(SCHEMA_OF_AGES), FRAME)
    assert table.misfits([*ROWS]) == EXPECTED
    young = read_filter("age < 100", table.schema)
    assert table.misfits(["age", "sex"], young) == {"age": Misfits(160, 0, 0, 0, 10), "sex": Misfits(160, 0, 40)}
    assert table.misfits([]) == {}
    assert frame_table(schema_of(SCHEMA_OF_AGES), FRAME[:0]).misfits(["age"]) == {"age": Misfits(0, 0)}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_every_reader_counts_alike(tmp_path: Path, suffix: str) -> None:
    from thebes.data.engines.source import table_of

    file = tmp_path / f"rows.{suffix}"
    typed = FRAME.astype({"age": "Int64", "weight": "float64", "sex": "str", "ill": "boolean", "free": "float64"})
    typed.to_csv(file, index=False) if suffix == "csv" else typed.to_parquet(file)
    table = table_of(schema_of(SCHEMA_OF_AGES), {"kind": suffix, "path": file.name}, folder=tmp_path)
    assert table.misfits([*ROWS]) == EXPECTED
    assert table.misfits([*ROWS], read_filter("age IS NULL", table.schema))["age"] == Misfits(20, 20)
    table.close()


@pytest.mark.slow
def test_more_columns_than_one_pass_takes_are_counted_all() -> None:
    columns = {f"c{i}": {"type": "integer", "low": 0, "high": 9} for i in range(600)}
    table = frame_table(schema_of({"unit": "event", "columns": columns}), pd.DataFrame({n: [1, 20] for n in columns}))
    assert table.misfits([*columns]) == {name: Misfits(2, 0, 0, 1, 0) for name in columns}


def test_a_query_says_of_each_site_which_values_did_not_fit() -> None:
    good = FRAME.assign(age=[40] * N, sex=["male"] * N)
    release, lines = said({**MEAN, "by": ["sex"]}, {"north": FRAME, "south": good})
    assert lines == [
        "north: age: 10 % without a value of its type, 10 % above 100, cut to it, 5 % below 0, cut to it",
        "north: sex: 30 % not among the declared values, 10 % without a value of its type",
    ]
    assert release.extra["rows_fit"]["north: sex"]["usable"] == pytest.approx(0.6)
    assert release.extra["rows_fit"]["south: age"] == {"usable": 1.0, "shares": {}}
    assert "rows simulated, north: age: 10.00% without a value of its type, 10.00% above 100" in str(release)


def test_what_a_condition_leaves_out_is_not_counted() -> None:
    release, lines = said({**MEAN, "where": "age > 10 AND age < 90"}, {"north": FRAME})
    assert (lines, release.extra["rows_fit"]) == ([], {"north: age": {"usable": 1.0, "shares": {}}})


@pytest.mark.parametrize(
    ("ages", "cause"), [([None] * N, "100 % without a value of its type"), (["forty"] * N, "100 % without a value")]
)
def test_nobodys_data_are_refused(ages: list, cause: str) -> None:
    rows = FRAME.assign(age=pd.Series(ages, dtype=object))
    with pytest.raises(Mistake, match=f"no usable value in column 'age' at any site .{cause}"):
        thebes.simulate(MEAN, {"north": rows, "south": rows}, schema=SCHEMA_OF_AGES, seed=1)
    _, lines = said(MEAN, {"north": rows, "south": FRAME.assign(age=40)})  # somebody has some
    assert lines == ["north: age: 100 % without a value of its type"]


def test_a_site_without_rows_is_no_nobody() -> None:
    assert said(MEAN, {"north": FRAME[:0], "south": FRAME[:0]})[1] == []


PATIENTS = pd.DataFrame(hospital(0, 7))
SCENES = {
    scene.document.get("update", scene.document["type"]): scene.document
    for scene in site_scenes(MadeUpHospitals(DATASET, visits.DATASET, ("north",), None, visits.visits(7), {}, {}))
}


@pytest.mark.parametrize("kind", ["train", "newton"])
def test_models_of_sites_say_it_too(kind: str) -> None:
    document = {**SCENES[kind], "sites": ["north"]}
    glucose = PATIENTS["glucose"].where(np.arange(len(PATIENTS)) % 4 > 0, 1e6)
    _, lines = said(document, {"north": PATIENTS.assign(glucose=glucose)}, SCHEMA)
    assert lines[0].startswith("north: glucose: 25 % above ")
    with pytest.raises(Mistake, match="no usable value in column 'diabetes' at any site"):
        thebes.simulate(document, {"north": PATIENTS.assign(diabetes=None)}, schema=SCHEMA, seed=1)


def test_pipelines_say_it_too() -> None:
    frame = visits.frame(visits.visits(7))
    late = frame.assign(minutes=frame["minutes"].where(np.arange(len(frame)) % 5 > 0, 1e6))
    _, lines = said(SCENES["pipeline"], {"north": late}, visits.SCHEMA)
    assert lines[0].startswith("north: minutes: 20 % above ")
    with pytest.raises(Mistake, match="no usable value in column 'minutes' at any site"):
        thebes.simulate(SCENES["pipeline"], {"north": frame.assign(minutes=None)}, schema=visits.SCHEMA, seed=1)


def test_a_site_that_cannot_answer_is_named_for_that_and_not_for_its_values() -> None:
    schemas = {"north": SCHEMA_OF_AGES, "south": {"unit": "event", "columns": {"weight": {"type": "float"}}}}
    release, lines = said(MEAN, {"north": FRAME.assign(age=40), "south": FRAME[["weight"]]}, schemas)
    assert (lines, list(release.extra["coverage"]["missing"])) == ([], ["south"])
