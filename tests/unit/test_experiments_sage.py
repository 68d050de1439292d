"""Rides and advertisements: samples, the full public files by path, and what stands in for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from papers.registry import experiment
from papers.sage import clicks, rides, training
from papers.sage.frames import data_of
from thebes.data.schema import schema_of
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import seeded_for_simulation


@pytest.fixture(autouse=True)
def _no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEBES_DATA", str(tmp_path / "nothing"))
    monkeypatch.delenv("THEBES_TAXI", raising=False)
    monkeypatch.delenv("THEBES_CRITEO", raising=False)
    for made in (training.taxi, training.criteo):
        made.cache_clear()


def test_made_up_rows_stand_in_say_so_and_fit_their_schemas() -> None:
    ridden, shown = rides.rides(), clicks.clicks()
    assert ridden.made_up and shown.made_up  # noqa: PT018
    assert "made-up" in str(ridden)
    assert "made-up" in str(shown)
    for schema, table in ((rides.SCHEMA, ridden.table), (clicks.SCHEMA, shown.table)):
        read = schema_of(schema)
        assert list(read.columns) == list(table)
        for name, column in read.columns.items():
            if column.values is not None:
                assert set(table[name].unique()) <= set(column.values)
            elif column.ranged:
                low, high = column.grid(1).low, column.grid(1).high
                assert table[name].between(low, high).all()


def test_the_city_s_own_files_are_read_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = pd.to_datetime(["2015-03-02 08:00:00", "2015-03-02 07:00:00", "2015-03-03 09:00:00", "2015-03-03 10:00:00"])
    frame = pd.DataFrame(
        {
            "VendorID": [1, 2, 2, 1],
            "tpep_pickup_datetime": began,
            "tpep_dropoff_datetime": began + pd.to_timedelta([1800, 7200, -5, 4 * 3600], unit="s"),
            "passenger_count": [1, 3, 1, 1],
            "trip_distance": [3.0, 18.5, 1.0, 20.0],
            "RatecodeID": [1, 2, 1, 1],
            "store_and_fwd_flag": ["N", "Y", "N", "N"],
            "PULocationID": [132, 10, 1, 1],
            "DOLocationID": [10, 138, 1, 1],
            "payment_type": [1, 2, 1, 1],
        }
    )
    frame.to_csv(tmp_path / "yellow_tripdata_2015-03.csv", index=False)
    monkeypatch.setenv("THEBES_TAXI", str(tmp_path))
    found = rides.rides()
    assert not found.made_up
    assert found.table["duration"].tolist() == [1.0, 0.25]  # in order of time; of no or four hours: left out
    assert found.table["from_jfk"].tolist() == [0, 1]
    assert found.table["to_lga"].tolist() == found.table["cash"].tolist() == found.table["stored"].tolist() == [1, 0]
    assert found.table["hour"].tolist() == [7, 8]
    frame.drop(columns="trip_distance").to_csv(tmp_path / "yellow_tripdata_2015-03.csv", index=False)
    with pytest.raises(Mistake, match="without trip_distance"):
        rides.rides()
    with pytest.raises(Mistake, match="names no Parquet or CSV"):
        rides.rides(tmp_path / "absent.parquet")


def test_criteo_s_own_file_is_read_by_path(tmp_path: Path) -> None:
    first = ["1", *["3"] * 13, *["68fd1e64"] * 26]
    second = ["0", "", "-1", *["0"] * 11, "", *["68fd1e64"] * 24, "05db9164"]
    (tmp_path / "train.txt").write_text("\t".join(first) + "\n" + "\t".join(second) + "\n")
    table = clicks.clicks(tmp_path / "train.txt").table
    assert table["click"].tolist() == [1, 0]
    assert table[["I1", "I2", "I3"]].to_numpy().tolist() == [[8, 8, 8], [0, 1, 2]]
    assert table["C1"].tolist()[1] == 0 < table["C1"].tolist()[0]
    assert table["C2"].tolist()[0] == table["C2"].tolist()[1] == table["C1"].tolist()[0]
    assert table["C26"].tolist()[1] != table["C26"].tolist()[0]
    (tmp_path / "train.txt").write_text("nothing\tof\tthe\tkind\n")
    with pytest.raises(Mistake, match="holds something else"):
        clicks.clicks(tmp_path / "train.txt")


def test_rows_come_as_a_stream_would_give_them() -> None:
    held = rides.rides().table.head(500)
    data = data_of(rides.SCHEMA, held, seeded_for_simulation(1))
    rows = np.concatenate(list(data.arrays(("hour", "distance", "duration"), rows=64)))
    assert np.array_equal(rows, held[["hour", "distance", "duration"]].to_numpy(dtype=np.float64))
    train, test = (data.part(which, 0.9) for which in ("train", "test"))
    assert (len(train.columns(("hour",))), len(test.columns(("hour",)))) == (450, 50)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sage-table-1", "sage-7"])
def test_experiments_run_on_made_up_rows_and_say_so(name: str) -> None:
    outcome = experiment(name).run(quick=True)
    assert outcome.made_up
    linear = [row for row in outcome.rows if row.panel == "mean squared error" and row.epsilon == 1.0]
    assert linear
    assert all(row.ours < 0.05 for row in linear)
