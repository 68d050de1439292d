"""The rows that a task at a site sees: the same in all its phases, those that there are then in the next one."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from deltalake import write_deltalake

from thebes.data.connectors.connector import SourceUnavailable
from thebes.data.schema import schema_of
from thebes.data.table import Sums, Table, Term
from thebes.site.dataset import BudgetDeclaration, DataSet
from thebes.site.home import SiteHome
from thebes.site.tables import Tables

SCHEMA = schema_of({"unit": "event", "columns": {"age": {"type": "integer", "low": 0, "high": 100}}})


def dataset(folder: Path) -> DataSet:
    with sqlite3.connect(folder / "rows.db") as file:
        file.execute("CREATE TABLE patient (age INTEGER)")
    source = {"kind": "sqlite", "path": str(folder / "rows.db"), "table": "patient"}
    return DataSet("patients", SCHEMA, source, BudgetDeclaration.of(1.0, 0.0, None))


def add(folder: Path, rows: int) -> None:
    with sqlite3.connect(folder / "rows.db") as file:
        file.executemany("INSERT INTO patient VALUES (?)", [(50,)] * rows)


def counted(table: Table) -> int:
    return int(table.sums(Sums((Term(),)))[0, 0])


def batched(table: Table) -> int:
    return sum(len(batch.numbers) for batch in table.batches(["age"]))


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(SiteHome(tmp_path / "site"))


def test_a_task_sees_the_same_rows_in_all_its_phases_and_the_next_one_sees_new_ones(
    tmp_path: Path, tables: Tables
) -> None:
    held = dataset(tmp_path)
    add(tmp_path, 3)
    assert batched(tables(held, "first")) == 3
    add(tmp_path, 4)
    assert batched(tables(held, "first")) == 3
    assert batched(tables(held, "second")) == 7
    assert counted(tables(held, "second")) == 7
    add(tmp_path, 1)
    assert counted(tables(held, "third")) == 8


def test_a_delta_table_is_one_version_in_all_phases_of_a_task_and_the_newest_in_the_next_one(
    tmp_path: Path, tables: Tables
) -> None:
    def write(*ages: float) -> None:
        write_deltalake(tmp_path / "t", pd.DataFrame({"age": ages}), mode="overwrite", schema_mode="overwrite")

    source = {"kind": "delta", "path": str(tmp_path / "t")}
    held = DataSet("patients", SCHEMA, source, BudgetDeclaration.of(1.0, 0.0, None))
    write(1, 2, 3)
    assert counted(tables(held, "first")) == 3
    write(4)
    assert (counted(tables(held, "first")), batched(tables(held, "first"))) == (3, 3)
    (tmp_path / "t").rename(tmp_path / "away")
    for _ in range(2):  # also when it asks again
        with pytest.raises(SourceUnavailable):
            tables(held, "second")
    (tmp_path / "away").rename(tmp_path / "t")
    assert counted(tables(held, "second")) == 1
    write(0.6, 2, 2.5)
    assert counted(tables(held, "third")) == 3
    assert [batch.numbers.tolist() for batch in tables(held, "third").batches(["age"])] == [[[2.0]]]


@pytest.mark.slow
def test_what_answers_are_computed_with_is_loaded_before_the_first_ask() -> None:
    """In a process of its own: here everything is loaded already. No answer of a site needs scikit-learn, which alone
    takes longer than all of it."""
    told = (
        "import sys; from thebes.site import algorithm_process; from thebes.tasks import registry\n"
        "owners = {f'thebes.tasks.{kind}.owner' for kind in registry.site_types()}\n"
        "wanted = owners | {'thebes.privacy.samplers', 'duckdb'}\n"
        "assert not wanted <= set(sys.modules); algorithm_process.warm(); assert 'sklearn' not in sys.modules\n"
        "print(sorted(wanted - set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
