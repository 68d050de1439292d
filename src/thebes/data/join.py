"""Two data sets of the same people, joined on whose a row is: which columns there are then, and of how many rows of one
person.

What must stay true: of each data set at most its own declared number of a person's rows is joined, so a person has at
most the product of both in the joined rows; no row of one person is ever joined with a row of another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from thebes.data.schema import COLUMN_NAME, MOST_COLUMNS, MOST_ROWS, Column, Schema
from thebes.privacy.faults import Mistake


@dataclass(frozen=True)
class Join:
    """The join of two data sets, by their names. `schema` is that of the joined rows; `columns` says of each of its
    columns but the key which of the two has it (0 or 1), and under which name."""

    names: tuple[str, str]
    schemas: tuple[Schema, Schema]
    schema: Schema
    columns: Mapping[str, tuple[int, str]]

    def named(self, place: int) -> dict[str, str]:
        """Return the columns of one of the two, by their names in small letters there."""
        return {name.lower(): joined for joined, (side, name) in self.columns.items() if side == place}


def join(one: tuple[str, Schema], other: tuple[str, Schema]) -> Join:
    """Join two data sets, or refuse it in the words of a document's field. A column whose name both have is called
    DATASET_COLUMN."""
    names, schemas = (one[0], other[0]), (one[1], other[1])
    if names[0] == names[1]:
        raise Mistake("join", f"names {names[0]!r} twice; a data set is joined with another one")
    _same_people(names, schemas)
    most = schemas[0].max_rows_per_unit * schemas[1].max_rows_per_unit
    if most > MOST_ROWS:
        raise Mistake(
            "join",
            f"would give one person up to {most} rows ({schemas[0].max_rows_per_unit} of {names[0]} times "
            f"{schemas[1].max_rows_per_unit} of {names[1]}); at most {MOST_ROWS} can be hidden",
        )
    columns = _columns(names, schemas)
    if len(columns) >= MOST_COLUMNS:
        raise Mistake("join", f"would have {len(columns) + 1} columns; at most {MOST_COLUMNS} are looked through")
    declared = {name: schemas[side].columns[own] for name, (side, own) in columns.items()}
    key = next(schema.columns[schema.key].type for schema in schemas if schema.key)
    schema = Schema(
        unit="person",
        max_rows_per_unit=most,
        public=schemas[0].public and schemas[1].public,
        columns={**declared, _free("key", declared): Column(type=key, key=True)},
    )
    return Join(names, schemas, schema, columns)


def _same_people(names: tuple[str, str], schemas: tuple[Schema, Schema]) -> None:
    for name, schema in zip(names, schemas, strict=True):
        if schema.people is None:
            raise Mistake(
                "join",
                f"needs to know whose rows are whose: the steward of {name} declares in its schema whose people it is "
                'about, such as people = "patients"',
            )
    if schemas[0].people != schemas[1].people:
        told = " and ".join(f"{name} of {schema.people}" for name, schema in zip(names, schemas, strict=True))
        raise Mistake("join", f"is of data sets about the same people; {told} are declared")
    kinds = [schema.columns[schema.key].type for schema in schemas if schema.key]
    if len(kinds) != 2 or kinds[0] != kinds[1]:
        raise Mistake("join", f"finds people by unlike keys: {names[0]} by {kinds[0]}, {names[1]} by {kinds[-1]}")


def _columns(names: tuple[str, str], schemas: tuple[Schema, Schema]) -> dict[str, tuple[int, str]]:
    own = [
        [name for name, column in schema.columns.items() if not column.key and column.tensor is None]
        for schema in schemas
    ]
    both = {name.lower() for name in own[0]} & {name.lower() for name in own[1]}
    found = dict[str, tuple[int, str]]()
    for side, columns in enumerate(own):
        for name in columns:
            told = f"{re.sub(r'[^A-Za-z0-9_]', '_', names[side])}_{name}" if name.lower() in both else name
            if re.fullmatch(COLUMN_NAME, told) is None or told.lower() in map(str.lower, found):
                raise Mistake(
                    "join",
                    f"finds {name!r} in both, and {told!r} cannot name one of them; let a steward declare one anew",
                )
            found[told] = (side, name)
    return found


def _free(name: str, taken: Mapping[str, object]) -> str:
    while name in {column.lower() for column in taken}:
        name += "_"
    return name
