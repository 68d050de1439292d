"""The schema of a data set's rows: columns with declared bounds, and who one person is among them.

Everything a sensitivity needs is public and written here by whoever keeps the rows; nothing of it is read off the
data. What a row holds beyond a bound counts as the bound, what is in no declared value counts as missing.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from thebes.privacy.faults import Mistake
from thebes.privacy.field_errors import in_words
from thebes.privacy.grid import Grid
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.reading import NotJSON, read_json
from thebes.privacy.spelling import did_you_mean
from thebes.privacy.stability import Change

MOST_ROWS = 10_000  #: of one person that may count
MOST_VALUES = 10_000
MOST_COLUMNS = 4096  #: as many as a small picture has numbers
OPEN = "?"  #: what a proposal leaves to be filled in
COLUMN_NAME = r"^[A-Za-z][A-Za-z0-9_]{0,62}$"
TYPES = ("integer", "float", "string", "boolean", "timestamp", "array", "image")
MOST_SIDES, LONGEST_SIDE = 4, 4096  #: of an array, and of a picture
MOST_ELEMENTS = 2**22  #: of one array or picture
_KEPT, _MOST_KEPT = 256, 2**16  #: schemas that are kept once they are read, and characters of each
_LISTED = 20  #: columns that a refusal lists
#: how other programs call what stands in a schema
_OTHERS_CALL_IT = {
    **dict.fromkeys(("min", "minimum", "lower", "from"), "low"),
    **dict.fromkeys(("max", "maximum", "upper", "to"), "high"),
    **dict.fromkeys(("categories", "enum", "levels", "options"), "values"),
    **dict.fromkeys(("dtype", "kind"), "type"),
}

Scalar = bool | int | float | str
ColumnType = Literal["integer", "float", "string", "boolean", "timestamp", "array", "image"]
Side = Annotated[int, Field(ge=1, le=LONGEST_SIDE)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Column(_Strict):
    """One column. Numbers that are summed need `low` and `high`; what is grouped by needs `values`. `key` marks the
    column that says who a row is about; it is never shown and never asked for. An array has a `shape` and the bounds of
    its numbers, an image the size that it is brought to; both are a network's input and nothing else."""

    type: ColumnType
    low: float | None = None
    high: float | None = None
    values: tuple[Scalar, ...] | None = Field(default=None, min_length=1, max_length=MOST_VALUES)
    shape: tuple[Side, ...] | None = Field(default=None, min_length=1, max_length=MOST_SIDES)
    height: Side | None = None
    width: Side | None = None
    channels: Literal[1, 3] | None = None
    key: bool = False
    description: str = Field(default="", max_length=2000)

    @field_validator("low", "high", mode="before")
    @classmethod
    def _number(cls, value: object) -> object:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("values", "shape", mode="before")
    @classmethod
    def _from_list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.low is None) != (self.high is None):
            raise ValueError("low and high go together")
        if self.low is not None and self.high is not None:
            if self.type not in ("integer", "float", "array"):
                raise ValueError("low and high are for numbers")
            Grid(self.low, self.high)
        self._fits_as_tensor()
        if self.values is not None:
            if self.low is not None:
                raise ValueError("has either low and high or values, not both")
            for value in self.values:
                if not _fits(value, self.type):
                    raise ValueError(f"values must all be of the column's type, {self.type}")
            if len({str(value) for value in self.values}) != len(self.values) or len(set(self.held)) != len(self.held):
                raise ValueError("values must differ from each other, also when they are written as text")
        if self.key and (self.low is not None or self.values is not None):
            raise ValueError("a key says who somebody is: it has no bounds and no values")
        if self.key and self.type not in ("integer", "string"):
            raise ValueError("a key is an integer or a string")
        return self

    def _fits_as_tensor(self) -> None:
        size = (self.height, self.width, self.channels)
        if (self.type == "array") != (self.shape is not None):
            raise ValueError("an array has a shape such as [3, 32, 32], and nothing else has one")
        if self.type == "array" and self.low is None:
            raise ValueError("an array needs low and high, between which all of its numbers lie")
        if self.type == "image" and None in size:
            raise ValueError(
                "an image needs height, width and channels (1 or 3), the size that pictures are brought to"
            )
        if self.type != "image" and size != (None, None, None):
            raise ValueError("height, width and channels are for images")
        if self.tensor is not None:
            if self.values is not None:
                raise ValueError(f"an {self.type} has no values")
            if math.prod(self.tensor) > MOST_ELEMENTS:
                raise ValueError(f"has more than {MOST_ELEMENTS:,} numbers in one row")

    @property
    def tensor(self) -> tuple[int, ...] | None:
        """The shape of what a network gets of one row, channels first; None where a column holds single values."""
        if self.type == "image" and self.height and self.width and self.channels:
            return (self.channels, self.height, self.width)
        return self.shape

    @property
    def ranged(self) -> bool:
        """True where a column is a number in bounds."""
        return self.low is not None and self.shape is None

    @property
    def held(self) -> tuple[Scalar | datetime, ...]:
        """The declared values as rows hold them."""
        return tuple(as_held(value, self.type) for value in self.values or ())

    def grid(self, bits: int) -> Grid:
        """The steps in which this number is counted."""
        assert self.low is not None  # noqa: S101
        assert self.high is not None  # noqa: S101
        return Grid(self.low, self.high, bits)


def only_for_networks(column: Column) -> str:
    """Say why a column of pictures or arrays cannot be asked about, and what to do."""
    holds = "pictures" if column.type == "image" else "arrays"
    return f"which holds {holds}: only a network takes them, as its input; name a column of numbers or values"


def size_of(told: Mapping[str, Any]) -> str:
    """Say in words how large a declared column of pictures or arrays is; nothing of any other."""
    if told.get("shape"):
        return f"arrays of {' x '.join(map(str, told['shape']))} numbers"
    if told.get("channels"):
        return f"brought to {told['width']} x {told['height']}, in {'grey' if told['channels'] == 1 else 'colour'}"
    return ""


def as_held(value: Scalar, kind: str) -> Scalar | datetime:
    """A value as rows of a type hold it: a point in time in UTC and without a zone, a float always as one."""
    if kind == "timestamp":
        moment = datetime.fromisoformat(str(value))
        return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return float(value) if kind == "float" else value


def _fits(value: Scalar, kind: str) -> bool:
    if isinstance(value, bool) or kind == "boolean":
        return isinstance(value, bool) and kind == "boolean"
    if isinstance(value, str):
        if kind == "timestamp":
            try:
                return len(value) <= 40 and as_held(value, kind) is not None
            except (ValueError, OverflowError):
                return False
        return kind == "string" and "\0" not in value and _is_text(value)
    if kind == "integer":
        return isinstance(value, int) and -(2**63) <= value < 2**63
    return kind == "float" and (isinstance(value, float) or abs(value) <= 2**53)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class Schema(_Strict):
    """The columns of a data set and its unit. Of one person at most `max_rows_per_unit` rows count."""

    unit: Literal["person", "event"]
    max_rows_per_unit: int = Field(default=1, ge=1, le=MOST_ROWS)
    time: str | None = None  #: the column that says when; of too many rows the latest count
    public: bool = False  #: whoever keeps the rows has marked them public: they may be asked about without noise
    #: whose people these are: data sets of a site with the same ones, whose keys are theirs, may be joined
    people: str | None = Field(default=None, pattern=COLUMN_NAME)
    columns: dict[str, Column] = Field(min_length=1, max_length=MOST_COLUMNS)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        import re

        keys = [name for name, column in self.columns.items() if column.key]
        if any(re.fullmatch(COLUMN_NAME, name) is None for name in self.columns):
            raise ValueError("a column's name is a letter, then up to 62 letters, digits or underscores")
        if len({name.lower() for name in self.columns}) != len(self.columns):
            raise ValueError("two columns have the same name but for its case")
        if len(keys) > 1:
            raise ValueError("only one column can be the key")
        if self.unit == "person" and not keys and self.max_rows_per_unit > 1:
            raise ValueError("with several rows of one person a column must be the key that says whose a row is")
        if self.people is not None and (self.unit != "person" or not keys):
            raise ValueError("people goes with the unit person, and with a column that is the key of these people")
        if self.unit == "event" and self.max_rows_per_unit != 1:
            raise ValueError("an event is one row; max_rows_per_unit is for persons")
        if self.time is not None and self.time not in self.columns:
            raise ValueError("time must name one of the columns")
        if self.time is not None and self.columns[self.time].type not in ("timestamp", "integer", "float"):
            raise ValueError("time must name a timestamp or a number")
        return self

    @property
    def key(self) -> str | None:
        """The column that says whose a row is; without one every row is a unit of its own."""
        return next((name for name, column in self.columns.items() if column.key), None)

    @property
    def change(self) -> Change:
        """The change that one person more or less may make: the one thing every sensitivity here starts from."""
        return Change(Adjacency.ADD_REMOVE_ONE, self.max_rows_per_unit, Unit(self.unit))

    @property
    def tensors(self) -> tuple[str, ...]:
        """The columns of pictures and arrays."""
        return tuple(name for name, column in self.columns.items() if column.tensor is not None)

    def offered(self, name: str, field: str = "column") -> Column:
        """A column of any type but the key; `field` is the document's field that names it."""
        found = self.columns.get(name)
        if found is None or found.key:
            there = [each for each, column in self.columns.items() if not column.key]
            more = "" if len(there) <= _LISTED else f" and {len(there) - _LISTED} more"
            told = f"; there are {', '.join(there[:_LISTED])}{more}"
            raise Mistake(field, f"names {name[:63]!r}, which the data set does not offer{told}")
        return found

    def column(self, name: str, field: str = "column") -> Column:
        """A column of single values, which are all that is counted, added up, compared and grouped by."""
        found = self.offered(name, field)
        if found.tensor is not None:
            raise Mistake(field, f"names {name!r}, {only_for_networks(found)}")
        return found

    def declaring(self, name: str, values: Sequence[str]) -> Schema:
        """The same with these as the declared values of a column that has none."""
        column = self.column(name, "by").model_copy(update={"values": tuple(values)})
        return self.model_copy(update={"columns": {**self.columns, name: column}})

    def shown(self) -> dict[str, Any]:
        """As JSON, for whoever may ask: without the key."""
        body = self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        body["columns"] = {name: column for name, column in body["columns"].items() if name != self.key}
        return {"max_rows_per_unit": self.max_rows_per_unit, **body}

    def as_json(self) -> dict[str, Any]:
        """Everything, so that `schema_of` reads the same again."""
        return self.model_dump(mode="json", exclude_none=True)


def _left_open(body: Mapping[str, Any]) -> Iterator[str]:
    """Give the places that a proposal left open."""
    columns = body.get("columns")
    yield from (name for name, value in body.items() if value == OPEN)
    for name, column in columns.items() if isinstance(columns, Mapping) else ():
        if isinstance(column, Mapping):
            yield from (f"columns.{name}.{key}"[:120] for key, value in column.items() if value == OPEN)


def schema_of(body: Mapping[str, Any]) -> Schema:
    """Read a schema, or refuse it naming the field at fault."""
    if not isinstance(body, Mapping):
        raise Mistake("schema", 'must be a dict such as {"unit": "person", "columns": {"age": {"type": "integer"}}}')
    for place in _left_open(body):
        raise Mistake(place, f'is still "{OPEN}": fill in what is so, whatever the rows hold')
    try:
        text = _text(body)
        return Schema.model_validate(dict(body)) if text is None else _read(text)
    except ValidationError as error:
        errors = error.errors(include_input=False, include_url=False)
        first = min(errors, key=lambda each: each["type"] != "extra_forbidden")  # what is missing may be misspelt
        where = ".".join(str(part) for part in first["loc"]) or "schema"
        raise Mistake(where[:120], _why(first)) from None


def _text(body: Mapping[str, Any]) -> str | None:
    """Return a schema as text that no other one has; None where it is no plain JSON, or too long to be kept."""
    try:
        text = json.dumps(body)
        return text if len(text) <= _MOST_KEPT and json.loads(text) == body else None
    except (TypeError, ValueError, RecursionError):
        return None


@lru_cache(maxsize=_KEPT)
def _read(text: str) -> Schema:
    """Read a schema once for all who declare the same: many sites do, and each is looked at for every task. Nobody
    can change it."""
    return Schema.model_validate(json.loads(text))


def _why(error: Mapping[str, Any]) -> str:
    """Say in words of ours what is wrong at a place in a schema."""
    where = error["loc"]
    if error["type"] == "extra_forbidden":
        known = (Schema if len(where) == 1 else Column).model_fields
        what = "schema" if len(where) == 1 else "column"
        meant = did_you_mean(str(where[-1]), known, _OTHERS_CALL_IT)
        return f"is not a key of a {what}" + (meant or f", which has {', '.join(known)}")
    return in_words(error)


def read_shown(body: Mapping[str, Any]) -> Schema:
    """Read what `Schema.shown` told of another's data set: whose a row is stays there, under a name nobody asks for."""
    shown = dict(body)
    columns = shown.get("columns")
    if shown.get("unit") == "person" and isinstance(columns, Mapping):
        taken, name = {str(column).lower() for column in columns}, "key"
        while name in taken:
            name += "_"
        shown["columns"] = {**columns, name: {"type": "string", "key": True}}
    return schema_of(shown)


def read_schema(path: Path) -> dict[str, Any]:
    """The object in a schema file: TOML, or JSON where its name says so."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        begin = "write it, or let `thebes dataset propose ROWS.csv` begin one"
        raise Mistake("--schema", f"there is no file {str(path)!r}; {begin}") from None
    except UnicodeError:
        raise Mistake("--schema", f"{str(path)!r} is not text in UTF-8; save it as that") from None
    except OSError as error:
        raise Mistake("--schema", f"cannot read {str(path)!r}: {error.strerror or type(error).__name__}") from None
    try:
        body = read_json(text) if path.suffix == ".json" else tomllib.loads(text)
    except NotJSON as error:
        raise Mistake("--schema", f"{str(path)!r} {error}") from None
    except (ValueError, RecursionError) as error:
        raise Mistake("--schema", f"{str(path)!r} is not TOML: {error}") from None
    if not isinstance(body, dict):
        raise Mistake("--schema", f"{str(path)!r} must hold a table, or an object of JSON")
    return body
