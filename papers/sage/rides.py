"""Taxi rides of New York: how long will one take? A sample of 360,000 rides, or the city's own files of any month.

Everything the model may know is known when the ride begins, but for the way and how it was paid, which the paper's
task has too. Bounds and bins are public knowledge of the city, never read off the rides.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from papers.sage.samples import Published, Sample
from thebes.learning.features import Bins, Categories, FeaturePiece, Features, Range
from thebes.privacy.faults import Mistake

SAMPLE = "nyc_taxi/yellow_tripdata_sample_2018-2020.parquet"
#: miles: between which the fifteen bins of the way lie
EDGES = (0.0, 0.5, 0.8, 1.1, 1.4, 1.7, 2.1, 2.6, 3.2, 4.0, 5.2, 7.0, 9.5, 12.5, 17.0, 100.0)
FLAGS = ("vendor2", "several", "jfk", "other_rate", "stored", "cash", "from_jfk", "from_lga", "to_jfk", "to_lga")
LONGEST = 7200.0  #: seconds, in which a duration is measured; what takes longer counts as this
_HOURS, _DAYS, _WEEKS = tuple(range(24)), tuple(range(7)), tuple(range(5))
_JFK, _LAGUARDIA = 132, 138
_NAMES = {
    "vendorid": "vendor_id",
    "ratecodeid": "rate_code_id",
    "pulocationid": "pickup_location_id",
    "dolocationid": "dropoff_location_id",
    "tpep_pickup_datetime": "pickup_datetime",
    "tpep_dropoff_datetime": "dropoff_datetime",
}
_NEEDED = (
    "vendor_id", "pickup_datetime", "dropoff_datetime", "passenger_count", "trip_distance", "rate_code_id",
    "store_and_fwd_flag", "pickup_location_id", "dropoff_location_id", "payment_type",
)  # fmt: skip

SCHEMA: dict[str, Any] = {
    "unit": "event",
    "time": "pickup",
    "columns": {
        "pickup": {"type": "timestamp"},
        "duration": {"type": "float", "low": 0.0, "high": 1.0, "description": "of two hours; what takes longer is 1"},
        "speed": {"type": "float", "low": 0.0, "high": 100.0, "description": "kilometres an hour"},
        "distance": {"type": "float", "low": 0.0, "high": 100.0, "description": "miles"},
        "near": {"type": "float", "low": 0.0, "high": 20.0, "description": "miles, up to twenty"},
        "hour": {"type": "integer", "values": list(_HOURS)},
        "weekday": {"type": "integer", "values": list(_DAYS)},
        "week": {"type": "integer", "values": list(_WEEKS), "description": "of the month"},
        **{flag: {"type": "integer", "values": [0, 1]} for flag in FLAGS},
    },
}


def features(*, ways: bool = False) -> Features:
    """The 61 columns of 0 and 1 that a duration is predicted from; `ways`: and the way itself, as two numbers."""
    pieces: list[FeaturePiece] = [
        Bins("distance", EDGES),
        Categories("hour", _HOURS),
        Categories("weekday", _DAYS),
        Categories("week", _WEEKS),
        *(Categories(flag, (0, 1)) for flag in FLAGS),
    ]
    if ways:
        pieces += [Range("near", 0.0, 20.0), Range("distance", 0.0, 100.0)]
    return Features(pieces)


def rides(path: Path | None = None) -> Sample:
    """Read what lies at `path` or THEBES_TAXI (a file of the city, Parquet or CSV, or a folder of them), else the
    sample of 2018 to 2020, else made-up ones; one row for each ride, ordered by when it began."""
    return Published(
        what="rides",
        variable="THEBES_TAXI",
        called="New York's yellow taxis",
        sample=SAMPLE,
        whole=lambda named: _tidied(_whole(named)),
        prepared=_tidied,
        invented=lambda: _invented(60_000),
    ).held(path)


def _whole(path: Path) -> pd.DataFrame:
    files = sorted(each for each in path.iterdir() if each.suffix in (".parquet", ".csv")) if path.is_dir() else [path]
    if not files or not all(file.is_file() for file in files):
        raise Mistake("THEBES_TAXI", "names no Parquet or CSV files of taxi rides")
    return pd.concat([_named(_read(file)) for file in files], ignore_index=True)


def _read(file: Path) -> pd.DataFrame:
    return pd.read_parquet(file) if file.suffix == ".parquet" else pd.read_csv(file, low_memory=False)


def _named(raw: pd.DataFrame) -> pd.DataFrame:
    """The columns that are needed, by one set of names; where a file has no zones nobody goes to an airport."""
    found = raw.rename(columns={name: _NAMES.get(name.strip().lower(), name.strip().lower()) for name in raw.columns})
    for zone in ("pickup_location_id", "dropoff_location_id"):
        if zone not in found:
            found[zone] = 0
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        raise Mistake("THEBES_TAXI", f"holds rides without {missing[0]}")
    kept = found[list(_NEEDED)].copy()
    for name in ("pickup_datetime", "dropoff_datetime"):
        kept[name] = pd.to_datetime(kept[name])
    return kept


def _tidied(raw: pd.DataFrame) -> pd.DataFrame:
    """Rides that took between 0 and 3 hours and went between 0 and 100 miles: a rule about one ride at a time."""
    seconds = (raw["dropoff_datetime"] - raw["pickup_datetime"]).dt.total_seconds()
    kept = (seconds > 0) & (seconds < 3 * 3600) & (raw["trip_distance"] >= 0) & (raw["trip_distance"] < 100)
    raw, took = raw[kept], seconds[kept].to_numpy(dtype=np.float64)
    began, way = raw["pickup_datetime"], raw["trip_distance"].to_numpy(dtype=np.float64)
    rate, pickup, dropoff = (
        raw[name].fillna(0).to_numpy(dtype=np.int64)
        for name in ("rate_code_id", "pickup_location_id", "dropoff_location_id")
    )
    flags = {
        "vendor2": raw["vendor_id"].fillna(0).to_numpy(dtype=np.int64) == 2,
        "several": raw["passenger_count"].fillna(1).to_numpy(dtype=np.float64) > 1,
        "jfk": rate == 2,
        "other_rate": np.isin(rate, (3, 4, 5, 6)),
        "stored": raw["store_and_fwd_flag"].to_numpy(dtype=object) == "Y",
        "cash": raw["payment_type"].fillna(0).to_numpy(dtype=np.float64) == 2,
        "from_jfk": pickup == _JFK,
        "from_lga": pickup == _LAGUARDIA,
        "to_jfk": dropoff == _JFK,
        "to_lga": dropoff == _LAGUARDIA,
    }
    table = pd.DataFrame(
        {
            "pickup": began.to_numpy(dtype="datetime64[ms]"),
            "duration": np.minimum(took, LONGEST) / LONGEST,
            "speed": np.clip(way * 1.609344 / took * 3600, 0, 100),
            "distance": way,
            "near": np.minimum(way, 20.0),
            "hour": began.dt.hour.to_numpy(dtype=np.int8),
            "weekday": began.dt.day_of_week.to_numpy(dtype=np.int8),
            "week": ((began.dt.day - 1) // 7).to_numpy(dtype=np.int8),
            **{name: flag.astype(np.int8) for name, flag in flags.items()},
        }
    )
    return table.sort_values("pickup", kind="stable").reset_index(drop=True)


def _invented(count: int) -> pd.DataFrame:
    """Rides of nobody: longer ways and busier hours take longer. They say nothing about New York."""
    draw: Any = np.random.default_rng(0)  # made-up rows, not noise
    way = np.minimum(draw.gamma(1.5, 2.0, count), 60.0)
    began = np.datetime64("2018-01-01T00:00:00", "ms") + np.sort(draw.integers(0, 365 * 86_400, count)) * 1000
    when = pd.Series(began)
    hour: NDArray[np.int64] = when.dt.hour.to_numpy(dtype=np.int64)
    seconds = 240 + way * (150 + 60 * ((hour > 7) & (hour < 20))) + draw.gamma(2.0, 90.0, count)
    zones = draw.choice([_JFK, _LAGUARDIA, 1], size=(count, 2), p=[0.03, 0.03, 0.94])
    raw = {
        "vendor_id": draw.integers(1, 3, count),
        "pickup_datetime": began,
        "dropoff_datetime": began + (seconds * 1000).astype(np.int64),
        "passenger_count": draw.integers(1, 5, count),
        "trip_distance": way,
        "rate_code_id": np.where(draw.random(count) < 0.03, 2, 1),
        "store_and_fwd_flag": np.where(draw.random(count) < 0.01, "Y", "N"),
        "pickup_location_id": zones[:, 0],
        "dropoff_location_id": zones[:, 1],
        "payment_type": draw.integers(1, 3, count),
    }
    return _tidied(pd.DataFrame(raw))
