"""The interface of every source of rows to the engines, and what the descriptions of sources have in common.

What must stay true: a connector reads and never writes; its messages name files, columns and servers, never a value of
a row; what it leaves out by a condition are only rows for which the condition is certainly not true, because the
engine asks every row again.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from thebes import machine
from thebes.data.filter import RowFilter
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.field_errors import in_words
from thebes.privacy.spelling import did_you_mean

#: What a column holds: one of the types of a schema, or `text` where anything is written as text (a file of
#: characters, an interface that gives strings) and is read as the declared type, a value at a time.
Held = Literal["integer", "float", "string", "boolean", "timestamp", "bytes", "array", "image", "text", "other"]

#: Some rows: equally long columns by name. A missing value is None.
Columns = Mapping[str, Sequence[object]]


class SourceUnavailable(Refusal):
    """The rows cannot be reached now: a file is gone, a server is away or says no. Nothing was computed."""


class Connector(Protocol):
    """Rows where they lie. `columns` and `batches` may be called again and again until `close`."""

    def columns(self) -> Mapping[str, Held]:
        """Every column that the source has, and what it holds. Reads no row."""
        ...

    def batches(self, columns: Sequence[str], where: RowFilter | None = None) -> Iterator[Any]:
        """The rows, some at a time, with at least these columns: as `Columns`, a data frame or an Arrow table. Rows
        may be left out for which `where` is certainly not true, never another."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Records of a source that are no rows: how many for the same `reason`, and the `first` one's line."""

    reason: str
    records: int
    first: int


@runtime_checkable
class HandWrittenConnector(Protocol):
    """A connector of something that people or programs wrote by hand, where a record may be broken."""

    def records(self, columns: Sequence[str]) -> tuple[int, Sequence[LeftOut]]:
        """Count the rows that can be read in all of these columns, and list every other record. For whoever keeps the
        rows and for nobody else."""
        ...


@runtime_checkable
class Joining(Protocol):
    """A connector that may put into one row what stands in another."""

    def joins_within(self, schema: Schema) -> None:
        """Refuse a schema in which two such rows are not always one unit's: one unit more or less would otherwise
        change the rows of others."""
        ...


class Source(BaseModel):
    """The fields that a description of every source has. A kind adds its own fields. `files` is the folder below which
    the pictures lie that its rows name by paths."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    kind: str
    files: str | None = Field(default=None, min_length=1, max_length=4096)


Model = TypeVar("Model", bound=Source)


def read_source(model: type[Model], body: Mapping[str, Any]) -> Model:
    """A description as a model, or a refusal that names the field."""
    try:
        return model.model_validate(dict(body))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in ("source", *first["loc"]))
        why = in_words(first)
        if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
            meant = did_you_mean(str(first["loc"][0]), model.model_fields)
            why = f"is not a field of such a source{meant or ', which has ' + ', '.join(sorted(model.model_fields))}"
        raise Mistake(where[:120], why) from None


def path_of(path: str, folder: Path) -> Path:
    """The file that a source names."""
    return (folder / path).resolve()


def existing(path: Path, field: str = "source.path") -> Path:
    """A file that is there and may be read."""
    if not path.is_file():
        raise SourceUnavailable(f"{field}: there is no file {path.name} where the data set says")
    if not os.access(path, os.R_OK):
        raise SourceUnavailable(f"{field}: {path.name} may not be read by this process")
    return path


def secret_of(variable: str | None, file: str | None, *, field: str, folder: Path) -> str | None:
    """A password or token: from the environment variable or the file that a source names, which only its owner may
    read. None where it names neither. It is never part of a source itself."""
    if variable is not None:
        found = os.environ.get(variable)
        if not found:
            raise SourceUnavailable(f"source.{field}_env: the environment has no {variable}")
        return found
    if file is None:
        return None
    path = path_of(file, folder)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise SourceUnavailable(f"source.{field}_file: cannot read {path.name}: {type(error).__name__}") from None
    with os.fdopen(descriptor, encoding="utf-8") as opened:
        facts = os.fstat(opened.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_mode & 0o077 or facts.st_uid not in (machine.user(), 0):
            raise Mistake(f"source.{field}_file", f"{path.name} must be a file that only its owner reads (chmod 600)")
        try:
            return opened.read(65_536).strip()
        except UnicodeError:
            raise Mistake(f"source.{field}_file", f"{path.name} is not text") from None
