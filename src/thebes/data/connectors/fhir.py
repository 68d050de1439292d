"""The rows of a FHIR R4 bulk export: one for each patient, or for each of their encounters, conditions or observations.

A row holds what the export says of one patient and nothing of another, so such a data set is of persons, known by
`patient`. The files are read anew for every question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from thebes.data.connectors.bulk_export import (
    Resource,
    coded,
    codings,
    files,
    holds,
    measured,
    moment,
    patient_of,
    resources,
    text,
)
from thebes.data.connectors.connector import Columns, Held, LeftOut, Source, SourceUnavailable, path_of, read_source
from thebes.data.filter import RowFilter
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake

KEY = "patient"
_ROWS = 10_000  # at a time
_ID = r"[A-Za-z0-9.-]{1,64}"
_CODE = r"[^|\s]*\|\S+"  #: system|code
_NO_PATIENT = "of no patient of the export"

Row = dict[str, object]


class LatestQuantity(BaseModel):
    """The newest number with this code, in this UCUM unit; one outside of `low` to `high` was not measured well."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    code: str = Field(pattern=_CODE, max_length=300)
    unit: str = Field(min_length=1, max_length=60)
    low: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> LatestQuantity:
        if self.low >= self.high:
            raise ValueError("low must be below high")
        return self


class FhirSource(Source):
    """`path`: the folder with the files. `rows`: what a row is. `has`: columns that are true of who has a condition of
    one of these codes; `latest`: columns with the newest measured number."""

    kind: Literal["fhir"]
    path: str = Field(min_length=1, max_length=4096)
    rows: Literal["patients", "encounters", "conditions", "observations"] = "patients"
    has: dict[str, list[str]] = Field(default_factory=dict, max_length=1000)
    latest: dict[str, LatestQuantity] = Field(default_factory=dict, max_length=1000)

    @model_validator(mode="after")
    def _names(self) -> FhirSource:
        own = {*_PATIENT, *_ROW_COLUMNS[self.rows]}
        for name in (*self.has, *self.latest):
            if name in own or (name in self.has and name in self.latest):
                raise ValueError(f"names {name[:40]!r} twice: it is a column already")
        return self


@dataclass(slots=True)
class _Patient:
    """The row of one patient, and when the newest of each number was measured."""

    row: Row
    newest: dict[str, tuple[datetime, str]] = field(default_factory=dict)


_PATIENT: dict[str, Held] = {KEY: "string", "birth_year": "integer", "sex": "string", "deceased": "boolean"}
_ROW_COLUMNS: dict[str, dict[str, Held]] = {
    "patients": {},
    "encounters": {"class": "string", "start": "timestamp", "end": "timestamp", "hours": "float"},
    "conditions": {"code": "string", "onset": "timestamp"},
    "observations": {"code": "string", "value": "float", "unit": "string", "at": "timestamp"},
}
_TYPES = {"encounters": "Encounter", "conditions": "Condition", "observations": "Observation"}


class Fhir:
    """A `Connector` of one export."""

    def __init__(self, source: FhirSource, folder: Path) -> None:
        self._source, self._folder = source, path_of(source.path, folder)
        if not self._folder.is_dir():
            raise SourceUnavailable(f"source.path: there is no folder {self._folder.name} where the data set says")
        if not files(self._folder, "Patient"):
            raise SourceUnavailable(f"source.path: {self._folder.name} has no Patient.ndjson; export patients too")

    def columns(self) -> Mapping[str, Held]:
        own = dict.fromkeys(self._source.has, "boolean") | dict.fromkeys(self._source.latest, "float")
        return {**_PATIENT, **own, **_ROW_COLUMNS[self._source.rows]}  # type: ignore[dict-item]

    def batches(self, columns: Sequence[str], where: RowFilter | None = None) -> Iterator[Columns]:
        rows = self._rows(lambda path, reason, number: None)
        names = columns or [KEY]
        while some := list(islice(rows, _ROWS)):
            yield {name: [row.get(name) for row in some] for name in names}

    def records(self, columns: Sequence[str]) -> tuple[int, Sequence[LeftOut]]:
        lost: dict[tuple[str, str], LeftOut] = {}

        def told(path: str, reason: str, number: int) -> None:
            before = lost.get((path, reason), LeftOut(f"{reason} ({path})", 0, number))
            lost[path, reason] = LeftOut(before.reason, before.records + 1, before.first)

        return sum(1 for _ in self._rows(told)), list(lost.values())

    def joins_within(self, schema: Schema) -> None:
        """Refuse a schema by which the patient is not whose the rows are: a row tells of all files of a patient."""
        if schema.unit != "person" or schema.key != KEY:
            raise Mistake(
                "source.kind", f'needs a schema with unit = "person" whose key is {KEY!r}: a row is a patient\'s'
            )

    def close(self) -> None: ...

    # --- rows ---------------------------------------------------------------------------------------------

    def _rows(self, told: Callable[[str, str, int], None]) -> Iterator[Row]:
        """Give the rows; tell of every line that is none."""
        patients = self._patients(told)
        if self._source.has:
            self._mark_conditions(patients, told)
        if self._source.latest:
            self._take_newest(patients, told)
        if self._source.rows == "patients":
            yield from (patient.row for patient in patients.values())
            return
        kind = _TYPES[self._source.rows]
        made = {"Encounter": _encounter, "Condition": _condition, "Observation": _observations}[kind]
        seen = kind in self._read_before()  # whose broken lines were told of already
        for resource, patient in self._of_patients(kind, patients, (lambda *_: None) if seen else told):
            yield from ({**patient.row, **row} for row in made(resource))

    def _read_before(self) -> set[str]:
        return ({"Condition"} if self._source.has else set()) | ({"Observation"} if self._source.latest else set())

    def _patients(self, told: Callable[[str, str, int], None]) -> dict[str, _Patient]:
        """Return every patient by id; of two with the same id the first counts, so that neither joins the other's."""
        found: dict[str, _Patient] = {}
        for path in files(self._folder, "Patient"):
            for number, read in resources(path, "Patient"):
                if isinstance(read, str):
                    told(path.name, read, number)
                elif not re.fullmatch(_ID, own := text(read.get("id")) or ""):
                    told(path.name, "without an id", number)
                elif own in found:
                    told(path.name, "with the id of another patient", number)
                else:
                    found[own] = _Patient(self._first(own, read))
        return found

    def _first(self, own: str, resource: Resource) -> Row:
        born, sex = moment(resource.get("birthDate")), text(resource.get("gender"))
        dead = resource.get("deceasedBoolean") is True or "deceasedDateTime" in resource
        row: Row = {KEY: own, "birth_year": born.year if born else None, "sex": sex}
        return {**row, "deceased": dead, **dict.fromkeys(self._source.has, False), **dict.fromkeys(self._source.latest)}

    def _of_patients(
        self, kind: str, patients: Mapping[str, _Patient], told: Callable[[str, str, int], None]
    ) -> Iterator[tuple[Resource, _Patient]]:
        """Give every resource of a type that was not entered in error, and whose it is."""
        for path in files(self._folder, kind):
            for number, read in resources(path, kind):
                if isinstance(read, str):
                    told(path.name, read, number)
                    continue
                patient = patients.get(patient_of(read) or "")
                if patient is None:
                    told(path.name, _NO_PATIENT, number)
                elif holds(read):
                    yield read, patient

    def _mark_conditions(self, patients: Mapping[str, _Patient], told: Callable[[str, str, int], None]) -> None:
        wanted = {name: set(codes) for name, codes in self._source.has.items()}
        for resource, patient in self._of_patients("Condition", patients, told):
            codes = coded(resource.get("code"))
            patient.row.update({name: True for name, any_of in wanted.items() if codes & any_of})

    def _take_newest(self, patients: Mapping[str, _Patient], told: Callable[[str, str, int], None]) -> None:
        for resource, patient in self._of_patients("Observation", patients, told):
            at, own = _observed(resource), str(resource.get("id", ""))
            if at is None:
                continue
            for codes, value, unit in measured(resource):
                for name, wanted in self._source.latest.items():
                    good = wanted.code in codes and wanted.unit == unit and wanted.low <= value <= wanted.high
                    if good and (at, own) >= patient.newest.get(name, (at, own)):
                        patient.row[name], patient.newest[name] = value, (at, own)


def _observed(resource: Resource) -> datetime | None:
    period = resource.get("effectivePeriod")
    began = period.get("start") if isinstance(period, Mapping) else None
    return moment(resource.get("effectiveDateTime"), resource.get("effectiveInstant"), began)


def _encounter(resource: Resource) -> Iterator[Row]:
    period, kind = resource.get("period"), resource.get("class")
    period, kind = period if isinstance(period, Mapping) else {}, kind if isinstance(kind, Mapping) else {}
    start, end = moment(period.get("start")), moment(period.get("end"))
    hours = (end - start).total_seconds() / 3600 if start and end and end >= start else None
    yield {"class": text(kind.get("code")), "start": start, "end": end, "hours": hours}


def _condition(resource: Resource) -> Iterator[Row]:
    first = next(codings(resource.get("code")), None)
    onset = moment(resource.get("onsetDateTime"), resource.get("recordedDate"))
    yield {"code": None if first is None else "|".join(first), "onset": onset}


def _observations(resource: Resource) -> Iterator[Row]:
    at = _observed(resource)
    for codes, value, unit in measured(resource):
        yield {"code": min(codes, default=None), "value": value, "unit": unit, "at": at}


def open_fhir(source: Mapping[str, Any], *, folder: Path) -> Fhir:
    """Open the connector of `{"kind": "fhir", "path": ...}`."""
    return Fhir(read_source(FhirSource, source), folder)
