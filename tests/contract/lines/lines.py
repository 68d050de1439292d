"""A connector in a package of its own: it reads a file with a JSON object in each line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from thebes.data.connectors.connector import Columns, Held, Source, SourceUnavailable, existing, path_of, read_source
from thebes.data.filter import RowFilter


class LinesSource(Source):
    path: str
    columns: list[str]


class Lines:
    """A file with a JSON object in each line."""

    def __init__(self, source: LinesSource, folder: Path) -> None:
        self._path, self._columns = existing(path_of(source.path, folder)), source.columns

    def columns(self) -> Mapping[str, Held]:
        return dict.fromkeys(self._columns, "text")

    def batches(self, columns: Sequence[str], where: RowFilter | None = None) -> Iterator[Columns]:
        with self._path.open(encoding="utf-8") as lines:
            rows = (self._row(*line) for line in enumerate(lines, start=1))
            while some := list(islice(rows, 10_000)):
                yield {name: [row.get(name) for row in some] for name in columns}

    def _row(self, number: int, line: str) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise SourceUnavailable(f"source.path: line {number} of {self._path.name} is no JSON object")
        return row

    def close(self) -> None: ...


def open_lines(source: Mapping[str, Any], *, folder: Path) -> Lines:
    return Lines(read_source(LinesSource, source), folder)
