"""Rows are taken in five forms, by people's tasks, sites' and one's own tables alike; anything else hears which."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as arrow
import pytest

import thebes
from thebes.data.given_rows import FORMS
from thebes.privacy.faults import Mistake

AGES: dict[str, list[Any]] = {"p": [str(i) for i in range(60)], "age": [20 + i for i in range(59)] + [None]}
SCHEMA = {
    "unit": "person",
    "max_rows_per_unit": 1,
    "columns": {"p": {"type": "string", "key": True}, "age": {"type": "float", "low": 0, "high": 120}},
}
MEAN = thebes.task.mean("SELECT age FROM profile.demographics", epsilon=1000, bounds={"age": (0, 120)})
QUERY = {"type": "query", "dataset": "x", "sites": "all", "statistic": "mean", "column": "age", "epsilon": 1000.0}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def of_people(rows: Any) -> float:
    return float(thebes.simulate(MEAN, rows, seed=1).value)


def of_sites(rows: Any) -> float:
    return float(thebes.simulate(QUERY, {"north": rows}, schema=SCHEMA, seed=1).value)


def of_ones_own(rows: Any) -> float:
    with thebes.open_data(rows, SCHEMA, epsilon=1000) as table:
        return float(table.query("mean", column="age", epsilon=1000).value)


DOORS = [of_people, of_sites, of_ones_own]


def written(folder: Path, form: str) -> Any:
    if form == "dict":
        return AGES
    if form == "polars":
        return pl.DataFrame(AGES)
    if form in ("arrow", "batch"):
        return arrow.table(AGES) if form == "arrow" else arrow.record_batch(AGES)
    frame = pd.DataFrame(AGES)
    if form == "pandas":
        return frame
    path = folder / f"ages.{form.removesuffix(' text')}"
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return str(path) if form.endswith(" text") else path


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("form", ["pandas", "polars", "arrow", "batch", "dict", "csv", "csv text", "tsv", "parquet"])
def test_every_form_is_taken_by_every_door(tmp_path: Path, door: Callable[[Any], float], form: str) -> None:
    assert door(written(tmp_path, form)) == pytest.approx(49, abs=0.5)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "rows", [[[1.0, 2.0]], [{"age": 1.0}], np.ones((3, 2)), None, 5, "ages.xlsx"], ids=lambda rows: type(rows).__name__
)
def test_anything_else_hears_of_the_five_forms_in_one_sentence(door: Callable[[Any], float], rows: Any) -> None:
    with pytest.raises(Mistake) as refused:
        door(rows)
    assert refused.value.argument == "rows"
    assert refused.value.message == FORMS
    assert FORMS.count(",") + 1 >= 5


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("rows", [{"p": ["1", "2"], "age": [1.0]}, {"p": "1", "age": 5.0}], ids=["uneven", "no lists"])
def test_columns_that_make_no_table_are_refused_in_words(door: Callable[[Any], float], rows: Any) -> None:
    with pytest.raises(Mistake) as refused:
        door(rows)
    assert refused.value.argument == "rows"


@pytest.mark.parametrize(
    ("schema", "words"),
    [("schema.toml", "schema: must be a dict"), ({"columns": {}}, "unit: is missing"), ([], "schema: must be a dict")],
)
def test_what_is_no_schema_is_refused_in_words(schema: Any, words: str) -> None:
    with pytest.raises(Mistake, match=words):
        thebes.open_data(AGES, schema, epsilon=1)


@pytest.mark.parametrize("door", DOORS)
def test_a_file_that_is_not_there_is_named(tmp_path: Path, door: Callable[[Any], float]) -> None:
    with pytest.raises(Mistake, match="there is no file"):
        door(tmp_path / "gone.csv")


def test_rows_kept_aside_have_the_same_door() -> None:
    with pytest.raises(Mistake, match="Arrow table") as refused:
        thebes.simulate(MEAN, AGES, aside=[[1.0]], seed=1)
    assert refused.value.argument == "aside"


def test_a_plan_of_polars_is_no_table_yet() -> None:
    with pytest.raises(Mistake, match="polars DataFrame"):
        of_people(pl.DataFrame(AGES).lazy())
