"""Any table that some program can export: CSV, JSON, JSON Lines and Parquet, with types inferred from all of it."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from thebes.collectors.declaring import Collector, Option, State
from thebes.collectors.inference import Reading, Types
from thebes.collectors.parsing import items
from thebes.collectors.session import Session, digest
from thebes.collectors.sources import LONGEST_LINE, broken, lines, opened, words
from thebes.data.store.declaration import MOST_COLUMNS, Column, Table
from thebes.privacy.faults import Mistake

Row = Mapping[str, Any]
_FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
}
_DELIMITERS = ",;\t|"
_ENCODINGS = ("utf-8", "cp1252")


class TableFile(Collector):
    """Looks at the whole file before it declares anything. The same row again is a new row only if the file holds it
    more often than any file before did, so that a newer and longer export adds what is new and nothing else."""

    name = "table"
    version = 1
    description = "A table from a file, such as an export of rides, coffees or a bank."
    reads = "The file you name, all of it; columns only from --columns if you give it."
    options = (
        Option("file", "a .csv, .tsv, .json, .jsonl or .parquet file", "path", required=True),
        Option("table", "name of the table in SQL", default="entry"),
        Option("columns", "only this column of the file (may be given several times)", several=True),
        Option("dates", "how days like 03/04/2026 are meant: dmy or mdy"),
        Option("decimals", "how numbers like 1.234 and 1,234 are meant: point or comma"),
        Option("text", "read this column as text, whatever it looks like", several=True),
    )
    many = True

    def declare(self, options: Mapping[str, Any], state: State) -> Sequence[Table]:
        types = self._types = _types(options, state)
        if len(types.columns) > MOST_COLUMNS:
            raise broken(options["file"], 1, f"has more than {MOST_COLUMNS} columns; choose some with --columns")
        columns = tuple(
            Column(types.names[title], types.kinds[title], (words(title, 200) or "").strip()) for title in types.columns
        )
        held = [Column(*column) for column in state.get("columns", [])]
        known = {column.name for column in columns}
        # what an earlier file had and this one has not stays declared: it may hold values
        self._columns = (*columns, *(column for column in held if column.name not in known))
        return (Table(options["table"], f"Rows of {Path(options['file']).name}", self._columns),)

    def collect(self, session: Session) -> None:
        types = self._types  # as it was declared for this run
        seen: Counter[str] = Counter()
        for line, row in _rows(session.options):
            read = {types.names[title]: types.value(title, row.get(title)) for title in types.columns}
            if all(value is None for value in read.values()):
                continue
            if any(isinstance(value, Exception) for value in read.values()):
                raise broken(session.options["file"], line, "changed while it was read")
            spelled = digest({name: value for name, value in read.items() if value is not None})
            seen[spelled] += 1
            session.insert(session.options["table"], read, key=[spelled, seen[spelled]])
        session.state["columns"] = [[c.name, c.type, c.description] for c in self._columns]


def _types(options: Mapping[str, Any], state: State) -> Types:
    """The columns of the file and what they hold; what was declared before keeps its type."""
    if options["dates"] not in (None, "dmy", "mdy"):
        raise Mistake("--dates", "must be dmy or mdy")
    if options["decimals"] not in (None, "point", "comma"):
        raise Mistake("--decimals", "must be point or comma")
    before = {name: kind for name, kind, _ in state.get("columns", [])}
    readings: dict[str, Reading] = {}
    for line, row in _rows(options):
        for title, value in row.items():
            if title not in readings:
                if len(readings) >= 10 * MOST_COLUMNS:
                    raise broken(options["file"], line, "has far too many columns")
                readings[title] = Reading(title in options["text"], options["dates"], options["decimals"])
            readings[title].see(value)
    if not readings:
        raise broken(options["file"], None, "holds no rows")
    for title in [*options["columns"], *options["text"]]:
        if title not in readings:
            raise Mistake("--columns", "or --text names a column that the file does not have")
    chosen = [title for title in readings if not options["columns"] or title in options["columns"]]
    types = Types.of({title: readings[title] for title in chosen}, before)
    if types.clash is not None:
        raise broken(
            options["file"],
            None,
            f"its column {types.names[types.clash]!r} does not fit the {before[types.names[types.clash]]} that was "
            "stored before; install it anew under another name with --as",
        )
    return types


def _rows(options: Mapping[str, Any]) -> Iterator[tuple[int, Row]]:
    """(line, {title: value}) for each row; values as they stand in the file."""
    file = Path(options["file"])
    kind = _FORMATS.get(file.suffix.lower())
    if kind is None:
        raise Mistake("--file", f"must end in one of {', '.join(_FORMATS)}")
    return {"csv": _csv, "json": _json, "jsonl": _jsonl, "parquet": _parquet}[kind](file)


def _csv(file: Path) -> Iterator[tuple[int, Row]]:
    encoding, delimiter = _dialect(file)
    with opened(file) as stream:
        text = (f"{line}\n" for _, line in lines(stream, file, encoding=encoding))
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        csv.field_size_limit(LONGEST_LINE)
        titles: list[str] | None = None
        try:
            for fields in reader:
                if not any(field.strip() for field in fields):
                    continue
                if titles is None:
                    titles = _titles(fields, file)
                    continue
                if len(fields) != len(titles):
                    raise broken(file, reader.line_num, f"has {len(fields)} fields where {len(titles)} are expected")
                yield reader.line_num, dict(zip(titles, fields, strict=True))
        except csv.Error:
            raise broken(file, reader.line_num, "is not CSV: check its quotes") from None


def _dialect(file: Path) -> tuple[str, str]:
    """The encoding, and the delimiter that the first line has most of."""
    with opened(file) as stream:
        start = stream.read(2**20)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise broken(file, 1, "is UTF-16; save it as UTF-8")
    for encoding in _ENCODINGS:
        try:
            first = start.decode(encoding).lstrip("\ufeff\r\n")
            break
        except UnicodeDecodeError as error:
            if encoding == "utf-8" and error.start > len(start) - 4 and len(start) == 2**20:
                first = start[: error.start].decode(encoding)
                break
    else:
        raise broken(file, None, "is neither UTF-8 nor Windows-1252")
    first = re.sub(r'"[^"]*"', "", first.partition("\n")[0])
    return encoding, max(_DELIMITERS, key=first.count)


def _titles(fields: list[str], file: Path) -> list[str]:
    titles = [field.strip() or f"column {place}" for place, field in enumerate(fields, start=1)]
    if len(set(titles)) != len(titles):
        raise broken(file, 1, "has several columns of one name")
    return titles


def _json(file: Path) -> Iterator[tuple[int, Row]]:
    with opened(file) as stream:
        for _, item, line in items(stream, file):
            if not isinstance(item, dict):
                raise broken(file, line, "is not a list of objects")
            yield line, item


def _jsonl(file: Path) -> Iterator[tuple[int, Row]]:
    import json

    with opened(file) as stream:
        for number, line in lines(stream, file):
            if not line.strip():
                continue
            try:
                item = json.loads(line)
            except (ValueError, RecursionError):
                item = None
            if not isinstance(item, dict):
                raise broken(file, number, "is not a JSON object")
            yield number, item


def _parquet(file: Path) -> Iterator[tuple[int, Row]]:
    import duckdb

    if any(character in str(file) for character in "*?[{"):
        raise Mistake("--file", "may not have any of * ? [ { in its path")
    with opened(file):
        pass
    settings: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "memory_limit": "1GB",
    }
    try:
        with duckdb.connect(":memory:", config=settings) as connection:
            described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(file)]).fetchall()
            # times with a zone are asked for as times in UTC: Python's own conversion would need a further package
            chosen = ", ".join(_in_utc(str(column[0]), str(column[1])) for column in described)
            found = connection.execute(f"SELECT {chosen} FROM read_parquet(?)", [str(file)])  # noqa: S608  quoted
            titles = [str(column[0]) for column in described]
            number = 0
            while batch := found.fetchmany(10_000):
                for row in batch:
                    number += 1
                    yield number, dict(zip(titles, row, strict=True))
    except duckdb.Error:
        raise broken(file, None, "is not Parquet that can be read") from None


def _in_utc(title: str, kind: str) -> str:
    name = '"' + title.replace('"', '""') + '"'
    return f"make_timestamp(epoch_us({name}))" if kind == "TIMESTAMP WITH TIME ZONE" else name
