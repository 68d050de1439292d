"""A file of comma-separated text with the columns' names in its first line, read by DuckDB where it lies.

A line that does not have as many fields as there are columns is no row, nor is one where a field that is read is not
UTF-8: that one person's line is broken must not be seen in whether a question is answered. Such lines are counted for
whoever keeps the file. What must stay true: no line changes what becomes of another. Where a quote is left open, lines
after it would be taken for the rest of its field, so such a file is not read at all.
"""

from __future__ import annotations

import csv
import gzip
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Literal

from pydantic import Field

from thebes.data.connectors.connector import Held, LeftOut, Source, SourceUnavailable, existing, path_of, read_source
from thebes.data.connectors.scanned_source import ScannedSource, connection, plain_path, quoted, text
from thebes.privacy.faults import Mistake

LONGEST_HEADER = 1_000_000
#: what DuckDB says of a record that it cannot read -> in our words
_REASONS = {
    "INVALID ENCODING": "a value that is not text in UTF-8",
    "MISSING COLUMNS": "too few fields",
    "TOO MANY COLUMNS": "too many fields",
    "UNQUOTED VALUE": "something after a closing quote",
    "LINE SIZE OVER MAXIMUM": "more than 2,000,000 bytes",
}
_SHOWN = 10_000  # characters of such a record that DuckDB gives
_OPEN = (  # the record goes on below its line, or ends with a quote open
    "error_type IN ('UNQUOTED VALUE', 'LINE SIZE OVER MAXIMUM') AND (contains(csv_line, chr(10)) OR "
    "contains(csv_line, chr(13)) OR (length(csv_line) - length(replace(csv_line, '\"', ''))) % 2 = 1 OR "
    f"(error_type = 'UNQUOTED VALUE' AND length(csv_line) >= {_SHOWN}))"
)
_MEMORY = "256MB"
#: a number as it is written where the comma is decimal: points stand between thousands
_WITH_COMMA = r"\s*[+-]?(\d{1,3}(\.\d{3})+|\d+)?(,\d*)?([eE][+-]?\d+)?\s*"


_MOST_WHOLE = 1000
_WHOLE: OrderedDict[tuple[object, ...], None] = OrderedDict()  # files that were found to be whole, as they were then


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
        """Every record of the file: how many can be read in all of these columns, and why the others cannot."""
        rows, lost, line = self._counted(columns)
        if line is not None:
            raise Mistake(
                "source.path",
                f"{self.what} has a quote in line {line} that does not close its field, so that lines after it would "
                "be taken for the rest of it; mend that line",
            )
        return rows, lost

    def _counted(self, columns: Sequence[str]) -> tuple[int, list[LeftOut], int | None]:
        """How many rows there are, what is none, and the first line with a quote that was left open."""
        import duckdb

        read = " + ".join(["count(*)", *(f"0 * count({quoted(name)})" for name in columns)])
        with connection(memory_limit=_MEMORY) as opened:
            try:
                ((rows,),) = opened.execute(f"SELECT {read} FROM {self._scan(', store_rejects=true')}").fetchall()
                each = (
                    f"SELECT line, min(error_type) AS kind, bool_or({_OPEN}) AS open FROM reject_errors GROUP BY line"
                )
                found = opened.execute(
                    f"SELECT kind, count(*), min(line), min(line) FILTER (open) FROM ({each}) GROUP BY kind ORDER BY 3"
                ).fetchall()
            except duckdb.Error:
                raise self.unavailable() from None
        said = [
            LeftOut(_REASONS.get(kind, "something that cannot be read"), int(n), int(first))
            for kind, n, first, _ in found
        ]
        return int(rows), said, min((int(line) for *_, line in found if line is not None), default=None)

    def attach(self, opened: Any) -> str:
        self._closed()
        file = self._scan()
        if not self._source.decimal_comma:
            return file
        read = ", ".join(f"{_with_point(quoted(name))} AS {quoted(name)}" for name in self._source.decimal_comma)
        return f"(SELECT * REPLACE ({read}) FROM {file})"

    def _closed(self) -> None:
        """Refuse a file where one line would take others along. That is looked for once in each state of the file."""
        facts = self._path.stat()
        state = (str(self._path), facts.st_mtime_ns, facts.st_size, facts.st_ino, self._source.delimiter)
        if state in _WHOLE:
            return
        if self._counted(())[2] is not None:  # which line it is is its keeper's to know, not that of whoever asks
            raise SourceUnavailable(
                f"{self.what} cannot be read as CSV: a quote in it does not close its field; thebes dataset create "
                "names the line"
            )
        _WHOLE[state] = None
        while len(_WHOLE) > _MOST_WHOLE:
            _WHOLE.popitem(last=False)

    def _scan(self, more: str = "") -> str:
        named = ", ".join(f"{text(name)}: 'VARCHAR'" for name in self._names)
        missing = ", ".join(text(value) for value in ["", *self._source.missing])
        return (
            f"read_csv({plain_path(self._path)}, auto_detect=false, header=true, columns={{{named}}}, "
            f"delim={text(self._source.delimiter)}, quote='\"', escape='\"', nullstr=[{missing}], ignore_errors=true"
            f"{more})"
        )

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
