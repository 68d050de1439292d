"""Tables in files. What is wrong with one is said by line and column, never by the value that stands there.

A CSV file knows no types, and none is guessed from how a value looks to somebody: a column whose every cell is a number
is numbers, any other is text as it is written; what says that there is no value is none, as for whoever fills a store
from a file. Where a document declares what a column holds, that is what is read.
A number is whole or not by itself, as in a file of its own person: nobody's point makes floats of the others'.
"""

from __future__ import annotations

import csv
import math
import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from thebes.data.store.values import says_none
from thebes.privacy.faults import Mistake
from thebes.simulation.tables import Population, people_of

_KINDS = (".csv", ".tsv", ".parquet")
_BETWEEN = (",", ";", "\t", "|")
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]*)", re.ASCII)
_LONGEST_WHOLE = 40  #: characters of a number that may be one of 64 bits: Python reads none of thousands
_NUMBER = re.compile(r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", re.ASCII)
_TRUTH = {"true": True, "false": False}

Scalar = bool | int | float | str


def load(
    path: Path, *, numbers: Collection[str] = (), sets: Mapping[str, Sequence[Scalar]] | None = None
) -> Population:
    """A CSV or Parquet file as a flat table. In the columns called `numbers` text is a mistake; those in `sets` hold
    declared values, which say what a cell is."""
    if not path.exists():
        raise Mistake("DATA", f"there is no file {str(path)!r}")
    kind = path.suffix.lower()
    if kind not in _KINDS:
        raise Mistake("DATA", "must be a .csv or a .parquet file")
    wanted = {name.lower() for name in numbers}
    if kind == ".parquet":
        columns = _parquet(path)
        for name in columns:
            if name.lower() in wanted:
                _check_numbers(name, columns[name])
        return people_of(columns)
    declared = {name.lower(): values for name, values in (sets or {}).items()}
    names, cells, lines = _table(path)
    columns = {}
    for name, texts in zip(names, cells, strict=True):
        if name.lower() in wanted:
            columns[name] = _numbers(path, name, texts, lines)
        elif name.lower() in declared:
            columns[name] = _declared(texts, declared[name.lower()])
        else:
            columns[name] = _undeclared(path, name, texts, lines)
    return people_of(columns)


def _parquet(path: Path) -> dict[str, Any]:
    """The columns with the types that the file gives them."""
    import duckdb

    try:
        with duckdb.connect() as engine:
            return dict(engine.sql("SELECT * FROM read_parquet(?)", params=[str(path)]).fetchnumpy())
    except duckdb.Error:
        raise Mistake("DATA", f"{str(path)!r} cannot be read as PARQUET") from None


def _table(path: Path) -> tuple[list[str], list[tuple[str, ...]], list[int]]:
    """(names, every column's cells as text, the line of each row). Every line has as many values as the first, which
    names the columns."""
    names: list[str] = []
    rows: list[list[str]] = []
    lines: list[int] = []
    for line, row in _lines(path):
        if not names:
            names = row
        elif len(row) != len(names):
            raise Mistake("DATA", f"line {line} of {str(path)!r} has {len(row)} values, the first has {len(names)}")
        else:
            rows.append(row)
            lines.append(line)
    if not rows:
        raise Mistake("DATA", f"{str(path)!r} is empty; line 1 names the columns, every other one is a row")
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise Mistake("DATA", f"{str(path)!r} has two columns called {twice!r}")
    return names, list(zip(*rows, strict=True)), lines


def _undeclared(path: Path, name: str, texts: Sequence[str], lines: Sequence[int]) -> list[Any]:
    """Numbers if every cell is written as one and no cell as something else, such as a code that begins with 0 or +."""
    known: dict[str, Any] = {}
    odd = False
    for text in set(texts):
        bare = text.strip()
        if says_none(text):
            known[text] = None
        elif _NUMBER.fullmatch(bare) and bare[0] != "+" and _fits(bare):
            known[text] = _number(bare)
        else:
            odd = True
    found = {type(number) for number in known.values()} - {type(None)}
    if odd or not found:
        if found:
            line = _line(texts, lines, lambda text: text not in known)
            what = f"is read as text, although some of it could be numbers: line {line} is none"
            warnings.warn(f"column {name!r} of {str(path)!r} {what}", stacklevel=3)
        return [None if says_none(text) else text for text in texts]
    if found == {int, float}:
        line = _line(texts, lines, lambda text: type(known[text]) is float)
        what = f"has whole numbers and others; line {line} has one of the others"
        advice = "each stays what it is, and SQL divides a whole one without a rest"
        warnings.warn(f"column {name!r} of {str(path)!r} {what}: {advice}", stacklevel=3)
    return [known[text] for text in texts]


def _number(bare: str) -> int | float:
    return int(bare) if _WHOLE.fullmatch(bare) else float(bare)


def _fits(bare: str) -> bool:
    """Return whether a store holds it as the number that it is: digits beyond neither 64 bits nor every float."""
    if _WHOLE.fullmatch(bare):
        return len(bare) <= _LONGEST_WHOLE and -(2**63) <= int(bare) < 2**63
    return math.isfinite(float(bare))


def _line(texts: Sequence[str], lines: Sequence[int], odd: Callable[[str], bool]) -> int:
    return next(line for line, text in zip(lines, texts, strict=True) if odd(text))


def _declared(texts: Sequence[str], values: Sequence[Scalar]) -> list[Any]:
    """Each cell as the declared value that is written so, else as a number where numbers are declared, else as text."""
    told = {value for value in values if isinstance(value, str)}
    truth = any(isinstance(value, bool) for value in values)
    numbers = any(not isinstance(value, str) for value in values)

    def read(text: str) -> Any:
        bare = text.strip()
        if text in told:
            return text
        if truth and bare.lower() in _TRUTH:
            return _TRUTH[bare.lower()]
        if numbers and _NUMBER.fullmatch(bare) and _fits(bare):
            return _number(bare)
        return None if says_none(text) else text

    known = {text: read(text) for text in set(texts)}
    return [known[text] for text in texts]


def _numbers(path: Path, name: str, texts: Sequence[str], lines: Sequence[int]) -> list[Any]:
    known: dict[str, Any] = {}
    for text in set(texts):
        bare = text.strip()
        if says_none(text):
            known[text] = None
        elif _NUMBER.fullmatch(bare):
            known[text] = _number(bare) if _fits(bare) else ...
    if len(known) < len(set(texts)):
        line = _line(texts, lines, lambda text: text not in known)
        raise Mistake("DATA", f"line {line} has text in column {name!r}, where the task needs a number")
    if ... in known.values():
        line = _line(texts, lines, lambda text: known[text] is ...)
        raise Mistake("DATA", f"line {line} has a number in column {name!r} that is too large for a store")
    return [known[text] for text in texts]


def _check_numbers(name: str, values: Any) -> None:
    if values.dtype.kind != "O":
        return
    texts = (isinstance(value, str) and bool(value.strip()) for value in values.tolist())
    where = next((place + 1 for place, text in enumerate(texts) if text), None)
    if where is not None:
        raise Mistake("DATA", f"row {where} has text in column {name!r}, where the task needs a number")


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(number, values) of every line that is not empty."""
    begun = 1
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            between = "\t" if path.suffix.lower() == ".tsv" else next((c for c in _BETWEEN if c in first), ",")
            file.seek(0)
            rows = csv.reader(file, delimiter=between, strict=True)  # a quote left open would take other rows along
            for row in rows:
                if row:
                    yield rows.line_num, row
                begun = rows.line_num + 1
    except UnicodeDecodeError:
        raise Mistake("DATA", f"{str(path)!r} is not text in UTF-8") from None
    except csv.Error:
        raise Mistake("DATA", f"line {begun} of {str(path)!r} cannot be read as CSV; check its quotes") from None
