"""A file of comma-separated text with the columns' names in its first line, read by DuckDB where it lies.

What must stay true: no line changes what becomes of another, nor whether a question is answered. A record is one line,
read by itself: one whose quotes do not close, that has another number of fields than there are columns, or that is not
UTF-8 is no row, and those before and after it are what they are without it. Such lines are counted for whoever keeps
the file. A value with a line break in it therefore cannot be written in CSV; Parquet holds it.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import Field

from thebes.data.connectors.connector import Held, LeftOut, Source, SourceUnavailable, existing, path_of, read_source
from thebes.data.connectors.scanned_source import ScannedSource, plain_path, quoted, text
from thebes.privacy.faults import Mistake

LONGEST_HEADER = 1_000_000
LONGEST_LINE = 2_000_000  #: bytes
#: what a line is cut at instead of a comma, as DuckDB must cut at something: it stands in no text that people write
_NEVER = "\x1f\x1e"
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

    def records(self, columns: Sequence[str]) -> tuple[int, list[LeftOut]]:
        """Count the lines that are rows, and the others by the reason why they are none."""
        rows, lost = 0, dict[str, LeftOut]()
        try:
            with self._opened() as file:
                _header_line(file)
                for number, line in enumerate(file, 2):
                    reason = self._why_none(line.rstrip("\r\n"))
                    if reason is None:
                        rows += 1
                    elif reason:
                        before = lost.get(reason, LeftOut(reason, 0, number))
                        lost[reason] = LeftOut(reason, before.records + 1, before.first)
        except (OSError, EOFError):
            raise self.unavailable() from None
        return rows, sorted(lost.values(), key=lambda each: each.first)

    def _why_none(self, line: str) -> str | None:
        """Say why a line is no row; nothing where it is one, and an empty text where it is blank."""
        if not line:
            return ""
        try:
            if len(line.encode()) > LONGEST_LINE:
                return "more than 2,000,000 bytes"
        except UnicodeEncodeError:
            return "a value that is not text in UTF-8"
        written = self._source.delimiter + line
        fields = re.findall(self._field, written) if '"' in line else written.split(self._source.delimiter)[1:]
        if '"' in line and "".join(fields) != written:
            return "a quote that does not close its field, or something after it"
        if len(fields) != len(self._names):
            return "too few fields" if len(fields) < len(self._names) else "too many fields"
        return None

    @property
    def _field(self) -> str:
        """A delimiter and the field after it, for DuckDB and for Python alike: quoted, or not begun by a quote."""
        cut = re.escape(self._source.delimiter)
        return f'{cut}(?:"(?:[^"]|"")*"|[^"{cut}][^{cut}]*|)'

    def attach(self, opened: Any) -> str:
        file = self._scan()
        if not self._source.decimal_comma:
            return file
        read = ", ".join(f"{_with_point(quoted(name))} AS {quoted(name)}" for name in self._source.decimal_comma)
        return f"(SELECT * REPLACE ({read}) FROM {file})"

    def _scan(self) -> str:
        """SQL for the rows: every line as one text, the fields of those that are rows, and no value where none is."""
        cut, field = text(self._source.delimiter), text(self._field)
        lines = (
            f"read_csv({plain_path(self._path)}, auto_detect=false, header=false, skip=1, columns={{line: 'VARCHAR'}}, "
            f"delim={text(_NEVER)}, quote='', escape='', strict_mode=false, ignore_errors=true, "
            f"max_line_size={LONGEST_LINE})"
        )
        quotes = f"regexp_extract_all({cut} || line, {field})"
        bare = "CASE WHEN part[2:2] = '\"' THEN replace(part[3:-2], '\"\"', '\"') ELSE part[2:] END"
        plain = f"list_transform({quotes}, lambda part: {bare})"
        fields = (
            f"SELECT CASE WHEN NOT contains(line, '\"') THEN string_split(line, {cut}) "
            f"WHEN array_to_string({quotes}, '') = {cut} || line THEN {plain} END AS fields "
            f"FROM {lines} WHERE line <> ''"
        )
        missing = ", ".join(text(value) for value in ["", *self._source.missing])
        named = ", ".join(
            f"CASE WHEN fields[{place}] NOT IN ({missing}) THEN fields[{place}] END AS {quoted(name)}"
            for place, name in enumerate(self._names, 1)
        )
        return f"(SELECT {named} FROM ({fields}) WHERE len(fields) = {len(self._names)})"

    def _header(self) -> list[str]:
        try:
            with self._opened() as file:
                line = next(csv.reader([_header_line(file)], delimiter=self._source.delimiter), [])
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


def _header_line(file: IO[str]) -> str:
    return file.readline(LONGEST_HEADER)


def open_csv(source: Mapping[str, Any], *, folder: Path) -> Csv:
    """The connector of `{"kind": "csv", "path": ...}`."""
    return Csv(read_source(CsvSource, source), folder)
