"""The rows of an OMOP CDM as one statement in the words that DuckDB and PostgreSQL share.

What must stay true: a row holds what the tables say of one person and nothing of another; the vocabulary, which is
nobody's data, is all that is read beside the person's own records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from thebes.data.connectors.connector import Held
from thebes.data.connectors.scanned_source import quoted

KEY = "person"
MALE, FEMALE = 8507, 8532  #: the standard concepts of gender

Concepts = list[int]
Kind = Literal["persons", "visits", "conditions", "drugs", "measurements"]

#: of each table, the columns that are read, and what they hold
TABLES: Mapping[str, Mapping[str, Held]] = {
    "person": {"person_id": "integer", "year_of_birth": "integer", "gender_concept_id": "integer"},
    "visit_occurrence": {
        "person_id": "integer",
        "visit_concept_id": "integer",
        "visit_start_date": "timestamp",
        "visit_end_date": "timestamp",
    },
    "condition_occurrence": {
        "person_id": "integer",
        "condition_concept_id": "integer",
        "condition_start_date": "timestamp",
    },
    "drug_exposure": {
        "person_id": "integer",
        "drug_concept_id": "integer",
        "drug_exposure_start_date": "timestamp",
        "days_supply": "integer",
    },
    "measurement": {
        "measurement_id": "integer",
        "person_id": "integer",
        "measurement_concept_id": "integer",
        "measurement_date": "timestamp",
        "value_as_number": "float",
        "unit_concept_id": "integer",
    },
    "concept_ancestor": {"ancestor_concept_id": "integer", "descendant_concept_id": "integer"},
}
PERSON: Mapping[str, Held] = {KEY: "integer", "year_of_birth": "integer", "sex": "string"}
#: of each kind of row beside persons: its table, and its own columns with what they are read from
_ROWS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "visits": ("visit_occurrence", {"visit": "visit_concept_id", "start": "visit_start_date", "end": "visit_end_date"}),
    "conditions": ("condition_occurrence", {"concept": "condition_concept_id", "start": "condition_start_date"}),
    "drugs": (
        "drug_exposure",
        {"concept": "drug_concept_id", "start": "drug_exposure_start_date", "days": "days_supply"},
    ),
    "measurements": (
        "measurement",
        {
            "concept": "measurement_concept_id",
            "value": "value_as_number",
            "unit": "unit_concept_id",
            "at": "measurement_date",
        },
    ),
}


class LatestMeasurement(BaseModel):
    """The newest number of this concept in this unit; one outside of `low` to `high` was not measured well."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    concept: int = Field(ge=0, le=2**53)
    unit: int = Field(ge=0, le=2**53)
    low: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> LatestMeasurement:
        if self.low >= self.high:
            raise ValueError("low must be below high")
        return self


class OmopRows(BaseModel):
    """The rows that a description asks for. `has` and `takes`: columns that are true of who has a condition, or was
    exposed to a drug, that is one of these concepts or descends from one; `latest`: columns with the newest number."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    rows: Kind = "persons"
    has: dict[str, Concepts] = Field(default_factory=dict, max_length=100)
    takes: dict[str, Concepts] = Field(default_factory=dict, max_length=100)
    latest: dict[str, LatestMeasurement] = Field(default_factory=dict, max_length=100)

    @model_validator(mode="after")
    def _names(self) -> OmopRows:
        taken = {*PERSON, *self.own}
        for name in (*self.has, *self.takes, *self.latest):
            if name in taken:
                raise ValueError(f"names {name[:40]!r} twice: it is a column already")
            taken.add(name)
        if not all([*self.has.values(), *self.takes.values()]):
            raise ValueError("every list of concepts needs at least one")
        return self

    @property
    def own(self) -> Mapping[str, Held]:
        """Return the columns that a row has beside those of its person."""
        if self.rows == "persons":
            return {}
        table, columns = _ROWS[self.rows]
        return {name: TABLES[table][read] for name, read in columns.items()}

    @property
    def columns(self) -> Mapping[str, Held]:
        flags: dict[str, Held] = dict.fromkeys((*self.has, *self.takes), "boolean")
        return {**PERSON, **flags, **dict.fromkeys(self.latest, "float"), **self.own}

    @property
    def tables(self) -> tuple[str, ...]:
        """Return the tables that are read."""
        found = ["person", *([] if self.rows == "persons" else [_ROWS[self.rows][0]])]
        found += ["condition_occurrence"] if self.has else []
        found += ["drug_exposure"] if self.takes else []
        found += ["measurement"] if self.latest else []
        found += ["concept_ancestor"] if self.has or self.takes else []
        return tuple(dict.fromkeys(found))

    def statement(self, table: Callable[[str], str]) -> str:
        """Write the rows as a SELECT; `table` gives a table's relation with the columns of `TABLES`."""
        chosen = [
            "p.person_id AS person",
            "p.year_of_birth AS year_of_birth",
            f"CASE p.gender_concept_id WHEN {MALE} THEN 'male' WHEN {FEMALE} THEN 'female' END AS sex",
        ]
        joined = [f"FROM {_one_each(table('person'))} AS p"]
        flags = [("condition_occurrence", "condition_concept_id", *each) for each in self.has.items()]
        flags += [("drug_exposure", "drug_concept_id", *each) for each in self.takes.items()]
        for n, (records, concept, name, concepts) in enumerate(flags):
            listed = ", ".join(map(str, concepts))
            descends = (
                f"SELECT descendant_concept_id FROM {table('concept_ancestor')} AS a "
                f"WHERE ancestor_concept_id IN ({listed})"
            )
            joined.append(
                f"LEFT JOIN (SELECT DISTINCT person_id FROM {table(records)} AS r WHERE {concept} IN ({listed}) "
                f"OR {concept} IN ({descends})) AS f{n} ON f{n}.person_id = p.person_id"
            )
            chosen.append(f"f{n}.person_id IS NOT NULL AS {quoted(name)}")
        for n, (name, wanted) in enumerate(self.latest.items()):
            newest = (
                "SELECT person_id, value_as_number, row_number() OVER (PARTITION BY person_id "
                f"ORDER BY measurement_date DESC, measurement_id DESC, value_as_number) AS turn "
                f"FROM {table('measurement')} AS m WHERE measurement_date IS NOT NULL "
                f"AND measurement_concept_id = {wanted.concept} AND unit_concept_id = {wanted.unit} "
                f"AND value_as_number BETWEEN {wanted.low!r} AND {wanted.high!r}"
            )
            joined.append(f"LEFT JOIN ({newest}) AS n{n} ON n{n}.person_id = p.person_id AND n{n}.turn = 1")
            chosen.append(f"n{n}.value_as_number AS {quoted(name)}")
        if self.rows != "persons":
            records, columns = _ROWS[self.rows]
            joined.append(f"JOIN {table(records)} AS o ON o.person_id = p.person_id")
            chosen += [f"o.{read} AS {quoted(name)}" for name, read in columns.items()]
        return " ".join([f"SELECT {', '.join(chosen)}", *joined])


def _one_each(persons: str) -> str:
    """A relation of persons with one row each: of two with the same number neither doubles the other's records."""
    return (
        "(SELECT person_id, min(year_of_birth) AS year_of_birth, min(gender_concept_id) AS gender_concept_id "
        f"FROM {persons} AS every WHERE person_id IS NOT NULL GROUP BY person_id)"
    )
