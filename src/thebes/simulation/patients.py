"""Made-up patients of made-up hospitals, for demonstrations: who falls ill hangs together with age, weight and sugar,
and every hospital has patients of its own sort."""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Columns = Mapping[str, NDArray[Any]]

DATASET = "patients"
WARDS = ("cardiology", "medicine", "surgery")
NAMES = ("north", "south", "harbour", "hill", "river", "forest", "castle", "market", "meadow", "bridge")
LEAST, MOST = 900, 1500  #: patients of one hospital
#: as a steward declares it; nothing of it was read off the patients
SCHEMA: dict[str, Any] = {
    "unit": "person",
    "max_rows_per_unit": 1,
    "columns": {
        "patient": {"type": "string", "key": True},
        "age": {"type": "integer", "low": 18, "high": 98, "description": "in years"},
        "sex": {"type": "string", "values": ["female", "male"]},
        "ward": {"type": "string", "values": list(WARDS)},
        "bmi": {"type": "float", "low": 14, "high": 54, "description": "weight over the square of height"},
        "glucose": {"type": "float", "low": 50, "high": 250, "description": "mg/dl, fasting"},
        "diabetes": {"type": "integer", "values": [0, 1], "description": "1 with the diagnosis"},
    },
}


def hospital(number: int, seed: int) -> dict[str, NDArray[Any]]:
    """The patients of one hospital: the same for the same seed."""
    random = np.random.default_rng((seed, number))
    count = int(random.integers(LEAST, MOST))
    older = 8 * np.sin(number)  # than elsewhere
    age = np.clip(random.normal(56 + older, 16, count), 18, 98).astype(np.int64)
    sex = np.where(random.random(count) < 0.52, "female", "male")
    bmi = np.clip(random.normal(26.5, 4.5, count) + 0.02 * (age - 50), 14, 54).round(1)
    glucose = np.clip(random.normal(92, 14, count) + 0.9 * (bmi - 26), 50, 250)
    logit = -1.4 + 0.05 * (age - 55) + 0.12 * (bmi - 27) + 0.05 * (glucose - 95)
    ill = random.random(count) < 1 / (1 + np.exp(-logit))
    glucose = np.clip(glucose + 22 * ill * random.random(count), 50, 250).round(1)
    heart = 0.2 + 0.25 * (age > 60)
    chance = random.random(count)
    ward = np.where(chance < heart, WARDS[0], np.where(chance < heart + 0.35, WARDS[1], WARDS[2]))
    names = np.array([f"{NAMES[number % len(NAMES)]}-{place:05d}" for place in range(count)])
    columns = {"patient": names, "age": age, "sex": sex, "ward": ward, "bmi": bmi, "glucose": glucose}
    return {**columns, "diabetes": ill.astype(np.int64)}


def write_csv(columns: Columns, path: Path) -> None:
    """As a spreadsheet exports them."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(values.tolist() for values in columns.values()), strict=True))


def write_sqlite(columns: Columns, path: Path, table: str = DATASET) -> None:
    """As a table of a database."""
    names = ", ".join(columns)
    places = ", ".join("?" for _ in columns)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"CREATE TABLE {table} ({names})")
        rows = zip(*(values.tolist() for values in columns.values()), strict=True)
        database.executemany(f"INSERT INTO {table} VALUES ({places})", rows)  # noqa: S608
