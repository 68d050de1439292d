"""OMOP and FHIR: one made-up hospital answers alike whichever way it is written down, and no record is torn."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from tests.support.hospital import (
    DIABETES,
    DIABETES_2,
    MERCURY,
    METFORMIN,
    PRESSURE,
    Patient,
    omop_rows,
    patients,
    write_csv,
    write_fhir,
    write_omop,
)
from tests.support.postgres import new_database
from thebes.data.connectors.bulk_export import moment, patient_of
from thebes.data.connectors.connector import SourceUnavailable
from thebes.data.connectors.registry import open_connector
from thebes.data.engines.source import table_of
from thebes.data.filter import read_filter
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Axis, Factor, Sums, Term
from thebes.privacy.faults import Mistake

OMOP: dict[str, Any] = {
    "kind": "omop",
    "has": {"diabetes": [DIABETES]},
    "latest": {"pressure": {"concept": PRESSURE, "unit": MERCURY, "low": 50.0, "high": 250.0}},
}
FHIR: dict[str, Any] = {
    "kind": "fhir",
    "path": "export",
    "has": {"diabetes": ["http://snomed.info/sct|44054006"]},
    "latest": {"pressure": {"code": "http://loinc.org|8480-6", "unit": "mm[Hg]", "low": 50.0, "high": 250.0}},
}


def schema(key: str = "person", key_type: str = "integer", year: str = "year_of_birth", **more: Any) -> Schema:
    columns = {
        key: {"type": key_type, "key": True},
        year: {"type": "integer", "low": 1900, "high": 2030},
        "sex": {"type": "string", "values": ["female", "male"]},
        "diabetes": {"type": "boolean"},
        "pressure": {"type": "float", "low": 50, "high": 250},
    }
    return schema_of({"unit": "person", "columns": {**columns, **more.pop("columns", {})}, **more})


def asked(year: str = "year_of_birth") -> Sums:
    values = (Term(), Term((Factor("pressure", 1, 1),)), Term((Factor(year, 1, 1),)))
    return Sums(values, axes=(Axis("sex", values=("female", "male")), Axis("diabetes", values=(False, True))))


def on_a_server(hospital: list[Patient]) -> dict[str, Any]:
    import psycopg

    url = new_database()
    with psycopg.connect(url) as connection:
        for table, (declared, rows) in omop_rows(hospital).items():
            connection.execute(f"CREATE TABLE {table} ({declared})")
            holes = ", ".join("%s" for _ in rows[0])
            connection.cursor().executemany(f"INSERT INTO {table} VALUES ({holes})", rows)
    parts = urlparse(url)
    (host,) = parse_qs(parts.query)["host"]
    return {"server": {"host": host, "user": "thebes", "database": parts.path[1:]}}


def test_a_hospital_answers_alike_by_omop_fhir_and_csv(tmp_path: Path) -> None:
    hospital = patients()
    write_omop(hospital, tmp_path / "cdm")
    write_fhir(hospital, tmp_path / "export")
    write_csv(hospital, tmp_path / "rows.csv")
    made = table_of(schema(), {"kind": "csv", "path": "rows.csv"}, folder=tmp_path).sums(asked())
    assert made.min() > 0
    assert (table_of(schema(), {**OMOP, "path": "cdm"}, folder=tmp_path).sums(asked()) == made).all()
    fhir = table_of(schema("patient", "string", "birth_year"), FHIR, folder=tmp_path)
    assert (fhir.sums(asked("birth_year")) == made).all()


@pytest.mark.postgres
def test_a_hospital_answers_alike_from_files_and_from_a_server(tmp_path: Path) -> None:
    hospital = patients(300)
    write_omop(hospital, tmp_path / "cdm")
    server = on_a_server(hospital)
    for rows, more in (
        ("persons", {}),
        ("visits", {"start": {"type": "timestamp"}, "end": {"type": "timestamp"}}),
        ("conditions", {"concept": {"type": "integer", "values": [DIABETES_2, 1]}}),
        ("drugs", {"days": {"type": "integer", "low": 0, "high": 100}}),
        (
            "measurements",
            {"value": {"type": "float", "low": 0, "high": 300}, "unit": {"type": "integer", "values": [1]}},
        ),
    ):
        said = schema(columns=more, max_rows_per_unit=3)
        of_files = table_of(said, {**OMOP, "rows": rows, "path": "cdm"}, folder=tmp_path)
        of_server = table_of(said, {**OMOP, "rows": rows, **server}, folder=tmp_path)
        found = of_files.sums(asked())
        assert found.max() > 0, rows
        assert (found == of_server.sums(asked())).all(), rows
        where = read_filter("year_of_birth > 1970 AND diabetes", said)
        few = Sums((Term(),), where=where)
        assert (of_files.sums(few) == of_server.sums(few)).all(), rows


@pytest.mark.postgres
def test_no_value_of_a_server_breaks_an_answer_and_no_person_is_told_twice(tmp_path: Path) -> None:
    import psycopg

    source = on_a_server(patients(10))["server"]
    with psycopg.connect(f"postgresql://thebes@/{source['database']}?host={source['host']}") as connection:
        connection.execute("INSERT INTO person SELECT * FROM person WHERE person_id < 3")
        connection.execute("ALTER TABLE measurement ALTER value_as_number TYPE numeric")
        for value, day in (
            ("NaN", "2030-01-01"),
            ("1e400", "2030-01-01"),
            ("100", "infinity"),
            ("100", "5874897-12-31"),
        ):
            row = (999, 1, PRESSURE, day, value, MERCURY)
            connection.execute("INSERT INTO measurement VALUES (%s, %s, %s, %s, %s::numeric, %s)", row)
    more = {"value": {"type": "float", "low": 0, "high": 300}, "at": {"type": "timestamp"}}
    for rows, columns in (("persons", {}), ("measurements", more)):
        said = schema(columns=columns, max_rows_per_unit=100)
        table = table_of(said, {**OMOP, "rows": rows, "server": source}, folder=tmp_path)
        assert table.sums(Sums((Term(),))).tolist()[0][0] == (
            10 if rows == "persons" else table.sums(Sums((Term(),)))[0, 0]
        )


def test_concepts_that_descend_from_a_named_one_count_and_a_drug_is_a_column_too(tmp_path: Path) -> None:
    hospital = patients(50)
    write_omop(hospital, tmp_path / "cdm")
    source = {"kind": "omop", "path": "cdm", "has": {"any": [DIABETES]}, "takes": {"metformin": [METFORMIN]}}
    rows = [
        row
        for batch in open_connector(source, folder=tmp_path).batches(["person", "any", "metformin"])
        for row in batch.itertuples(index=False)
    ]
    told = {int(person): (bool(has), bool(takes)) for person, has, takes in rows}
    assert told == {p.id: (DIABETES_2 in p.conditions, p.metformin) for p in hospital}


def test_a_row_is_one_persons_so_a_schema_of_rows_or_another_key_is_refused(tmp_path: Path) -> None:
    hospital = patients(20)
    write_omop(hospital, tmp_path / "cdm")
    write_fhir(hospital, tmp_path / "export")
    of_rows = schema_of({"unit": "event", "columns": {"sex": {"type": "string", "values": ["male"]}}})
    other = schema_of({"unit": "person", "columns": {"birth_year": {"type": "integer", "key": True}}})
    for said, source in ((of_rows, {**OMOP, "path": "cdm"}), (of_rows, FHIR), (other, FHIR)):
        with pytest.raises(Mistake, match='needs a schema with unit = "person" whose key is'):
            table_of(said, source, folder=tmp_path)


def test_what_a_description_says_wrongly_is_named(tmp_path: Path) -> None:
    write_fhir(patients(3), tmp_path / "export")
    for source, field in (
        ({"kind": "omop"}, "needs either path"),
        ({**OMOP, "path": "cdm", "has": {"sex": [1]}}, "names 'sex' twice"),
        ({**OMOP, "path": "cdm", "has": {"d": []}}, "needs at least one"),
        (
            {**OMOP, "path": "cdm", "latest": {"x": {"concept": 1, "unit": 2, "low": 3.0, "high": 3.0}}},
            "low must be below",
        ),
        ({**FHIR, "latest": {"x": {"code": "8480-6", "unit": "1", "low": 0.0, "high": 1.0}}}, "source.latest.x.code"),
        ({**FHIR, "rows": "people"}, "source.rows"),
    ):
        with pytest.raises(Mistake, match=field):
            open_connector(source, folder=tmp_path)
    with pytest.raises(SourceUnavailable, match="there is no folder cdm"):
        open_connector({**OMOP, "path": "cdm"}, folder=tmp_path)
    (tmp_path / "cdm").mkdir()
    with pytest.raises(SourceUnavailable, match=r"cdm has no person\.parquet"):
        open_connector({**OMOP, "path": "cdm"}, folder=tmp_path)


AWKWARD = [
    "{",
    "[]",
    '{"resourceType": "Observation"}',
    "\xff\xfe",
    json.dumps({"resourceType": "Condition", "subject": {"reference": "Patient/nobody"}}),
    json.dumps({"resourceType": "Condition", "subject": "Patient/p-1"}),
]


def test_no_line_of_an_export_changes_another_and_each_is_counted(tmp_path: Path) -> None:
    write_fhir(patients(40), tmp_path / "export")
    said = schema("patient", "string", "birth_year")
    clean = table_of(said, FHIR, folder=tmp_path).sums(asked("birth_year"))
    with (tmp_path / "export" / "Condition.0002.ndjson").open("wb") as file:
        file.write("\n".join(AWKWARD).encode("latin-1"))
    again = {"resourceType": "Patient", "id": "p-1", "birthDate": "1901", "gender": "male"}
    (tmp_path / "export" / "Patient.late.ndjson").write_text(json.dumps(again) + "\n" + json.dumps({**again, "id": 7}))
    assert (table_of(said, FHIR, folder=tmp_path).sums(asked("birth_year")) == clean).all()
    rows, lost = open_connector(FHIR, folder=tmp_path).records(["sex"])  # type: ignore[attr-defined]
    assert rows == 40
    assert sorted((each.reason, each.records) for each in lost) == [
        ("no Condition (Condition.0002.ndjson)", 1),
        ("no JSON object in UTF-8 (Condition.0002.ndjson)", 3),
        ("of no patient of the export (Condition.0002.ndjson)", 2),
        ("with the id of another patient (Patient.late.ndjson)", 1),
        ("without an id (Patient.late.ndjson)", 1),
    ]


def observation(**more: Any) -> dict[str, Any]:
    quantity = {"value": 120, "system": "http://unitsofmeasure.org", "code": "mm[Hg]"}
    code = {"coding": [{"system": "http://loinc.org", "code": "8480-6"}]}
    told = {"resourceType": "Observation", "subject": {"reference": "Patient/a"}, "status": "final"}
    return {**told, "code": code, "valueQuantity": quantity, "effectiveDateTime": "2026-01-02", **more}


@pytest.mark.parametrize(
    ("more", "newest"),
    [
        ({}, 120),
        ({"status": "entered-in-error"}, None),
        ({"status": "amended"}, 120),
        ({"valueQuantity": {"value": 16, "system": "http://unitsofmeasure.org", "code": "kPa"}}, None),
        ({"valueQuantity": {"value": 120, "unit": "mm[Hg]"}}, None),
        ({"valueQuantity": {"value": 120, "comparator": "<", "system": "u", "code": "mm[Hg]"}}, None),
        ({"valueQuantity": {"value": 10**400, "system": "http://unitsofmeasure.org", "code": "mm[Hg]"}}, None),
        ({"valueQuantity": {"value": True, "system": "http://unitsofmeasure.org", "code": "mm[Hg]"}}, None),
        ({"valueQuantity": [1]}, None),
        ({"effectiveDateTime": "yesterday"}, None),
        ({"effectiveDateTime": None, "effectivePeriod": {"start": "2026"}}, 120),
        ({"code": {"coding": [{"code": "\ud800"}]}}, None),
        ({"subject": {"reference": "https://h.example/fhir/Patient/a/_history/2"}}, 120),
        ({"subject": {"reference": "Patient/b"}}, None),
    ],
)
def test_only_what_was_truly_measured_counts(tmp_path: Path, more: dict[str, Any], newest: float | None) -> None:
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "Patient.ndjson").write_text(json.dumps({"resourceType": "Patient", "id": "a"}))
    (tmp_path / "export" / "Observation.ndjson").write_text(json.dumps(observation(**more)))
    (batch,) = open_connector(FHIR, folder=tmp_path).batches(["patient", "pressure"])
    assert batch == {"patient": ["a"], "pressure": [newest]}


def test_moments_of_any_precision_are_in_utc_and_nonsense_is_none() -> None:
    assert moment("2026-01-02T01:00:00+02:00") == datetime(2026, 1, 1, 23)
    assert moment("2026") == datetime(2026, 1, 1)
    assert moment("2026-13") is None
    assert moment("0001-01-01T00:00:00+14:00") is None
    assert moment(None, 7, "2026-05-04") == datetime(2026, 5, 4)
    assert patient_of({"subject": {"reference": "urn:uuid:9f8e7d6c-0000-4000-8000-000000000001"}}) == (
        "9f8e7d6c-0000-4000-8000-000000000001"
    )
    assert patient_of({"subject": {"reference": "Group/1"}}) is None


NONSENSE: list[Any] = [["x"], {"x": 1}, 7, True, None, [[]], {"coding": 3}, {"coding": [7, None, {"code": ["c"]}]}]
FIELDS = ("status", "subject", "code", "valueQuantity", "component", "effectiveDateTime", "effectivePeriod", "id")


@pytest.mark.parametrize("kind", ["patients", "encounters", "conditions", "observations"])
def test_no_field_of_a_resource_whatever_it_holds_breaks_an_answer(tmp_path: Path, kind: str) -> None:
    (tmp_path / "export").mkdir()
    people = [
        {"resourceType": "Patient", "id": name, "gender": strange, "birthDate": strange}
        for name, strange in zip("abcdefgh", NONSENSE, strict=True)
    ]
    (tmp_path / "export" / "Patient.ndjson").write_text("".join(json.dumps(each) + "\n" for each in people))
    fields = (*FIELDS, "verificationStatus", "period", "class", "onsetDateTime", "recordedDate")
    for type_ in ("Observation", "Condition", "Encounter"):
        lines = [{**observation(), "resourceType": type_, field: strange} for field in fields for strange in NONSENSE]
        (tmp_path / "export" / f"{type_}.ndjson").write_text("".join(json.dumps(each) + "\n" for each in lines))
    said = schema("patient", "string", "birth_year", max_rows_per_unit=100)
    table = table_of(said, {**FHIR, "rows": kind}, folder=tmp_path)
    found = table.sums(Sums((Term(),)))
    assert found[0, 0] == 8 if kind == "patients" else found[0, 0] >= 1


@pytest.mark.postgres
def test_a_table_of_other_types_than_the_cdm_s_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    import psycopg

    source = on_a_server(patients(10))["server"]
    url = f"postgresql://thebes@/{source['database']}?host={source['host']}"
    with psycopg.connect(url) as connection:
        connection.execute("ALTER TABLE measurement ALTER unit_concept_id TYPE float8, ALTER person_id TYPE numeric")
        for odd in ("NaN", "1e30", "1.5", "-Infinity"):
            row = (PRESSURE, odd)
            connection.execute("INSERT INTO measurement VALUES (1, 1, %s, '2026-01-01', 100, %s::float8)", row)
    assert table_of(schema(), {**OMOP, "server": source}, folder=tmp_path).sums(Sums((Term(),))).tolist() == [[10]]
    with psycopg.connect(url) as connection:
        connection.execute("ALTER TABLE measurement ALTER unit_concept_id TYPE text")
    with pytest.raises(SourceUnavailable, match=r"measurement\.unit_concept_id is of the type text"):
        table_of(schema(), {**OMOP, "server": source}, folder=tmp_path)
    with psycopg.connect(url) as connection:
        connection.execute("ALTER TABLE measurement DROP unit_concept_id")
    with pytest.raises(SourceUnavailable, match="measurement has no column unit_concept_id"):
        table_of(schema(), {**OMOP, "server": source}, folder=tmp_path)
