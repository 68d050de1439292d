"""Any table that some program can export: CSV, JSON, JSON Lines and Parquet, with types inferred from all of it."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from thebes.collectors.declaration import Collector, Option, State
from thebes.collectors.inference import ColumnReading, Types, misfit
from thebes.collectors.session import Session, digest
from thebes.collectors.sources import LONGEST_LINE, broken, lines, opened, words
from thebes.collectors.stream_parser import items
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
_LOOKED_AT, _LOOKED_INTO = 200, 10_000  #: lines, and characters of each, where a header below others is looked for
_ENOUGH = 3  #: lines of as many fields, one after the other, that look like a table


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
        Option("skip", "how many lines of a .csv stand above the line with the columns' names", "number"),
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
        self._unsure = {column.name for column in columns} - {column.name for column in held}
        return (Table(options["table"], f"Rows of {Path(options['file']).name}", self._columns),)

    def doubts(self) -> Sequence[str]:
        named = [(self._types.names[title], doubt) for title, doubt in self._types.doubts.items()]
        return [f"{name} {doubt}" for name, doubt in named if name in self._unsure]

    def collect(self, session: Session) -> None:
        types = self._types  # as it was declared for this run
        seen: Counter[str] = Counter()
        for line, row in _rows(session.options):
            read = {types.names[title]: types.value(title, row.get(title)) for title in types.columns}
            if all(value is None for value in read.values()):
                session.leave_out("empty rows")
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
    fresh = {"dates": options["dates"], "decimals": options["decimals"]}
    readings: dict[str, ColumnReading] = {}
    for line, row in _rows(options):
        for title, value in row.items():
            if title not in readings:
                if len(readings) >= 10 * MOST_COLUMNS:
                    raise broken(options["file"], line, "has far too many columns")
                readings[title] = ColumnReading(title in options["text"], **fresh)
            readings[title].see(value)
    if not readings:
        raise broken(options["file"], None, "holds no rows")
    for title in [*options["columns"], *options["text"]]:
        if title not in readings:
            raise Mistake("--columns", "or --text names a column that the file does not have")
    chosen = [title for title in readings if not options["columns"] or title in options["columns"]]
    types = Types.of({title: readings[title] for title in chosen}, before)
    if (clash := types.clash) is not None:
        name, reading = types.names[clash], ColumnReading(clash in options["text"], **fresh)
        line_or_none = misfit(((at, row.get(clash)) for at, row in _rows(options)), reading, before[name])
        raise broken(
            options["file"],
            line_or_none,
            f"its column {name!r} does not fit the {before[name]} that was stored before; mend that line, or, if the "
            "column means something else now, install the file anew under another name with --as",
        )
    return types


def _rows(options: Mapping[str, Any]) -> Iterator[tuple[int, Row]]:
    """(line, {title: value}) for each row; values as they stand in the file."""
    file = Path(options["file"])
    kind = _FORMATS.get(file.suffix.lower())
    if kind is None:
        raise Mistake("--file", f"must end in one of {', '.join(_FORMATS)}")
    skip = options["skip"]
    if skip is not None and (kind != "csv" or skip < 0 or skip % 1):
        raise Mistake("--skip", "must be a number of lines, and is for CSV only")
    if kind == "csv":
        return _csv(file, None if skip is None else int(skip))
    return {"json": _json, "jsonl": _jsonl, "parquet": _parquet}[kind](file)


def _csv(file: Path, skip: int | None) -> Iterator[tuple[int, Row]]:
    encoding, delimiter = _dialect(file, skip or 0)
    header = _header(file, encoding) if skip is None else None
    hint = "" if header is None else f"; if the columns' names stand in line {header}, add --skip {header - 1}"
    with opened(file) as stream:
        text = (f"{line}\n" for number, line in lines(stream, file, encoding=encoding) if number > (skip or 0))
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        csv.field_size_limit(LONGEST_LINE)
        titles: list[str] | None = None
        try:
            for fields in reader:
                if not any(field.strip() for field in fields):
                    continue
                line = reader.line_num + (skip or 0)
                if titles is None:
                    titles = _titles(fields, file, line)
                    if header is not None and header > line and len(fields) == 1:
                        raise broken(file, line, f"has one field, and lines below have more{hint}, else --skip 0")
                    continue
                if len(fields) != len(titles):
                    fault = f"has {len(fields)} fields where {len(titles)} are expected{hint}"
                    raise broken(file, line, fault)
                yield line, dict(zip(titles, fields, strict=True))
        except csv.Error:
            raise broken(file, reader.line_num + (skip or 0), f"is not CSV: check its quotes{hint}") from None


def _header(file: Path, encoding: str) -> int | None:
    """The line in which a table seems to begin below other lines, as in exports of banks: the first of the most lines
    one after the other that have as many fields. None where the first line of all is that one."""
    with opened(file) as stream:
        start = [*islice(lines(stream, file, encoding=encoding), _LOOKED_AT)]
    found: dict[int, int] = {}  # from the line where a run begins to how many lines it has
    for delimiter in _DELIMITERS:
        before, begun = 0, 0
        for number, line in start:
            fields = next(csv.reader([line[:_LOOKED_INTO].replace("\r", " ")], delimiter=delimiter), [])
            count = len(fields) if any(field.strip() for field in fields) else 0
            if count != before:
                before, begun = count, number
            if count > 1:
                found[begun] = max(found.get(begun, 0), number - begun + 1)
    first = next((number for number, line in start if line.strip()), 0)
    most = max(found.values(), default=0)
    if most < _ENOUGH or found.get(first) == most:
        return None
    return min(begun for begun, count in found.items() if count == most)


def _dialect(file: Path, skip: int) -> tuple[str, str]:
    """The encoding, and the delimiter that the first line, or the first after those to skip, has most of."""
    with opened(file) as stream:
        start = stream.read(2**20)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise broken(file, 1, "is UTF-16; save it as UTF-8")
    for encoding in _ENCODINGS:
        try:
            first = start.decode(encoding)
            break
        except UnicodeDecodeError as error:
            if encoding == "utf-8" and error.start > len(start) - 4 and len(start) == 2**20:
                first = start[: error.start].decode(encoding)
                break
    else:
        raise broken(file, None, "is neither UTF-8 nor Windows-1252")
    first = "\n".join(first.removeprefix("\ufeff").split("\n", skip)[skip:]).lstrip("\r\n")
    first = re.sub(r'"[^"]*"', "", first.partition("\n")[0])
    return encoding, max(_DELIMITERS, key=first.count)


def _titles(fields: list[str], file: Path, line: int) -> list[str]:
    titles = [field.strip() or f"column {place}" for place, field in enumerate(fields, start=1)]
    for place, title in enumerate(titles, start=1):
        if (first := titles.index(title) + 1) != place:  # by place: where a file has no names at all they would be data
            raise broken(file, line, f"gives columns {first} and {place} the same name; give one of them another")
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
