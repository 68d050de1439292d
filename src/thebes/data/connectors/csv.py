"""A file of comma-separated text with the columns' names in its first line, read by DuckDB where it lies.

A line that does not have as many fields as there are columns is no row, nor is one where a field that is read is not
UTF-8: that one person's line is broken must not be seen in whether a question is answered.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import Field

from thebes.data.connectors.connector import Held, Source, SourceUnavailable, existing, path_of, read_source
from thebes.data.connectors.scanning import ScannedSource, plain_path, quoted, text
from thebes.privacy.faults import Mistake

LONGEST_HEADER = 1_000_000
#: a number as it is written where the comma is decimal: points stand between thousands
_WITH_COMMA = r"\s*[+-]?(\d{1,3}(\.\d{3})+|\d+)?(,\d*)?([eE][+-]?\d+)?\s*"


class CsvSource(Source):
    """`missing`: what is written where a value is missing, besides nothing at all. `decimal_comma`: columns whose
    numbers are written like 1.234,5."""

    kind: Literal["csv"]
    path: str = Field(min_length=1, max_length=4096)
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    missing: list[str] = Field(default=[], max_length=20)
    decimal_comma: list[str] = Field(default=[], max_length=10_000)


class Csv(ScannedSource):
    """One file, perhaps compressed with gzip."""

    def __init__(self, source: CsvSource, folder: Path) -> None:
        self._source = source
        self._path = existing(path_of(source.path, folder))
        self.paths = (self._path,)
        self.what = self._path.name
        self._names = self._header()
        for name in source.decimal_comma:
            if name not in self._names:
                raise Mistake("source.decimal_comma", f"names {name[:40]!r}, which is no column of {self.what}")

    def columns(self) -> Mapping[str, Held]:
        return dict.fromkeys(self._names, "text")

    def attach(self, opened: Any) -> str:
        named = ", ".join(f"{text(name)}: 'VARCHAR'" for name in self._names)
        missing = ", ".join(text(value) for value in ["", *self._source.missing])
        file = (
            f"read_csv({plain_path(self._path)}, auto_detect=false, header=true, columns={{{named}}}, "
            f"delim={text(self._source.delimiter)}, quote='\"', escape='\"', nullstr=[{missing}], ignore_errors=true)"
        )
        if not self._source.decimal_comma:
            return file
        read = ", ".join(f"{_with_point(quoted(name))} AS {quoted(name)}" for name in self._source.decimal_comma)
        return f"(SELECT * REPLACE ({read}) FROM {file})"

    def _header(self) -> list[str]:
        try:
            with self._opened() as file:
                line = next(csv.reader([_first_record(file)], delimiter=self._source.delimiter), [])
            "".join(line).encode()
        except (OSError, UnicodeError, csv.Error, EOFError) as error:
            raise SourceUnavailable(f"{self.what} cannot be read as CSV in UTF-8: {type(error).__name__}") from None
        if not line or any(not name for name in line):
            raise Mistake("source.path", f"{self.what} must have the columns' names in its first line")
        if len({quoted(name).lower() for name in line}) != len(line):
            raise Mistake("source.path", f"{self.what} has two columns of the same name, but perhaps for its case")
        return line

    def _opened(self) -> IO[str]:  # other lines need not be UTF-8, and are read ahead
        if self._path.suffix == ".gz":
            return gzip.open(self._path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")
        return self._path.open(encoding="utf-8-sig", errors="surrogateescape", newline="")


def _with_point(column: str) -> str:
    """SQL for what a field would be with a decimal point. Whose points are not between thousands was written by other
    rules, and is no number: 1.5 must not become 15."""
    plain = f"replace(replace({column}, '.', ''), ',', '.')"
    return (
        f"CASE WHEN regexp_full_match({column}, {text(_WITH_COMMA)}) THEN {plain} "
        f"WHEN contains({column}, '.') THEN NULL ELSE {column} END"
    )


def _first_record(file: IO[str]) -> str:
    line = file.readline(LONGEST_HEADER)
    while line.count('"') % 2 and len(line) < LONGEST_HEADER and (more := file.readline(LONGEST_HEADER)):
        line += more
    return line


def open_csv(source: Mapping[str, Any], *, folder: Path) -> Csv:
    """The connector of `{"kind": "csv", "path": ...}`."""
    return Csv(read_source(CsvSource, source), folder)
