"""A made-up hospital as three systems write it down: the tables of an OMOP CDM, a FHIR bulk export, and a CSV file."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

DIABETES, DIABETES_2, HYPERTENSION = 201820, 201826, 316866  # the second descends from the first
METFORMIN, PRESSURE, MERCURY, KILOPASCAL = 1503297, 3004249, 8876, 44777602
SNOMED, LOINC, UCUM = "http://snomed.info/sct", "http://loinc.org", "http://unitsofmeasure.org"
_CODES = {DIABETES_2: "44054006", HYPERTENSION: "38341003"}
_BEGIN = date(2024, 1, 1)


@dataclass
class Patient:
    """One patient; of each pressure the day, the number and the unit's concept."""

    id: int
    born: int
    sex: str | None
    conditions: list[int] = field(default_factory=list)
    metformin: bool = False
    pressures: list[tuple[date, float, int]] = field(default_factory=list)
    visits: list[tuple[date, date]] = field(default_factory=list)

    @property
    def pressure(self) -> float | None:
        """The newest that was measured well."""
        good = [(day, value) for day, value, unit in self.pressures if unit == MERCURY and 50 <= value <= 250]
        return max(good, key=lambda each: each[0])[1] if good else None


def patients(people: int = 1000, seed: int = 3) -> list[Patient]:
    draw = np.random.default_rng(seed)
    found = []
    for n in range(people):
        days = sorted(draw.choice(300, size=6, replace=False).tolist())
        pressures = [
            (
                _BEGIN + timedelta(days=day),
                float(draw.choice([np.round(draw.normal(130, 20), 1), 999.0], p=[0.9, 0.1])),
                int(draw.choice([MERCURY, KILOPASCAL], p=[0.8, 0.2])),
            )
            for day in days[: draw.integers(0, 4)]
        ]
        visits = [
            (_BEGIN + timedelta(days=day), _BEGIN + timedelta(days=day + int(draw.integers(0, 9))))
            for day in days[: draw.integers(0, 6)]
        ]
        conditions = [concept for concept in (DIABETES_2, HYPERTENSION) if draw.random() < 0.3]
        sex = [None, "male", "female"][int(draw.choice(3, p=[0.04, 0.48, 0.48]))]
        born = int(draw.integers(1925, 2015))
        found.append(Patient(n + 1, born, sex, conditions, bool(draw.random() < 0.2), pressures, visits))
    return found


def omop_rows(hospital: list[Patient]) -> dict[str, tuple[str, list[tuple[Any, ...]]]]:
    """Give each table's columns with their types, and its rows."""
    gender = {None: 0, "male": 8507, "female": 8532}
    numbered = [(p, *each) for p in hospital for each in p.pressures]
    return {
        "person": (
            "person_id INTEGER, gender_concept_id INTEGER, year_of_birth INTEGER, race_concept_id INTEGER",
            [(p.id, gender[p.sex], p.born, 0) for p in hospital],
        ),
        "condition_occurrence": (
            "condition_occurrence_id INTEGER, person_id INTEGER, condition_concept_id INTEGER, "
            "condition_start_date DATE",
            [(n, p.id, c, _BEGIN) for n, (p, c) in enumerate((p, c) for p in hospital for c in p.conditions)],
        ),
        "drug_exposure": (
            "person_id INTEGER, drug_concept_id INTEGER, drug_exposure_start_date DATE, days_supply INTEGER",
            [(p.id, METFORMIN, _BEGIN, 30) for p in hospital if p.metformin for _ in range(2)],
        ),
        "measurement": (
            "measurement_id INTEGER, person_id INTEGER, measurement_concept_id INTEGER, measurement_date DATE, "
            "value_as_number NUMERIC(18,4), unit_concept_id INTEGER",
            [(n, p.id, PRESSURE, day, value, unit) for n, (p, day, value, unit) in enumerate(numbered)],
        ),
        "visit_occurrence": (
            "visit_occurrence_id INTEGER, person_id INTEGER, visit_concept_id INTEGER, visit_start_date DATE, "
            "visit_end_date DATE",
            [(n, p.id, 9201, *v) for n, (p, v) in enumerate((p, v) for p in hospital for v in p.visits)],
        ),
        "concept_ancestor": (
            "ancestor_concept_id INTEGER, descendant_concept_id INTEGER",
            [(DIABETES, DIABETES), (DIABETES, DIABETES_2), (HYPERTENSION, HYPERTENSION), (METFORMIN, METFORMIN)],
        ),
    }


def write_omop(hospital: list[Patient], folder: Path) -> None:
    folder.mkdir(parents=True)
    with duckdb.connect() as opened:
        for table, (declared, rows) in omop_rows(hospital).items():
            opened.execute(f"CREATE TABLE {table} ({declared})")
            columns = len(opened.table(table).columns)
            for start in range(0, len(rows), 500):  # one after another takes a second for a thousand
                some = rows[start : start + 500]
                holes = ", ".join(f"({', '.join('?' * columns)})" for _ in some)
                opened.execute(f"INSERT INTO {table} VALUES {holes}", [value for row in some for value in row])
            opened.execute(f"COPY {table} TO '{folder / table}.parquet'")


def write_fhir(hospital: list[Patient], folder: Path) -> None:
    folder.mkdir(parents=True)
    units = {MERCURY: "mm[Hg]", KILOPASCAL: "kPa"}
    lines: dict[str, list[Any]] = {"Patient": [], "Condition": [], "Observation": [], "Encounter": []}
    for p in hospital:
        subject = {"reference": f"Patient/p-{p.id}"}
        lines["Patient"].append({"id": f"p-{p.id}", "birthDate": f"{p.born}-05-02", "gender": p.sex or "unknown"})
        for concept in p.conditions:
            code = {"coding": [{"system": SNOMED, "code": _CODES[concept]}]}
            lines["Condition"].append({"subject": subject, "code": code})
        for day, value, unit in p.pressures:
            quantity = {"value": value, "system": UCUM, "code": units[unit]}
            code = {"coding": [{"system": LOINC, "code": "8480-6"}]}
            told = {"status": "final", "effectiveDateTime": f"{day.isoformat()}T10:00:00+02:00"}
            whole = {"code": {"coding": [{"system": LOINC, "code": "85354-9"}]}}
            lines["Observation"].append(
                {"subject": subject, **told, **whole, "component": [{"code": code, "valueQuantity": quantity}]}
            )
        for start, end in p.visits:
            period = {"start": start.isoformat(), "end": end.isoformat()}
            lines["Encounter"].append(
                {"subject": subject, "status": "finished", "class": {"code": "IMP"}, "period": period}
            )
    for kind, found in lines.items():
        for part in (0, 1):  # as servers cut them
            written = [json.dumps({"resourceType": kind, **each}) + "\n" for each in found[part::2]]
            (folder / f"{kind}.{part:04}.ndjson").write_text("".join(written))


def write_csv(hospital: list[Patient], path: Path) -> None:
    with path.open("w", newline="") as file:
        written = csv.writer(file)
        written.writerow(["person", "year_of_birth", "sex", "diabetes", "pressure"])
        for p in hospital:
            written.writerow([p.id, p.born, p.sex, DIABETES_2 in p.conditions, p.pressure])
