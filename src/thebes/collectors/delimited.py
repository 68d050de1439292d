"""Tables in text as exports write them: CSV, row by row, under the names of its columns.

What must stay true: memory is bounded by one row; a row that does not fit the names is a Mistake with its line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence

from thebes.collectors.sources import LONGEST_LINE, SourceFile, broken, lines

LATEST_HEADER = 50  #: lines; banks write some above the names of the columns


def records(
    member: SourceFile, needed: Sequence[str], *, delimiter: str = ",", encoding: str = "utf-8"
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line, {column: text}) for each row below the first line that names all `needed` columns. Lines without
    anything in them are passed over."""
    csv.field_size_limit(LONGEST_LINE)
    text = (f"{line}\n" for _, line in lines(member.stream, member.name, encoding=encoding))
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    titles: list[str] | None = None
    try:
        for fields in reader:
            if titles is None:
                named = [field.strip() for field in fields]
                if set(needed) <= set(named):
                    titles = named
                elif reader.line_num >= LATEST_HEADER:
                    break
                continue
            if not any(field.strip() for field in fields):
                continue
            if len(fields) != len(titles):
                raise broken(member.name, reader.line_num, f"has {len(fields)} fields where {len(titles)} are expected")
            yield reader.line_num, dict(zip(titles, fields, strict=True))
    except csv.Error:
        raise broken(member.name, reader.line_num, "is not CSV: check its quotes") from None
    if titles is None:
        raise broken(member.name, None, f"has no line with the columns {', '.join(needed)}")
