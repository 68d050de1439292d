"""Tables in files. What is wrong with one is said by line and column, never by the value that stands there."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.simulation.tables import Population, people_of

_READERS = {".csv": "read_csv", ".tsv": "read_csv", ".parquet": "read_parquet"}
_BETWEEN = (",", ";", "\t", "|")


def load(path: Path, *, numbers: Collection[str] = ()) -> Population:
    """A CSV or Parquet file as a flat table. In the columns called `numbers` text is a mistake."""
    if not path.exists():
        raise Mistake("DATA", f"there is no file {str(path)!r}")
    import duckdb

    kind = path.suffix.lower()
    if kind not in _READERS:
        raise Mistake("DATA", "must be a .csv or a .parquet file")
    if kind != ".parquet":
        _check_lines(path)
    try:
        with duckdb.connect() as engine:
            frame = engine.sql(f"SELECT * FROM {_READERS[kind]}(?)", params=[str(path)]).df()  # noqa: S608
    except duckdb.Error:
        raise Mistake("DATA", f"{str(path)!r} cannot be read as {path.suffix[1:].upper()}") from None
    wanted = {name.lower() for name in numbers}
    for name in frame.columns:
        if str(name).lower() in wanted:
            _check_numbers(path, str(name), frame[name].to_numpy())
    return people_of(frame)


def _check_lines(path: Path) -> None:
    """Every line has as many values as the first, which names the columns."""
    width = 0
    for line, row in _lines(path):
        width = width or len(row)
        if len(row) != width:
            raise Mistake("DATA", f"line {line} of {str(path)!r} has {len(row)} values, the first has {width}")
    if not width or line == 1:
        raise Mistake("DATA", f"{str(path)!r} is empty; line 1 names the columns, every other one is a row")


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(number, values) of every line that is not empty."""
    rows: Any = None
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            between = "\t" if path.suffix.lower() == ".tsv" else next((c for c in _BETWEEN if c in first), ",")
            file.seek(0)
            rows = csv.reader(file, delimiter=between)
            for row in rows:
                if row:
                    yield rows.line_num, row
    except UnicodeDecodeError:
        raise Mistake("DATA", f"{str(path)!r} is not text in UTF-8") from None
    except csv.Error:
        raise Mistake("DATA", f"line {rows.line_num} of {str(path)!r} cannot be read as CSV") from None


def _check_numbers(path: Path, name: str, values: Any) -> None:
    if values.dtype.kind != "O":
        return
    if path.suffix.lower() == ".parquet":
        where = next((f"row {place + 1}" for place, value in enumerate(values) if _is_text(value)), None)
    else:
        lines = _lines(path)
        place = next(lines)[1].index(name)
        where = next((f"line {line}" for line, row in lines if _is_text(row[place])), None)
    if where is not None:
        raise Mistake("DATA", f"{where} has text in column {name!r}, where the task needs a number")


def _is_text(value: object) -> bool:
    if not isinstance(value, str) or not value.strip():
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False
