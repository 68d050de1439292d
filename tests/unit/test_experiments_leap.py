"""Experiments of LEAP: what stands for the paper's data, and that only the published bytes are read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from papers import datasets
from papers.leap import PAPER, figure_5_2, figure_5_4, moles, pictures
from papers.registry import experiments
from thebes.data.schema import schema_of
from thebes.learning.graph import read_loss, read_model
from thebes.privacy.faults import Mistake
from thebes.tasks import registry


def test_every_figure_of_the_paper_s_evaluation_is_there() -> None:
    found = {name for name, one in experiments().items() if one.paper == PAPER}
    assert found == {f"leap-5-{number}" for number in range(1, 5)}


def test_a_file_with_other_bytes_than_the_published_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THEBES_DATA", str(tmp_path))
    name = "ham10000/HAM10000_metadata.csv.gz"
    assert datasets.opened(name) is None
    (tmp_path / "ham10000").mkdir()
    (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(Mistake, match="SHA-256"):
        moles.moles()


def test_without_the_data_made_up_rows_and_pictures_stand_in_and_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THEBES_DATA", str(tmp_path))
    lesions = moles.moles()
    assert lesions.made_up
    assert "made-up" in str(lesions)
    assert list(lesions.table) == list(moles.SCHEMA["columns"])
    drawn = pictures.pictures()
    assert drawn.made_up
    assert "made-up" in str(drawn)
    assert drawn.train[list(pictures.PIXELS)].to_numpy().min() >= 0


def test_rows_are_shared_out_to_sites_without_one_at_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEBES_DATA", str(tmp_path))
    lesions, drawn = moles.moles(), pictures.pictures()
    parts = lesions.shared_out(7)
    assert {len(part) for part in parts} <= {1430, 1431}
    assert pd.concat(parts, ignore_index=True).equals(lesions.table)
    sites = drawn.at_sites(15)
    assert [len(part) for part in sites.values()] == [pictures.EACH] * 15
    together = pd.concat(sites.values(), ignore_index=True)
    assert together.equals(drawn.train.iloc[: 15 * pictures.EACH].reset_index(drop=True))


def test_the_real_tables_fit_their_schemas() -> None:
    lesions = moles.moles()
    if lesions.made_up:
        pytest.skip("THEBES_DATA holds no HAM10000")
    for name, column in schema_of(moles.SCHEMA).columns.items():
        values = lesions.table[name].dropna()
        if column.values is not None:
            assert {*values} - {*column.values} <= {"unknown"}
        else:
            assert values.between(column.low, column.high).all()
    assert len(lesions.table) == 10_015
    assert (lesions.table["sex"] == "unknown").sum() == 57


def test_the_network_is_a_safe_graph_with_group_normalisation_and_the_same_every_time() -> None:
    model, loss = pictures.network()
    read = read_model(model)
    assert read.graph.parameter_count == pictures.WEIGHTS
    assert sum(node.operation == "aten.group_norm.default" for node in read.graph.nodes) == 5
    assert read_loss(loss, read).targets.shape[1] == len(pictures.KINDS)
    assert (model, loss) == pictures.network()
    assert np.isfinite(read.initial).all()


def test_the_documents_are_ones_that_sites_could_be_asked() -> None:
    asked = registry.check({**figure_5_2.document(100), "dataset": "records"})
    registry.kind("train").fits(asked, schema_of(moles.SCHEMA))  # type: ignore[attr-defined]
    assert figure_5_4.ROUNDS > figure_5_4.QUICK_ROUNDS
