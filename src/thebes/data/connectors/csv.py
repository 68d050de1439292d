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

from pydantic import Field, field_validator, model_validator

from thebes.data.connectors.connector import Held, LeftOut, Source, SourceUnavailable, existing, path_of, read_source
from thebes.data.connectors.csv_values import (
    UNREAD,
    dated,
    decimal_comma,
    encoding_fault,
    form_fault,
    in_utf8,
    is_utf8,
    replaced,
    said,
    thousands_comma,
)
from thebes.data.connectors.scanned_source import ScannedSource, plain_path, quoted, text
from thebes.privacy.faults import Mistake

LONGEST_HEADER = 1_000_000
LONGEST_LINE = 2_000_000  #: bytes
#: what a line is cut at instead of a comma, as DuckDB must cut at something: it stands in no text that people write
_NEVER = "\x1f\x1e"


def not_text(encoding: str) -> str:
    """Say why a line in another encoding is no row."""
    return f"a value that is not text in {encoding.upper()}"


def encoding_remedy(encoding: str) -> str:
    """Say what to declare about a file that is not in the encoding that its source says."""
    other = "windows-1252" if is_utf8(encoding) else "utf-8"
    return (
        f'say in a .toml (kind = "csv", path = ...) in which encoding it was written, such as encoding = "{other}", '
        "above any [table], and give that as the source"
    )


class CsvSource(Source):
    """`missing`: what is written where a value is missing, besides nothing at all. `skip`: lines before the one with
    the names. `columns`: another name for a column of the file. The others say, by column, how values are written:
    `decimal_comma` 1.234,5, `thousands_comma` 1,234.5, `dates` in which form, `yes_no` in which two words."""

    kind: Literal["csv"]
    path: str = Field(min_length=1, max_length=4096)
    delimiter: str = Field(default=",", min_length=1, max_length=1)
    encoding: str = Field(default="utf-8", min_length=1, max_length=40)
    skip: int = Field(default=0, ge=0, le=10_000)
    columns: dict[str, str] = Field(default={}, max_length=10_000)
    missing: list[str] = Field(default=[], max_length=20)
    decimal_comma: list[str] = Field(default=[], max_length=10_000)
    thousands_comma: list[str] = Field(default=[], max_length=10_000)
    dates: dict[str, str] = Field(default={}, max_length=10_000)
    yes_no: dict[str, list[str]] = Field(default={}, max_length=10_000)

    @field_validator("columns", mode="before")
    @classmethod
    def _names(cls, columns: Any) -> Any:
        for name, value in columns.items() if isinstance(columns, Mapping) else ():
            if name in cls.model_fields and not isinstance(value, str):
                raise ValueError(_stray(name))
        return columns

    @model_validator(mode="after")
    def _written(self) -> CsvSource:
        if fault := encoding_fault(self.encoding):
            raise ValueError(f"encoding {fault}")
        for name, form in self.dates.items():
            if fault := form_fault(form):
                raise ValueError(f"dates: the form of {name[:40]!r} {fault}")
        for name, words in self.yes_no.items():
            if len(words) != 2 or words[0].strip().lower() == words[1].strip().lower():
                raise ValueError(f"yes_no: {name[:40]!r} needs two words, the one for yes first")
        ways = [*self.decimal_comma, *self.thousands_comma, *self.dates, *self.yes_no]
        if twice := next((name for name in ways if ways.count(name) > 1), None):
            raise ValueError(f"says twice how {twice[:40]!r} is written")
        return self


class Csv(ScannedSource):
    """One file, perhaps compressed with gzip. One in another encoding than UTF-8 is read as it was when opened."""

    def __init__(self, source: CsvSource, folder: Path) -> None:
        self._source = source
        self._path = existing(path_of(source.path, folder))
        self.what = self._path.name
        self._names = self._renamed(self._header())
        self._copy: IO[bytes] | None = None
        self._scanned = self._path
        if not is_utf8(source.encoding):
            with self._opened() as opened:
                self._copy, self._scanned = in_utf8(opened, self.what)
        self.paths = (self._scanned,)
        self._ways = self._ways_of_writing()

    def close(self) -> None:
        if self._copy is not None:
            self._copy.close()

    def columns(self) -> Mapping[str, Held]:
        return dict.fromkeys(self._names, "text")

    def records(self, columns: Sequence[str]) -> tuple[int, list[LeftOut]]:
        """Count the lines that are rows, and the others by the reason why they are none."""
        rows, lost = 0, dict[str, LeftOut]()
        try:
            with self._opened() as file:
                self._to_header(file)
                _header_line(file)
                for number, line in enumerate(file, 2 + self._source.skip):
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
            return not_text(self._source.encoding)
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
        return f"(SELECT * REPLACE ({replaced(self._ways)}) FROM {file})" if self._ways else file

    def _ways_of_writing(self) -> dict[str, str]:
        """Return SQL for every column that is written in a way of its own."""
        source = self._source
        ways = {name: decimal_comma(quoted(name)) for name in source.decimal_comma}
        ways |= {name: thousands_comma(quoted(name)) for name in source.thousands_comma}
        ways |= {name: dated(quoted(name), form) for name, form in source.dates.items()}
        ways |= {name: said(quoted(name), words) for name, words in source.yes_no.items()}
        for field in ("decimal_comma", "thousands_comma", "dates", "yes_no"):
            for name in getattr(source, field):
                if name not in self._names:
                    raise Mistake(f"source.{field}", f"names {name[:40]!r}, which is not a column of {self.what}")
        return {quoted(name): made for name, made in ways.items()}

    def _renamed(self, header: list[str]) -> list[str]:
        """Return the names by which the columns go here."""
        new = {there: here for here, there in self._source.columns.items()}
        for there, here in new.items():
            if there not in header:
                hint = f"; if it is not meant as one, {_stray(here)}" if here in CsvSource.model_fields else ""
                raise Mistake("source.columns", f"names {there[:40]!r}, which is not a column of {self.what}{hint}")
        names = [new.get(name, name) for name in header]
        if len({quoted(name).lower() for name in names}) != len(names):
            raise Mistake("source.columns", f"gives two columns of {self.what} the same name, but perhaps for its case")
        return names

    def _scan(self) -> str:
        """SQL for the rows: every line as one text, the fields of those that are rows, and no value where none is."""
        cut, field = text(self._source.delimiter), text(self._field)
        lines = (
            f"read_csv({plain_path(self._scanned)}, auto_detect=false, header=false, "
            f"skip={1 + self._source.skip}, columns={{line: 'VARCHAR'}}, "
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
                self._to_header(file)
                line = next(csv.reader([_header_line(file)], delimiter=self._source.delimiter), [])
            "".join(line).encode()
        except UnicodeError:
            encoding = self._source.encoding
            told = f"{self.what} is not text in {encoding.upper()}; {encoding_remedy(encoding)}"
            raise SourceUnavailable(told) from None
        except (OSError, csv.Error, EOFError) as error:
            raise SourceUnavailable(
                f"{self.what} cannot be read as CSV in {self._source.encoding}: {type(error).__name__}"
            ) from None
        if not line or any(not name for name in line):
            raise Mistake("source.path", f"{self.what} must have the columns' names in its first line")
        if len({quoted(name).lower() for name in line}) != len(line):
            raise Mistake("source.path", f"{self.what} has two columns of the same name, but perhaps for its case")
        return line

    def _to_header(self, file: IO[str]) -> None:
        for _ in range(self._source.skip):
            file.readline(LONGEST_LINE)

    def _opened(self) -> IO[str]:  # other lines need not be text, and are read ahead
        plain = is_utf8(self._source.encoding)
        name, errors = ("utf-8-sig", "surrogateescape") if plain else (self._source.encoding, UNREAD)
        if self._path.suffix == ".gz":
            return gzip.open(self._path, "rt", encoding=name, errors=errors, newline="")
        return self._path.open(encoding=name, errors=errors, newline="")


def _stray(field: str) -> str:
    return f"{field} stands below [columns], where names of columns stand: move that line above [columns]"


def _header_line(file: IO[str]) -> str:
    return file.readline(LONGEST_HEADER)


def open_csv(source: Mapping[str, Any], *, folder: Path) -> Csv:
    """The connector of `{"kind": "csv", "path": ...}`."""
    return Csv(read_source(CsvSource, source), folder)
